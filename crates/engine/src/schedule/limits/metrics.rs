//! Metrics of the concurrency limits.

use std::collections::BTreeMap;

use serde::Serialize;

/// Metrics of the concurrency limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitMetrics {
    /// Calls that hold a slot.
    pub current_concurrent: usize,
    /// Calls of workflow nodes, which take no slot.
    pub bypassing: usize,
    /// Waiting calls.
    pub queue_length: usize,
    /// Slots acquired so far.
    pub total_acquired: u64,
    /// Calls rejected so far.
    pub total_rejected: u64,
    /// Calls that stopped waiting so far, mostly at their deadline.
    pub total_timeout: u64,
    /// Average execution time, in seconds.
    pub avg_execution_time: f64,
    /// Categories with a limit of their own.
    pub buckets: BTreeMap<String, BucketMetrics>,
}

/// Load caused by one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TenantLoad {
    /// Its unfinished calls that do not wait for a slot.
    pub current_concurrent: usize,
    /// Its calls that wait for a slot.
    pub queue_length: usize,
}

/// Metrics of a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BucketMetrics {
    /// Running calls.
    pub current: usize,
    /// Maximum number of running calls.
    pub limit: usize,
    /// Waiting calls.
    pub queue: usize,
}
