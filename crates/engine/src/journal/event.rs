//! Events: everything that happens, once, in order, for whoever listens.
//!
//! The bus is bounded. A subscriber that falls behind is told how much it
//! missed; nobody waits for it. While nobody listens, no event is built.

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

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Counts up by one for every event of an engine.
    pub sequence: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub body: EventBody,
}

/// The kinds of events. The names are S0.21's where it has one.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event_type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventBody {
    /// A definition was read.
    ToolLoaded {
        /// The tool.
        tool_name: ToolName,
        /// The file or other source.
        source: Arc<str>,
        /// Whose it is; nobody else may hear of it.
        #[serde(rename = "tenant_id", skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
    },
    /// A tool is new.
    ToolAdded {
        /// The tool.
        tool_name: ToolName,
        /// Whose it is; nobody else may hear of it.
        #[serde(rename = "tenant_id", skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
    },
    /// A tool was replaced.
    ToolUpdated {
        /// The tool.
        tool_name: ToolName,
        /// Whose it is; nobody else may hear of it.
        #[serde(rename = "tenant_id", skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
    },
    /// A tool is gone.
    ToolRemoved {
        /// The tool.
        tool_name: ToolName,
        /// Whose it is; nobody else may hear of it.
        #[serde(rename = "tenant_id", skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
    },
    /// Definitions are being read again.
    ReloadStarted {
        /// The folder.
        source: Arc<str>,
    },
    /// Definitions have been read again.
    ReloadCompleted {
        /// The folder.
        source: Arc<str>,
        /// How many tools it has now.
        tools: usize,
        /// How many files could not be read.
        errors: usize,
    },
    /// A definition could not be read; its last good version stays.
    LoadError {
        /// The file.
        source: Arc<str>,
        /// Where and why.
        error: String,
        /// Whose it is; nobody else may hear of it.
        #[serde(rename = "tenant_id", skip_serializing_if = "Option::is_none")]
        tenant: Option<TenantId>,
    },
    /// A call of a batch was taken.
    ToolQueued {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// The batch.
        batch_id: BatchId,
        /// Its place in the batch, from 0.
        position: usize,
    },
    /// All calls of a batch have their results.
    QueueDrained {
        /// The batch.
        batch_id: BatchId,
        /// Who called first.
        #[serde(flatten)]
        caller: Arc<Caller>,
        /// How many there were.
        calls: usize,
    },
    /// The arguments of a call were refused.
    ValidationError {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// What is wrong with them.
        errors: Vec<Violation>,
    },
    /// A call waits for a person.
    ApprovalRequested {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// Why a person is asked.
        reason: String,
    },
    /// A person has said what becomes of a call that waited.
    ApprovalDecided {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// What was said.
        #[serde(flatten)]
        verdict: Verdict,
    },
    /// A call begins to run.
    ExecutionStarted {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
    },
    /// An attempt failed, and the call will be tried again.
    ExecutionRetried {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// What kind of error.
        error_kind: ErrorKind,
        /// The operator's text.
        error: String,
        /// How long until the next attempt, in seconds.
        delay: f64,
    },
    /// A running call reports progress.
    ExecutionProgress {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// What it reports.
        progress: Content,
    },
    /// A call ended with a result.
    ExecutionCompleted {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// How long it ran, in seconds.
        execution_time: f64,
    },
    /// A call ended with an error.
    ExecutionFailed {
        /// The call.
        #[serde(flatten)]
        call: CallInfo,
        /// How it ended.
        status: Status,
        /// What kind of error.
        error_kind: ErrorKind,
        /// The operator's text.
        error: String,
        /// How long it ran, in seconds.
        execution_time: f64,
    },
    /// This subscriber was too slow and missed events.
    Missed {
        /// How many.
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

    /// The tenant that the event is for alone; none where it is for everybody.
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

/// The call that an event is about.
#[derive(Clone, Debug, Serialize)]
pub struct CallInfo {
    /// Its id.
    pub call_id: CallId,
    /// The id that the model gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ref: Option<Arc<str>>,
    /// The tool.
    pub tool_name: Arc<str>,
    /// What runs the tool; none as long as the tool is not looked up. The name
    /// says as much to whoever reads events elsewhere.
    #[serde(skip)]
    pub kind: Option<Kind>,
    /// Who called.
    #[serde(flatten)]
    pub caller: Arc<Caller>,
}

/// Reports the progress of one call. Cheap to clone and to call: while nobody
/// listens, nothing is built.
#[derive(Clone)]
pub struct Emitter {
    pub(crate) bus: Arc<EventBus>,
    pub(crate) call: CallInfo,
    /// What hides the call's secrets, where it has any. The secrets go with the
    /// call, and nothing is reported after that.
    pub(crate) veil: Option<Weak<Veil>>,
}

impl Emitter {
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
