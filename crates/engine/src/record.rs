//! What is kept of a call, and the store that keeps it.
//!
//! A record is made by the journal alone, after redaction: hidden parameters
//! are masked and secrets were never part of the arguments.

mod brief;
mod histogram;
mod intent;
mod memory;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use brief::BriefSummary;
pub use histogram::Histogram;
pub use intent::{Begun, IdempotencyKey, Intent};
pub use memory::MemoryStore;

use crate::approval::Verdict;
use crate::content::Output;
use crate::context::Caller;
use crate::error::{Error, ErrorKind};
use crate::executor::BoxFuture;
use crate::name::{CallId, TenantId};

/// What calls of names that no tool has are counted as.
pub(crate) const UNKNOWN_TOOL: &str = "(unknown tool)";

/// One call, as it is kept (S0.18 and more).
#[derive(Clone, Debug, Serialize)]
pub struct CallRecord {
    /// The call's id; also the record's.
    #[serde(rename = "record_id")]
    pub id: CallId,
    /// The id that the model gave the call (`tool_use_id`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ref: Option<Arc<str>>,
    /// The tool's name, as asked for.
    pub tool_name: Arc<str>,
    /// The arguments: redacted and capped.
    #[serde(rename = "params")]
    pub arguments: Arc<Value>,
    /// The result, capped; absent for a failed call.
    pub result: Option<Arc<Output>>,
    /// How it ended.
    #[serde(flatten, serialize_with = "with_success")]
    pub status: Status,
    /// Why it failed.
    pub error: Option<RecordedError>,
    /// Who called.
    #[serde(flatten)]
    pub caller: Arc<Caller>,
    /// How often it was tried.
    pub attempts: u32,
    /// How long it waited for a slot.
    #[serde(serialize_with = "seconds")]
    pub queue_wait: Duration,
    /// How long it ran.
    #[serde(rename = "execution_time", serialize_with = "seconds")]
    pub run_time: Duration,
    /// When the call came.
    pub created_at: Timestamp,
    /// What few calls have to tell.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
}

/// What few calls have to tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// The attempts that failed before the last one, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_attempts: Vec<FailedAttempt>,
    /// The caller's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Arc<str>>,
    /// The earlier call whose result this is: one with the same key, or one
    /// whose result was cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<CallId>,
    /// What a person said, for a call that waited for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Verdict>,
}

/// An attempt after which the call was tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// Why it failed.
    pub error: RecordedError,
    /// How long it ran, in seconds.
    pub execution_time: f64,
    /// How long the engine waited before the next one, in seconds.
    pub delay: f64,
}

impl CallRecord {
    /// S0.18's `is_success`.
    pub fn is_success(&self) -> bool {
        self.status == Status::Succeeded
    }

    /// The run-time bucket that statistics count the call in; none for a call
    /// that never ran.
    pub fn run_bucket(&self) -> Option<u32> {
        (self.attempts > 0).then(|| Histogram::bucket(self.run_time))
    }

    /// When the call ended, in microseconds.
    pub(crate) fn ended_at(&self) -> i64 {
        let took = i64::try_from((self.queue_wait + self.run_time).as_micros());
        self.created_at.as_microsecond().saturating_add(took.unwrap_or(i64::MAX))
    }

    /// The key that the caller gave.
    pub fn idempotency_key(&self) -> Option<&Arc<str>> {
        self.details.as_ref()?.idempotency_key.as_ref()
    }

    /// The tool that statistics count the call for. Names that nobody
    /// registered are one row together: callers can make up any number of them.
    pub fn counted_as(&self) -> Arc<str> {
        match &self.error {
            Some(error) if error.kind == ErrorKind::ToolNotFound => UNKNOWN_TOOL.into(),
            _ => Arc::clone(&self.tool_name),
        }
    }
}

/// `status`, and S0.18's `is_success` beside it.
fn with_success<S: serde::Serializer>(status: &Status, to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(2))?;
    map.serialize_entry("status", status)?;
    map.serialize_entry("is_success", &(*status == Status::Succeeded))?;
    map.end()
}

pub(crate) fn seconds<S: serde::Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// With a result.
    Succeeded,
    /// With an error of the tool or of the other side.
    Failed,
    /// It never ran: unknown or inactive tool, bad arguments, a missing secret,
    /// a full queue.
    Refused,
    /// It was stopped at its deadline.
    TimedOut,
    /// The caller cancelled it or went away.
    Cancelled,
    /// The process ended while it ran.
    Interrupted,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Succeeded,
        Self::Failed,
        Self::Refused,
        Self::TimedOut,
        Self::Cancelled,
        Self::Interrupted,
    ];

    /// The status of a call that ended with this error, before or after it
    /// began to run.
    pub fn of(kind: ErrorKind, ran: bool) -> Self {
        match kind {
            ErrorKind::Timeout => Self::TimedOut,
            ErrorKind::Cancelled => Self::Cancelled,
            ErrorKind::Interrupted => Self::Interrupted,
            _ if ran => Self::Failed,
            _ => Self::Refused,
        }
    }

    /// The name, as stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

impl std::str::FromStr for Status {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|status| status.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|status| status.name()).collect();
            format!("unknown status `{name}`; use one of {}", known.join(", "))
        })
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// The error of a call, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedError {
    /// What kind.
    pub kind: ErrorKind,
    /// The operator's text.
    pub message: String,
    /// The tool's own text for the model, where it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
}

impl From<&Error> for RecordedError {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind(),
            message: error.message().to_owned(),
            feedback: error.own_feedback().map(str::to_owned),
        }
    }
}

impl From<&RecordedError> for Error {
    fn from(recorded: &RecordedError) -> Self {
        let error = Self::new(recorded.kind, recorded.message.as_str());
        match &recorded.feedback {
            Some(feedback) => error.with_feedback(feedback.as_str()),
            None => error,
        }
    }
}

/// Keeps records. Every question is asked for one tenant.
pub trait RecordStore: Send + Sync + 'static {
    /// Takes the record of a call that ended. Called from `Drop` too, so it
    /// neither waits nor fails: a store that writes elsewhere queues it.
    fn append(&self, record: CallRecord);

    /// Whether intents survive the process. Where they do, [`RecordStore::begin`]
    /// is called before every call that may change something, and the answer
    /// waits until the record is flushed; where they do not, only for calls
    /// with a key.
    fn keeps_intents(&self) -> bool {
        false
    }

    /// Keeps what a call is about to do; ends when it is kept for good. The
    /// intent is forgotten with the commit of the call's record. An error means
    /// that the call must not run.
    ///
    /// A key is kept while its call runs, and then for a time that the store
    /// sets, but no longer than the call's record. The record of a call that
    /// never ran frees its key.
    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<Begun, Error>>;

    /// The calls that processes which have ended left behind, and that this
    /// store has closed since it was last asked; each is handed out once.
    fn take_interrupted(&self) -> Vec<CallRecord> {
        Vec::new()
    }

    /// Whether the store keeps up. Where it does not, the engine waits for
    /// [`RecordStore::caught_up`] before it starts another call, so that the
    /// queue stays bounded.
    fn keeps_up(&self) -> bool {
        true
    }

    /// Ends when the store keeps up again.
    fn caught_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Ends when everything appended before is kept for good.
    fn flush(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// One record.
    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>, Error>>;

    /// A page of records, newest first.
    fn query<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a RecordFilter,
        page: PageRequest,
    ) -> BoxFuture<'a, Result<RecordPage, Error>>;

    /// The summary of a conversation.
    fn summary<'a>(
        &'a self,
        tenant: &'a TenantId,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Summary, Error>>;

    /// Statistics over everything.
    fn statistics<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Statistics, Error>>;

    /// Keeps the whole of a result that was cut for the model.
    fn keep_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        output: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// A part of a result that was cut; nothing where it is not kept (any more).
    fn read_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Option<OutputPart>, Error>>;
}

/// Which records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// Of this conversation.
    pub conversation: Option<String>,
    /// Of this tool.
    pub tool: Option<String>,
    /// Of this caller.
    pub caller_id: Option<String>,
    /// That ended so.
    pub status: Option<Status>,
    /// That came at this time or later.
    pub since: Option<Timestamp>,
    /// That came before this time.
    pub until: Option<Timestamp>,
}

impl RecordFilter {
    /// Whether a record is one of these. Times count in microseconds, which
    /// is what databases keep.
    pub fn matches(&self, record: &CallRecord) -> bool {
        fn same(wanted: Option<&str>, found: Option<&str>) -> bool {
            wanted.is_none() || wanted == found
        }
        let created_us = record.created_at.as_microsecond();
        let caller = &record.caller;
        same(self.conversation.as_deref(), caller.conversation.as_deref())
            && same(self.tool.as_deref(), Some(&record.tool_name))
            && same(self.caller_id.as_deref(), caller.caller_id.as_deref())
            && self.status.is_none_or(|status| record.status == status)
            && self.since.is_none_or(|since| created_us >= since.as_microsecond())
            && self.until.is_none_or(|until| created_us < until.as_microsecond())
    }
}

/// Which part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// How many at the most; stores cap it at [`PageRequest::MAX`].
    pub limit: usize,
    /// Begin after the record with this id: the `next` of the page before.
    pub after: Option<CallId>,
}

impl PageRequest {
    /// The largest page.
    pub const MAX: usize = 1000;

    /// The first page.
    pub fn first(limit: usize) -> Self {
        Self { limit, after: None }
    }
}

/// A page of records.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RecordPage {
    /// The records, newest first.
    pub records: Vec<CallRecord>,
    /// Where the next page begins; none on the last.
    pub next: Option<CallId>,
}

/// What happened in a conversation (S0.19).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The conversation.
    pub conversation_id: String,
    /// How many calls.
    pub total_calls: u64,
    /// How many succeeded.
    pub successful_calls: u64,
    /// How many did not.
    pub failed_calls: u64,
    /// Per cent, 0 to 100; 0 where there was no call.
    pub success_rate: f64,
    /// Calls by tool.
    pub tool_usage: BTreeMap<String, u64>,
}

impl Summary {
    /// A summary from counts: `(tool, calls, successful)`.
    pub fn new(conversation: &str, counts: impl IntoIterator<Item = (String, u64, u64)>) -> Self {
        let mut summary = Self { conversation_id: conversation.to_owned(), ..Self::default() };
        for (tool, calls, successful) in counts {
            summary.total_calls += calls;
            summary.successful_calls += successful;
            *summary.tool_usage.entry(tool).or_default() += calls;
        }
        summary.failed_calls = summary.total_calls - summary.successful_calls;
        summary.success_rate = rate(summary.successful_calls, summary.total_calls);
        summary
    }

    /// S0.20's brief form, for a final answer.
    pub fn to_brief(&self) -> Value {
        json!(BriefSummary::new(self.total_calls, self.successful_calls, &self.tool_usage))
    }
}

/// Statistics over all calls of a tenant (S0.19).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// All calls together.
    pub total: ToolStatistics,
    /// The calls of each tool.
    pub tools: BTreeMap<String, ToolStatistics>,
}

impl Statistics {
    /// Statistics from counts: `(tool, status, run-time bucket, calls)`.
    /// A call that never ran has no bucket and does not count for run times.
    pub fn from_counts<T: AsRef<str>>(
        counts: impl IntoIterator<Item = (T, Status, Option<u32>, u64)>,
    ) -> Self {
        #[derive(Default)]
        struct Counts(BTreeMap<Status, u64>, Histogram);
        impl Counts {
            fn add(&mut self, status: Status, bucket: Option<u32>, calls: u64) {
                *self.0.entry(status).or_default() += calls;
                if let Some(bucket) = bucket {
                    self.1.add(bucket, calls);
                }
            }
        }

        let mut total = Counts::default();
        let mut tools: BTreeMap<String, Counts> = BTreeMap::new();
        for (tool, status, bucket, calls) in counts {
            total.add(status, bucket, calls);
            let tool = tool.as_ref();
            match tools.get_mut(tool) {
                Some(counts) => counts.add(status, bucket, calls),
                None => tools.entry(tool.to_owned()).or_default().add(status, bucket, calls),
            }
        }
        Self {
            total: ToolStatistics::new(total.0, &total.1),
            tools: tools
                .into_iter()
                .map(|(tool, counts)| (tool, ToolStatistics::new(counts.0, &counts.1)))
                .collect(),
        }
    }
}

/// Statistics over the calls of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ToolStatistics {
    /// How many calls.
    pub calls: u64,
    /// How many succeeded.
    pub successful: u64,
    /// Per cent, 0 to 100; 0 where there was no call.
    pub success_rate: f64,
    /// Calls by how they ended.
    pub by_status: BTreeMap<Status, u64>,
    /// The median run time in milliseconds.
    pub p50_ms: f64,
    /// 95 of 100 calls took at most so long.
    pub p95_ms: f64,
    /// 99 of 100 calls took at most so long.
    pub p99_ms: f64,
}

impl ToolStatistics {
    /// Statistics from counts by status and by run-time bucket.
    pub fn new(by_status: BTreeMap<Status, u64>, run_times: &Histogram) -> Self {
        let calls = by_status.values().sum();
        let successful = by_status.get(&Status::Succeeded).copied().unwrap_or_default();
        Self {
            calls,
            successful,
            success_rate: rate(successful, calls),
            by_status,
            p50_ms: run_times.quantile_ms(0.50),
            p95_ms: run_times.quantile_ms(0.95),
            p99_ms: run_times.quantile_ms(0.99),
        }
    }
}

/// Successes in per cent.
pub fn rate(successful: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { successful as f64 * 100.0 / total as f64 }
}

/// A part of a kept result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPart {
    /// The bytes, from the offset asked for.
    pub bytes: Vec<u8>,
    /// The size of the whole.
    pub total_bytes: u64,
}
