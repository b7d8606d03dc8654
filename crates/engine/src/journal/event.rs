//! Events: everything that happens, once and in order, for all subscribers.
//!
//! The bus is bounded. A subscriber that falls behind is told how many events
//! it missed; nothing waits for it. Without subscribers, no event is built.

mod bus;
mod queue_view;

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use bus::EventBus;
pub use bus::Subscription;
pub use queue_view::QueueEvent;

use crate::approval::Verdict;
use crate::call::content::Content;
use crate::call::context::Caller;
use crate::error::{ErrorKind, Violation};
use crate::journal::record::Status;
use crate::tool::Kind;
use crate::value::duration;
use crate::value::name::{BatchId, CallId, TenantId, ToolName};
use crate::value::secret::Veil;

/// An event.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Increases by one with every event of an engine.
    pub sequence: u64,
    /// Time of the event.
    pub at: Timestamp,
    /// Type and content.
    #[serde(flatten)]
    pub body: EventBody,
}

/// Types of events.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "event_type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventBody {
    /// A definition was loaded.
    ToolLoaded {
        /// The tool.
        tool_name: ToolName,
        /// The file or other source.
        source: Arc<str>,
        /// The owning tenant; the event is visible to it alone.
        #[serde(rename = "tenant_id", skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
    },
    /// A tool was added.
    ToolAdded {
        /// The tool.
        tool_name: ToolName,
        /// The owning tenant; the event is visible to it alone.
        #[serde(rename = "tenant_id", skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
    },
    /// A tool was replaced.
    ToolUpdated {
        /// The tool.
        tool_name: ToolName,
        /// The owning tenant; the event is visible to it alone.
        #[serde(rename = "tenant_id", skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
    },
    /// A tool was removed.
    ToolRemoved {
        /// The tool.
        tool_name: ToolName,
        /// The owning tenant; the event is visible to it alone.
        #[serde(rename = "tenant_id", skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
    },
    /// A reload of definitions started.
    ReloadStarted {
        /// The folder.
        source: Arc<str>,
    },
    /// A reload of definitions completed.
    ReloadCompleted {
        /// The folder.
        source: Arc<str>,
        /// Number of tools in it now.
        tools: usize,
        /// Number of files with errors.
        errors: usize,
    },
    /// A definition has errors; its last good version stays.
    LoadError {
        /// The file.
        source: Arc<str>,
        /// The error, with its position.
        error: String,
        /// The owning tenant; the event is visible to it alone.
        #[serde(rename = "tenant_id", skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
    },
    /// A call of a batch was queued.
    ToolQueued {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// The batch.
        batch_id: BatchId,
        /// Position in the batch, from 0.
        position: usize,
    },
    /// All calls of a batch have their results.
    QueueDrained {
        /// The batch.
        batch_id: BatchId,
        /// The caller.
        #[serde(flatten)]
        caller: Arc<Caller>,
        /// Number of calls.
        calls: usize,
    },
    /// The arguments of a call are invalid.
    ValidationError {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// The violations.
        errors: Vec<Violation>,
    },
    /// A call was suspended and waits for approval.
    ApprovalRequested {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// Why approval is needed.
        reason: String,
    },
    /// A person decided about a suspended call.
    ApprovalDecided {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// The decision.
        #[serde(flatten)]
        verdict: Verdict,
    },
    /// A call starts to run.
    ExecutionStarted {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
    },
    /// An attempt failed and will be retried.
    ExecutionRetried {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// The kind of error.
        error_kind: ErrorKind,
        /// The message for operators.
        error: String,
        /// Backoff before the next attempt, in seconds.
        delay: f64,
    },
    /// A running call reports progress.
    ExecutionProgress {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// The reported content.
        progress: Content,
    },
    /// A call succeeded.
    ExecutionCompleted {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// Execution time, in seconds.
        execution_time: f64,
    },
    /// A call failed.
    ExecutionFailed {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// Its final status.
        status: Status,
        /// The kind of error.
        error_kind: ErrorKind,
        /// The message for operators.
        error: String,
        /// Execution time, in seconds.
        execution_time: f64,
    },
    /// This subscriber was too slow and missed events.
    Missed {
        /// Number of missed events.
        count: u64,
    },
}

impl EventBody {
    /// The wire name, such as `execution_started`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ToolLoaded { .. } => "tool_loaded",
            Self::ToolAdded { .. } => "tool_added",
            Self::ToolUpdated { .. } => "tool_updated",
            Self::ToolRemoved { .. } => "tool_removed",
            Self::ReloadStarted { .. } => "reload_started",
            Self::ReloadCompleted { .. } => "reload_completed",
            Self::LoadError { .. } => "load_error",
            Self::ToolQueued { .. } => "tool_queued",
            Self::QueueDrained { .. } => "queue_drained",
            Self::ValidationError { .. } => "validation_error",
            Self::ApprovalRequested { .. } => "approval_requested",
            Self::ApprovalDecided { .. } => "approval_decided",
            Self::ExecutionStarted { .. } => "execution_started",
            Self::ExecutionRetried { .. } => "execution_retried",
            Self::ExecutionProgress { .. } => "execution_progress",
            Self::ExecutionCompleted { .. } => "execution_completed",
            Self::ExecutionFailed { .. } => "execution_failed",
            Self::Missed { .. } => "missed",
        }
    }

    /// What the event is about.
    pub fn subject(&self) -> EventSubject<'_> {
        match self {
            Self::ToolQueued { call, batch_id, .. } => EventSubject::QueuedCall(call, *batch_id),
            Self::ValidationError { call, .. }
            | Self::ApprovalRequested { call, .. }
            | Self::ApprovalDecided { call, .. }
            | Self::ExecutionStarted { call }
            | Self::ExecutionRetried { call, .. } => EventSubject::Call(call),
            Self::ExecutionProgress { call, progress } => EventSubject::Progress(call, progress),
            Self::ExecutionCompleted { call, .. } | Self::ExecutionFailed { call, .. } => {
                EventSubject::EndedCall(call)
            }
            Self::QueueDrained { batch_id, caller, .. } => {
                EventSubject::EndedBatch(*batch_id, caller)
            }
            Self::ToolAdded { tenant, .. }
            | Self::ToolUpdated { tenant, .. }
            | Self::ToolRemoved { tenant, .. } => EventSubject::Tools(tenant.as_ref()),
            Self::ToolLoaded { tenant, .. } | Self::LoadError { tenant, .. } => {
                EventSubject::Definitions(tenant.as_ref())
            }
            Self::ReloadStarted { .. } | Self::ReloadCompleted { .. } => {
                EventSubject::Definitions(None)
            }
            Self::Missed { count } => EventSubject::Missed(*count),
        }
    }

    /// What is new, in words for operators, without the name of the call.
    pub fn news(&self) -> String {
        let spent = |seconds: &f64| {
            duration::human(Duration::try_from_secs_f64(*seconds).unwrap_or_default())
        };
        match self {
            Self::ToolLoaded { tool_name, source, .. } => format!("{tool_name} from {source}"),
            Self::ToolAdded { tool_name, .. }
            | Self::ToolUpdated { tool_name, .. }
            | Self::ToolRemoved { tool_name, .. } => tool_name.to_string(),
            Self::ReloadStarted { source } => source.to_string(),
            Self::ReloadCompleted { source, tools, errors } => {
                format!("{source}: {tools} tools, {errors} errors")
            }
            Self::LoadError { error, .. } => error.clone(),
            Self::ToolQueued { position, .. } => format!("is call {}", position + 1),
            Self::QueueDrained { calls: 1, .. } => "1 call".to_owned(),
            Self::QueueDrained { calls, .. } => format!("{calls} calls"),
            Self::ValidationError { errors, .. } => {
                errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
            Self::ApprovalRequested { reason, .. } => reason.clone(),
            Self::ApprovalDecided { verdict, .. } => match (verdict.approved, &verdict.by) {
                (true, Some(by)) => format!("approved by {by}"),
                (false, Some(by)) => format!("denied by {by}"),
                (true, None) => "approved".to_owned(),
                (false, None) => "denied".to_owned(),
            },
            Self::ExecutionStarted { call } => call.call_id.to_string(),
            Self::ExecutionRetried { attempt, error, delay, .. } => {
                format!("attempt {attempt} failed: {error}; the next one in {}", spent(delay))
            }
            Self::ExecutionProgress { progress, .. } => progress.to_text(),
            Self::ExecutionCompleted { execution_time, .. } => spent(execution_time),
            Self::ExecutionFailed { status, error, .. } => format!("{status}: {error}"),
            Self::Missed { count: 1 } => "1 event".to_owned(),
            Self::Missed { count } => format!("{count} events"),
        }
    }

    /// The call that the event is about.
    pub fn call(&self) -> Option<&CallInfo> {
        self.subject().call()
    }

    /// The caller of the call or batch that the event is about.
    pub fn caller(&self) -> Option<&Arc<Caller>> {
        match self.subject() {
            EventSubject::EndedBatch(_, caller) => Some(caller),
            subject => subject.call().map(|call| &call.caller),
        }
    }

    /// The only tenant that may see the event; `None` if all may.
    pub fn tenant(&self) -> Option<&TenantId> {
        match self.subject() {
            EventSubject::QueuedCall(call, _)
            | EventSubject::Call(call)
            | EventSubject::Progress(call, _)
            | EventSubject::EndedCall(call) => Some(&call.caller.tenant),
            EventSubject::EndedBatch(_, caller) => Some(&caller.tenant),
            EventSubject::Tools(tenant) | EventSubject::Definitions(tenant) => tenant,
            EventSubject::Missed(_) => None,
        }
    }
}

/// What an event is about: all that routing it needs, so that a new type of
/// event is routed without a change.
#[derive(Clone, Copy, Debug)]
pub enum EventSubject<'e> {
    /// A call of a batch that was queued.
    QueuedCall(&'e CallInfo, BatchId),
    /// A call that has not ended.
    Call(&'e CallInfo),
    /// A call that reports progress.
    Progress(&'e CallInfo, &'e Content),
    /// A call that has its result.
    EndedCall(&'e CallInfo),
    /// A batch that has all its results.
    EndedBatch(BatchId, &'e Arc<Caller>),
    /// The tools of a tenant, or those that all share, have changed.
    Tools(Option<&'e TenantId>),
    /// Files of definitions: of a tenant, or those that all share.
    Definitions(Option<&'e TenantId>),
    /// Events that the subscriber missed.
    Missed(u64),
}

impl<'e> EventSubject<'e> {
    /// The call, if it is one.
    pub fn call(self) -> Option<&'e CallInfo> {
        match self {
            Self::QueuedCall(call, _)
            | Self::Call(call)
            | Self::Progress(call, _)
            | Self::EndedCall(call) => Some(call),
            Self::EndedBatch(..) | Self::Tools(_) | Self::Definitions(_) | Self::Missed(_) => None,
        }
    }
}

/// The call of an event.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CallInfo {
    /// Its id.
    pub call_id: CallId,
    /// The id that the model gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ref: Option<Arc<str>>,
    /// The tool.
    pub tool_name: Arc<str>,
    /// Kind of the tool; `None` before the tool is resolved. Not serialised:
    /// other processes derive it from the name.
    #[serde(skip)]
    pub kind: Option<Kind>,
    /// The caller.
    #[serde(flatten)]
    pub caller: Arc<Caller>,
}

/// Reports progress of a call. Cheap to clone and to use: without subscribers,
/// nothing is built.
#[derive(Clone)]
pub struct Emitter {
    pub(crate) bus: Arc<EventBus>,
    pub(crate) call: CallInfo,
    /// Redacts the call's secrets, if it has any. It is dropped with the call,
    /// after which nothing is reported.
    pub(crate) veil: Option<Weak<Veil>>,
}

impl Emitter {
    /// Reports progress that is built only if somebody listens.
    pub fn emit_with(&self, progress: impl FnOnce() -> Content) {
        if self.bus.is_heard() {
            self.emit(progress());
        }
    }

    /// Reports progress.
    pub fn emit(&self, progress: impl Into<Content>) {
        if self.bus.is_heard()
            && let Some(progress) = self.veiled(progress.into())
        {
            self.bus.emit(|| EventBody::ExecutionProgress { call: self.call.clone(), progress });
        }
    }

    fn veiled(&self, progress: Content) -> Option<Content> {
        match &self.veil {
            Some(veil) => veil.upgrade()?.over_block(progress),
            None => Some(progress),
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}
