//! Schemas of unfinished calls and of the engine's utilization.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use windlass::{CallId, CallRecord};

/// An unfinished call.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OpenCall")]
pub(crate) struct OpenDoc {
    /// The call's id.
    record_id: CallId,
    status: OpenStatus,
    /// What it waits for, if it is suspended.
    reason: Option<String>,
}

/// The state of an unfinished call.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OpenStatus {
    /// It waits for a slot, or runs.
    Running,
    /// It waits for an approval.
    Waiting,
    /// It waits for answers to its tool's questions (elicitation).
    Suspended,
}

/// A call: its record once it has ended.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes what two others write")]
pub(crate) enum CallState {
    /// It has ended.
    Ended(Box<CallRecord>),
    /// It is unfinished.
    Open(OpenDoc),
}

/// The utilization of the engine.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LimitMetrics")]
pub(crate) struct LimitMetricsDoc {
    /// Calls that have a slot.
    current_concurrent: u64,
    /// Calls that wait.
    queue_length: u64,
    /// Calls of workflow nodes, which take none. This and the following are told
    /// to the tenant `default` alone.
    bypassing: Option<u64>,
    /// Calls that got a slot so far.
    total_acquired: Option<u64>,
    /// Calls that were rejected so far.
    total_rejected: Option<u64>,
    /// Calls that stopped waiting so far.
    total_timeout: Option<u64>,
    /// How long a call ran on average, in seconds.
    avg_execution_time: Option<f64>,
    /// The categories that have a limit of their own.
    buckets: Option<BTreeMap<String, BucketMetricsDoc>>,
}

/// The utilization of a category.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BucketMetrics")]
struct BucketMetricsDoc {
    /// Calls that run.
    current: u64,
    /// How many may run.
    limit: u64,
    /// Calls that wait.
    queue: u64,
}
