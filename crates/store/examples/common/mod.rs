//! Records to measure with.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use windlass::{CallId, CallRecord, Caller, CallerType, ErrorKind, Output, RecordedError, Status};

/// About 500 bytes, as a record of a small tool is.
pub(crate) fn record(number: usize) -> CallRecord {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let created_at = Timestamp::UNIX_EPOCH
        + SignedDuration::from_micros(1_760_000_000_000_000 + number as i64 * 50);
    let failed = spread.is_multiple_of(50);
    let error = || {
        Box::new(RecordedError {
            kind: ErrorKind::Network,
            message: "no route to host".into(),
            feedback: None,
        })
    };
    CallRecord {
        id: CallId::at(created_at),
        call_ref: Some(format!("toolu_{spread:024x}").into()),
        tool_name: format!("tool_{}", spread % 20).into(),
        arguments: Arc::new(json!({
            "query": "weather in Berlin tomorrow",
            "limit": 10,
            "number": number,
            "filters": {"lang": "de", "safe": true},
        })),
        result: (!failed).then(|| {
            Arc::new(Output::text(
                "Berlin: 21 degrees, light rain in the afternoon, wind from the west with gusts of up to 40 km/h; sunset at 20:41.",
            ))
        }),
        status: if failed { Status::Failed } else { Status::Succeeded },
        error: failed.then(error),
        caller: Arc::new(Caller {
            caller_id: Some(format!("agent-{}", spread % 100).into()),
            caller_type: CallerType::ConversationAgent,
            conversation: (!spread.is_multiple_of(4))
                .then(|| format!("conversation-{:04}", number / 2000 * 50 + spread % 50).into()),
            ..Caller::default()
        }),
        attempts: 1,
        queue_wait: Duration::from_micros(12),
        run_time: Duration::from_micros((spread % 50_000) as u64),
        created_at,
        details: None,
    }
}
