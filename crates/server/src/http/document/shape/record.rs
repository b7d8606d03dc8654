//! Calls that have not ended, and how full the engine is.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use windlass::{CallId, CallRecord};

/// A call that has not ended.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OpenCall")]
pub(crate) struct OpenDoc {
    /// The call's id.
    record_id: CallId,
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
    Ended(Box<CallRecord>),
    /// It has not.
    Open(OpenDoc),
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
