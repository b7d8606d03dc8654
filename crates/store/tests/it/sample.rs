//! Records to test with.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use windlass::{
    CallId, CallRecord, Caller, CallerType, ErrorKind, Output, RecordFilter, RecordedError, Status,
    TenantId,
};

/// A moment that every store keeps exactly.
pub(crate) fn start() -> Timestamp {
    Timestamp::from_microsecond(1_760_000_000_123_456).unwrap()
}

/// A call of `add` that succeeded, `second` seconds after [`start`].
pub(crate) fn call(second: i64) -> CallRecord {
    let created_at = start() + SignedDuration::from_secs(second);
    CallRecord {
        id: CallId::at(created_at),
        call_ref: None,
        tool_name: "add".into(),
        arguments: Arc::new(json!({"a": second, "b": 2.5, "text": "naïve\u{0} 天气"})),
        result: Some(Arc::new(Output::text("4"))),
        status: Status::Succeeded,
        error: None,
        caller: Arc::default(),
        attempts: 1,
        queue_wait: Duration::from_micros(17),
        run_time: Duration::from_micros(1234),
        created_at,
        details: None,
    }
}

/// The same call by somebody.
pub(crate) fn by(caller: Caller, record: CallRecord) -> CallRecord {
    CallRecord { caller: Arc::new(caller), ..record }
}

/// The same call, of a tool.
pub(crate) fn of(tool: &str, record: CallRecord) -> CallRecord {
    CallRecord { tool_name: tool.into(), ..record }
}

/// The same call, with a bad end.
pub(crate) fn failed(kind: ErrorKind, record: CallRecord) -> CallRecord {
    let ran =
        ![ErrorKind::Denied, ErrorKind::InvalidArguments, ErrorKind::ToolNotFound].contains(&kind);
    CallRecord {
        result: None,
        attempts: if ran { record.attempts } else { 0 },
        status: Status::of(kind, ran),
        error: Some(Box::new(RecordedError {
            kind,
            message: format!("went wrong: {kind}"),
            feedback: None,
        })),
        ..record
    }
}

pub(crate) fn in_conversation(conversation: &str) -> Caller {
    Caller { conversation: Some(conversation.into()), ..Caller::default() }
}

pub(crate) fn of_tenant(tenant: &str) -> Caller {
    Caller { tenant: TenantId::new(tenant), ..Caller::default() }
}

/// A caller with everything that can be said of one.
pub(crate) fn detailed() -> Caller {
    Caller {
        tenant: TenantId::default(),
        user: Some("ada".into()),
        caller_id: Some("agent-7".into()),
        caller_type: CallerType::ConversationAgent,
        conversation: Some("c-1".into()),
        workflow: Some("w-1".into()),
        parent: Some(CallId::at(start())),
    }
}

pub(crate) fn any() -> RecordFilter {
    RecordFilter::default()
}

/// A record as text, which shows every field.
pub(crate) fn shown(record: &CallRecord) -> String {
    format!("{record:?}")
}
