//! Records, and what they come to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{VerdictDoc, id, maybe_id, object, time};

/// How a call ended.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Status")]
pub(crate) enum StatusName {
    /// With a result.
    Succeeded,
    /// With an error of the tool.
    Failed,
    /// It was not run.
    Refused,
    /// It took too long.
    TimedOut,
    /// Somebody stopped it.
    Cancelled,
    /// The server ended while it ran.
    Interrupted,
}

impl From<StatusName> for windlass::Status {
    fn from(name: StatusName) -> Self {
        match name {
            StatusName::Succeeded => Self::Succeeded,
            StatusName::Failed => Self::Failed,
            StatusName::Refused => Self::Refused,
            StatusName::TimedOut => Self::TimedOut,
            StatusName::Cancelled => Self::Cancelled,
            StatusName::Interrupted => Self::Interrupted,
        }
    }
}

/// What calls.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CallerType")]
pub(crate) enum CallerTypeDoc {
    /// Nobody said.
    Unknown,
    /// An agent in a conversation.
    ConversationAgent,
    /// A node of a workflow.
    WorkflowNode,
    /// A program or a person.
    Direct,
}

/// Who calls.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Caller")]
pub(crate) struct CallerDoc {
    /// The tenant.
    tenant_id: String,
    /// The person on whose behalf the call is made.
    user_id: Option<String>,
    /// The agent, node or program that calls.
    caller_id: Option<String>,
    caller_type: CallerTypeDoc,
    /// The conversation.
    conversation_id: Option<String>,
    /// The workflow.
    workflow_id: Option<String>,
    /// The call that made this call.
    #[serde(default)]
    #[schemars(schema_with = "maybe_id")]
    parent_call_id: Option<String>,
}

/// The record of a call that has ended.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CallRecord")]
pub(crate) struct RecordDoc {
    /// The call's id; also the record's.
    #[schemars(schema_with = "id")]
    record_id: String,
    /// The id that the model gave the call.
    call_ref: Option<String>,
    /// The tool's name, as asked for.
    tool_name: String,
    /// The arguments: redacted and capped.
    params: Value,
    /// The result, capped; none of a call that failed.
    result: Option<OutputDoc>,
    status: StatusName,
    /// Whether it has a result.
    is_success: bool,
    /// Why it failed.
    error: Option<RecordedErrorDoc>,
    /// Who called.
    #[serde(flatten)]
    caller: CallerDoc,
    /// How often it was tried.
    attempts: u32,
    /// How long it waited for a slot, in seconds.
    queue_wait: f64,
    /// How long it ran, in seconds.
    execution_time: f64,
    /// When the call came.
    #[schemars(schema_with = "time")]
    created_at: String,
    /// Where in a trace the call belongs, as the W3C has it.
    #[serde(default)]
    traceparent: Option<String>,
    /// The attempts that failed before the last one, in order.
    failed_attempts: Option<Vec<FailedAttemptDoc>>,
    /// The caller's key.
    idempotency_key: Option<String>,
    /// The earlier call whose result this is.
    #[serde(default)]
    #[schemars(schema_with = "maybe_id")]
    same_as: Option<String>,
    /// What a person said, for a call that waited for it.
    approval: Option<VerdictDoc>,
    /// What models took to answer this call.
    usage: Option<UsageDoc>,
    /// The same with the calls that it made, where those asked models, too.
    total_usage: Option<UsageDoc>,
}

/// What models took to answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Usage")]
pub(crate) struct UsageDoc {
    /// Tokens that models read, but for those of a cache.
    input_tokens: u64,
    /// Tokens that models wrote.
    output_tokens: u64,
    /// Tokens that models read from a cache.
    cache_read_tokens: Option<u64>,
    /// Tokens that were put into a cache.
    cache_write_tokens: Option<u64>,
    /// What all of it costs, in US dollars.
    estimated_cost_usd: f64,
}

/// A call that has not ended.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OpenCall")]
pub(crate) struct OpenDoc {
    /// The call's id.
    #[schemars(schema_with = "id")]
    record_id: String,
    status: OpenStatus,
    /// What it waits for, where it waits for somebody.
    reason: Option<String>,
}

/// What a call that has not ended does.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OpenStatus {
    /// It waits for a slot, or runs.
    Running,
    /// It waits for a person who decides about it.
    Waiting,
    /// It waits for answers to what its tool has asked.
    Suspended,
}

/// A call: its record once it has ended.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes what two others write")]
pub(crate) enum CallState {
    /// It has ended.
    Ended(Box<RecordDoc>),
    /// It has not.
    Open(OpenDoc),
}

/// The error of a call.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RecordedError")]
struct RecordedErrorDoc {
    /// What kind; docs/reference/errors.md has all of them.
    kind: String,
    /// What went wrong, for operators.
    message: String,
    /// The tool's own text for the model, where it gave one.
    feedback: Option<String>,
}

/// An attempt after which the call was tried again.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FailedAttempt")]
struct FailedAttemptDoc {
    error: RecordedErrorDoc,
    /// How long it ran, in seconds.
    execution_time: f64,
    /// How long the engine waited before the next one, in seconds.
    delay: f64,
}

/// What a tool gave back.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Output")]
struct OutputDoc {
    /// The blocks, in order.
    content: Vec<ContentDoc>,
    /// The result as data, where it differs from the blocks.
    structured: Option<Value>,
    /// Facts about the run.
    #[serde(default)]
    #[schemars(schema_with = "object")]
    metadata: Option<Value>,
    truncated: Option<TruncatedDoc>,
}

/// One block of a result.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Content")]
pub(crate) struct ContentDoc {
    #[serde(rename = "type")]
    kind: ContentType,
    /// What the block holds: a text for `text`, `link`, `image_link` and
    /// `file_var`; any JSON for `json` and `resource`; `{base64, mime_type}` for
    /// `image`, `blob` and `audio`.
    message: Value,
    /// Facts about the block: a title, a size, a media type.
    #[serde(default)]
    #[schemars(schema_with = "object")]
    meta: Option<Value>,
    /// The variable under which a workflow keeps this block.
    save_as: Option<String>,
}

/// What a block holds.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ContentType {
    Text,
    Json,
    Link,
    ImageLink,
    Image,
    FileVar,
    Blob,
    Audio,
    Resource,
}

/// Says that a result was cut, and where the whole of it is.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Truncated")]
pub(crate) struct TruncatedDoc {
    /// The whole is at `/v1/files/{handle}`. None where it could not be kept.
    handle: Option<String>,
    /// The size of the whole, in bytes.
    total_bytes: u64,
    /// How much of it the content shows.
    shown_bytes: u64,
}

/// One thing that is wrong with arguments.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Violation")]
pub(crate) struct ViolationDoc {
    /// Where, as a JSON pointer; empty for the whole.
    path: String,
    /// What the schema wants there.
    expected: String,
    /// What came, shortened.
    got: String,
}

/// Statistics over calls.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ToolStatistics")]
pub(crate) struct ToolStatisticsDoc {
    /// How many calls.
    calls: u64,
    /// How many succeeded.
    successful: u64,
    /// Per cent, 0 to 100.
    success_rate: f64,
    /// Calls by how they ended.
    by_status: BTreeMap<String, u64>,
    /// The median run time in milliseconds.
    p50_ms: f64,
    /// 95 of 100 calls took at most so long.
    p95_ms: f64,
    /// 99 of 100 calls took at most so long.
    p99_ms: f64,
    /// What models took to answer.
    usage: Option<UsageDoc>,
}

/// How full the engine is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LimitMetrics {
    /// Calls that have a slot.
    current_concurrent: u64,
    /// Calls that wait.
    queue_length: u64,
    /// Calls of workflow nodes, which take none. This and the following are told
    /// to the tenant `default` alone.
    bypassing: Option<u64>,
    /// Calls that got a slot so far.
    total_acquired: Option<u64>,
    /// Calls that were refused so far.
    total_rejected: Option<u64>,
    /// Calls that gave up waiting so far.
    total_timeout: Option<u64>,
    /// How long a call ran on average, in seconds.
    avg_execution_time: Option<f64>,
    /// The categories that have a limit of their own.
    buckets: Option<BTreeMap<String, BucketMetrics>>,
}

/// How full a category is.
#[derive(Serialize, JsonSchema)]
struct BucketMetrics {
    /// Calls that run.
    current: u64,
    /// How many may run.
    limit: u64,
    /// Calls that wait.
    queue: u64,
}
