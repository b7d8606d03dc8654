//! Events: everything that happens, once and in order, for all subscribers.
//!
//! The bus is bounded. A subscriber that falls behind is told how many events
//! it missed; nothing waits for it. Without subscribers, no event is built.

mod bus;
mod queue_view;

use std::sync::{Arc, Weak};

use jiff::Timestamp;
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
#[derive(Clone, Debug, Serialize)]
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

    /// The call that the event is about.
    pub fn call(&self) -> Option<&CallInfo> {
        match self {
            Self::ToolQueued { call, .. }
            | Self::ValidationError { call, .. }
            | Self::ApprovalRequested { call, .. }
            | Self::ApprovalDecided { call, .. }
            | Self::ExecutionStarted { call }
            | Self::ExecutionRetried { call, .. }
            | Self::ExecutionProgress { call, .. }
            | Self::ExecutionCompleted { call, .. }
            | Self::ExecutionFailed { call, .. } => Some(call),
            Self::ToolLoaded { .. }
            | Self::ToolAdded { .. }
            | Self::ToolUpdated { .. }
            | Self::ToolRemoved { .. }
            | Self::ReloadStarted { .. }
            | Self::ReloadCompleted { .. }
            | Self::LoadError { .. }
            | Self::QueueDrained { .. }
            | Self::Missed { .. } => None,
        }
    }

    /// The only tenant that may see the event; `None` if all may.
    pub fn tenant(&self) -> Option<&TenantId> {
        match self {
            Self::ToolLoaded { tenant, .. }
            | Self::ToolAdded { tenant, .. }
            | Self::ToolUpdated { tenant, .. }
            | Self::ToolRemoved { tenant, .. }
            | Self::LoadError { tenant, .. } => tenant.as_ref(),
            Self::QueueDrained { caller, .. } => Some(&caller.tenant),
            Self::ReloadStarted { .. } | Self::ReloadCompleted { .. } | Self::Missed { .. } => None,
            Self::ToolQueued { call, .. }
            | Self::ValidationError { call, .. }
            | Self::ApprovalRequested { call, .. }
            | Self::ApprovalDecided { call, .. }
            | Self::ExecutionStarted { call }
            | Self::ExecutionRetried { call, .. }
            | Self::ExecutionProgress { call, .. }
            | Self::ExecutionCompleted { call, .. }
            | Self::ExecutionFailed { call, .. } => Some(&call.caller.tenant),
        }
    }
}

/// The call of an event.
#[derive(Clone, Debug, Serialize)]
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
