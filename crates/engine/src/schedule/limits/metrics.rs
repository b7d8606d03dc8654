//! How full an engine is.

use std::collections::BTreeMap;

use serde::Serialize;

/// How full an engine is (S0.17).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitMetrics {
    /// Calls that have a slot.
    pub current_concurrent: usize,
    /// Calls of workflow nodes, which take none.
    pub bypassing: usize,
    /// Calls that wait.
    pub queue_length: usize,
    /// Calls that got a slot so far.
    pub total_acquired: u64,
    /// Calls that were refused so far.
    pub total_rejected: u64,
    /// Calls that gave up waiting so far, mostly at their deadline.
    pub total_timeout: u64,
    /// How long a call ran on average, in seconds.
    pub avg_execution_time: f64,
    /// The categories that have a limit of their own.
    pub buckets: BTreeMap<String, BucketMetrics>,
}

/// How much a tenant has an engine do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TenantLoad {
    /// Its calls that have not ended and do not wait for a slot.
    pub current_concurrent: usize,
    /// Its calls that wait for a slot.
    pub queue_length: usize,
}

/// How full a category is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BucketMetrics {
    /// Calls that run.
    pub current: usize,
    /// How many may run.
    pub limit: usize,
    /// Calls that wait.
    pub queue: usize,
}
