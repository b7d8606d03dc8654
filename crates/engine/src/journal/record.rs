//! Records of calls, and the store that keeps them.
//!
//! Records are made by the journal alone, after redaction: hidden parameters
//! are masked, and secrets were never part of the arguments.

mod brief;
mod histogram;
mod intent;
mod memory;
mod query;
mod statistics;
mod status;
mod store;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use brief::BriefSummary;
pub use histogram::Histogram;
pub use intent::{Begun, IdempotencyKey, Intent};
pub use memory::MemoryStore;
pub use query::{PageRequest, RecordFilter, RecordPage};
pub use statistics::{Statistics, Summary, ToolStatistics, rate};
pub use status::Status;
pub use store::{OutputPart, OwnerId, RecordStore};

use crate::approval::Verdict;
use crate::call::content::Output;
use crate::call::context::Caller;
use crate::error::{Error, ErrorKind};
use crate::value::name::CallId;
use crate::value::text::{Lang, Text};
use crate::value::trace::TraceContext;
use crate::value::usage::Usage;

/// Statistics count calls of unknown tools under this name.
pub(crate) const UNKNOWN_TOOL: &str = "(unknown tool)";

/// The record of a call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CallRecord {
    /// The id of the call and of its record.
    #[serde(rename = "record_id")]
    pub id: CallId,
    /// The id that the model gave the call (`tool_use_id`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ref: Option<Arc<str>>,
    /// The tool's name, as asked for.
    pub tool_name: Arc<str>,
    /// The arguments, redacted and truncated.
    #[serde(rename = "params")]
    pub arguments: Arc<Value>,
    /// The result, truncated; absent for a failed call.
    pub result: Option<Arc<Output>>,
    /// Final status of the call.
    #[serde(flatten, serialize_with = "with_success")]
    #[schemars(with = "StatusAndSuccess")]
    pub status: Status,
    /// The error of a failed call.
    pub error: Option<Box<RecordedError>>,
    /// The caller.
    #[serde(flatten)]
    pub caller: Arc<Caller>,
    /// Number of attempts.
    pub attempts: u32,
    /// Time in the queue, in seconds on the wire.
    #[serde(serialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub queue_wait: Duration,
    /// Execution time, in seconds on the wire.
    #[serde(rename = "execution_time", serialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub run_time: Duration,
    /// When the call was received.
    #[schemars(schema_with = "time")]
    pub created_at: Timestamp,
    /// Rarely used fields.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
}

/// Rarely used fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Details {
    /// Failed attempts before the last one, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_attempts: Vec<FailedAttempt>,
    /// The caller's idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Arc<str>>,
    /// The earlier call whose result this is: one with the same idempotency
    /// key, or one whose result was cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<CallId>,
    /// The decision of a person, for a call that needed approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Verdict>,
    /// Trace context of the call: the `traceparent` header that it came with.
    #[serde(rename = "traceparent", skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// Model usage of this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Model usage including nested calls, if those asked models too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_usage: Option<Usage>,
}

/// A failed attempt that was retried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailedAttempt {
    /// The error of a failed call.
    pub error: RecordedError,
    /// How long it ran, in seconds.
    pub execution_time: f64,
    /// Backoff before the next attempt, in seconds.
    pub delay: f64,
}

impl CallRecord {
    /// Whether the call succeeded.
    pub fn is_success(&self) -> bool {
        self.status == Status::Succeeded
    }

    /// The histogram bucket of the execution time; `None` for a call that never
    /// ran.
    pub fn run_bucket(&self) -> Option<u32> {
        (self.attempts > 0).then(|| Histogram::bucket(self.run_time))
    }

    /// When the call ended, in microseconds.
    pub(crate) fn ended_at(&self) -> i64 {
        let took = i64::try_from((self.queue_wait + self.run_time).as_micros());
        self.created_at.as_microsecond().saturating_add(took.unwrap_or(i64::MAX))
    }

    /// Model usage of the call, without nested calls.
    pub fn usage(&self) -> Option<Usage> {
        self.details.as_ref()?.usage
    }

    /// The caller's idempotency key.
    pub fn idempotency_key(&self) -> Option<&Arc<str>> {
        self.details.as_ref()?.idempotency_key.as_ref()
    }

    /// The name under which statistics count the call. Names of unknown tools
    /// share one row: callers can make up any number of them.
    pub fn counted_as(&self) -> Arc<str> {
        match &self.error {
            Some(error) if error.kind == ErrorKind::ToolNotFound => UNKNOWN_TOOL.into(),
            _ => Arc::clone(&self.tool_name),
        }
    }
}

/// Describes what [`with_success`] writes.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it only describes what `with_success` writes")]
struct StatusAndSuccess {
    /// Final status of the call.
    status: Status,
    /// Whether the call succeeded.
    is_success: bool,
}

/// Serialises `status`, and `is_success` beside it.
fn with_success<S: serde::Serializer>(status: &Status, to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(2))?;
    map.serialize_entry("status", status)?;
    map.serialize_entry("is_success", &(*status == Status::Succeeded))?;
    map.end()
}

/// Schema of a timestamp such as `2026-01-31T12:00:00Z`.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

pub(crate) fn seconds<S: serde::Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}

/// The error of a call, as recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The message for operators.
    pub message: String,
    /// The tool's own feedback for the model, if any; in English, if there are
    /// several languages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

impl From<&Error> for RecordedError {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind(),
            message: error.message().to_owned(),
            feedback: error.own_feedback().map(Text::to_string),
        }
    }
}

impl From<&RecordedError> for Error {
    fn from(recorded: &RecordedError) -> Self {
        let error = Self::new(recorded.kind, recorded.message.as_str());
        match &recorded.feedback {
            // Stored in English only; both languages are restored from it.
            Some(feedback) if ErrorKind::says_doubt(feedback) => {
                let error = error.after_begin();
                let chinese = error.feedback(Lang::Zh);
                error.with_feedback(Text::both(feedback.as_str(), chinese))
            }
            Some(feedback) => error.with_feedback(feedback.as_str()),
            None => error,
        }
    }
}
