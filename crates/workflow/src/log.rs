//! What is kept of a run: its head, and a log of what happened in it.
//!
//! Nothing is replayed as code. The state of a run is a fold over its log: the
//! end of each step, keyed by its *place* (`pages[3].lookup`, `poll#2.get`).

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass::{CallId, Error, ErrorKind, TenantId, Usage};

/// An entry of the log. Of several for the same place, the last one counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// A call that may change something is about to be made.
    Started {
        /// The step.
        place: Arc<str>,
        /// The call.
        call: CallId,
    },
    /// A step ended.
    Ended {
        /// The step.
        place: Arc<str>,
        /// How.
        end: StepEnd,
        /// The digest of what it was asked to do, for runs that repeat this
        /// one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<Arc<str>>,
        /// Model usage of its calls.
        #[serde(default, skip_serializing_if = "Usage::is_zero")]
        usage: Usage,
    },
    /// A step waits.
    Waiting {
        /// The step.
        place: Arc<str>,
        /// What for.
        wait: Wait,
        /// Since when.
        #[schemars(with = "String")]
        since: Timestamp,
    },
    /// What a step waited for has come.
    Woken {
        /// The step.
        place: Arc<str>,
        /// What came.
        wake: Wake,
        /// The message that it came with; it is read once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Another call drives the run from here on. The earlier driver finds this
    /// entry where it would write its own, and stops (optimistic locking).
    Resumed {
        /// The call.
        call: CallId,
    },
    /// The run has failed or was cancelled; its `undo` steps run.
    Undoing {
        /// How it will end.
        end: RunEnd,
    },
    /// The run ended.
    Finished {
        /// How.
        end: RunEnd,
    },
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum StepEnd {
    /// With a value.
    Succeeded {
        /// The value.
        value: Arc<Value>,
        /// The handle that it ended through.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handle: Option<Arc<str>>,
        /// The failure in whose place the value stands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handled: Option<Failure>,
    },
    /// It was skipped.
    Skipped {
        /// The failure because of which it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handled: Option<Failure>,
    },
    /// It failed.
    Failed {
        /// Why.
        error: Failure,
    },
    /// It ended the run with a value.
    Returned {
        /// The value.
        value: Arc<Value>,
    },
}

/// A failure, as it is kept and as expressions see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// The kind of failure: a name of the table of errors.
    pub kind: Arc<str>,
    /// The message for operators.
    pub message: Arc<str>,
    /// The text for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<Arc<str>>,
}

impl Failure {
    /// What is kept of an error.
    pub fn of(error: &Error) -> Self {
        Self {
            kind: error.kind().name().into(),
            message: error.message().into(),
            feedback: Some(error.feedback(windlass::Lang::En).into()),
        }
    }

    /// The error again.
    pub fn to_error(&self) -> Error {
        let kind = ErrorKind::from_name(&self.kind).unwrap_or(ErrorKind::ToolError);
        let error = Error::new(kind, &*self.message);
        match &self.feedback {
            Some(feedback) => error.with_feedback(&**feedback),
            None => error,
        }
    }
}

/// What a step waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Wait {
    /// A time.
    Time {
        /// When it goes on.
        #[schemars(with = "String")]
        until: Timestamp,
    },
    /// A signal from outside.
    Signal {
        /// Its name.
        name: Arc<str>,
        /// When it stops waiting.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        until: Option<Timestamp>,
    },
    /// An answer of a person.
    Person {
        /// What the person is asked.
        ask: Ask,
        /// When it stops waiting.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        until: Option<Timestamp>,
    },
    /// The end of another run.
    Run {
        /// The run.
        run: Arc<str>,
    },
    /// The end of a call, for which a person is asked.
    Call {
        /// The call.
        call: CallId,
    },
}

impl Wait {
    /// When the run goes on, whatever happens.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Time { until } => Some(*until),
            Self::Signal { until, .. } | Self::Person { until, .. } => *until,
            Self::Run { .. } | Self::Call { .. } => None,
        }
    }
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ask {
    /// The question.
    pub text: String,
    /// What the person may choose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// The schema of the form that the person fills in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Value>,
    /// The people who may answer; everybody who may approve calls, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub who: Vec<String>,
}

/// What ends a wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Wake {
    /// The time came.
    Time,
    /// A signal or a person's answer.
    Message {
        /// What it says.
        value: Value,
        /// Who sent it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
    },
    /// The run that it waited for ended.
    Run {
        /// How.
        end: RunEnd,
    },
}

/// A message to a run: kept until its driver has read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Two messages with one key are the same message.
    pub key: String,
    /// For whom.
    pub to: Recipient,
    /// What it says.
    pub wake: Wake,
}

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    /// A step that waits.
    Place(Arc<str>),
    /// The next step that waits for a signal of this name.
    Signal(Arc<str>),
    /// The run: it is to be cancelled.
    Cancel,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RunEnd {
    /// With a value.
    Succeeded {
        /// The value.
        value: Arc<Value>,
    },
    /// It failed.
    Failed {
        /// Where, if a step failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<Arc<str>>,
        /// Why.
        error: Failure,
    },
    /// It was cancelled.
    Cancelled {
        /// By whom, as far as that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
    },
}

impl RunEnd {
    /// The status that it leaves the run in.
    pub fn status(&self) -> RunStatus {
        match self {
            Self::Succeeded { .. } => RunStatus::Succeeded,
            Self::Failed { .. } => RunStatus::Failed,
            Self::Cancelled { .. } => RunStatus::Cancelled,
        }
    }
}

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// A call drives it, or is about to.
    Running,
    /// It waits for a time, a person, a signal or another run.
    Waiting,
    /// It ended with a value.
    Succeeded,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl RunStatus {
    /// The name, as stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the run has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// The head of a run: what it is, and where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunHead {
    /// Its id: that of the call that began it.
    #[serde(rename = "run_id")]
    pub id: Arc<str>,
    /// The tenant.
    #[serde(rename = "tenant_id")]
    pub tenant: TenantId,
    /// The tool.
    pub workflow: Arc<str>,
    /// The definition that it keeps to, whatever the tool becomes.
    pub digest: Arc<str>,
    /// The arguments.
    pub input: Arc<Value>,
    /// The person on whose behalf it runs.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "user_id")]
    pub user: Option<Arc<str>>,
    /// The conversation.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "conversation_id")]
    pub conversation: Option<Arc<str>>,
    /// Who initiated it (an API key, a session).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_by: Option<Arc<str>>,
    /// The step of another run that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentStep>,
    /// The run whose ended steps it takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<RetryOf>,
    /// When it began.
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub ended_at: Option<Timestamp>,
    /// Its status.
    pub status: RunStatus,
    /// The call that drives it, or did so last.
    pub driver: CallId,
    /// The process of that call, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Arc<str>>,
    /// The time that it ran, in milliseconds, without waiting.
    #[serde(default)]
    pub ran_ms: u64,
    /// Model usage so far.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<OpenWait>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
}

impl RunHead {
    /// When it goes on by itself.
    pub fn due(&self) -> Option<Timestamp> {
        self.waits.iter().filter_map(|open| open.wait.until()).min()
    }
}

/// A step that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenWait {
    /// The step.
    pub place: Arc<str>,
    /// What for.
    pub wait: Wait,
    /// Since when.
    #[schemars(with = "String")]
    pub since: Timestamp,
}

/// A step of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParentStep {
    /// The run.
    pub run: Arc<str>,
    /// The step.
    pub place: Arc<str>,
}

/// The run that another one repeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryOf {
    /// The run.
    pub run: Arc<str>,
    /// The step from which on everything runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Arc<str>>,
}
