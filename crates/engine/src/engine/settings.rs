//! Settings of an engine.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::schedule::{BreakerSettings, CallQuotas, LimitSettings, RetryBudget, RetryPolicy};
use crate::value::name::TenantId;

/// Settings of an engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineSettings {
    /// Concurrency limits and the queue.
    pub limits: LimitSettings,
    /// Quotas for calls and their cost, by tenant, user, key and tool.
    pub quotas: CallQuotas,
    /// Quotas of single tenants, instead of `quotas`.
    pub tenant_quotas: BTreeMap<TenantId, CallQuotas>,
    /// Maximum number of calls of one batch that run concurrently.
    pub max_parallel: usize,
    /// Maximum number of calls in a batch; further ones get an error.
    pub max_batch: usize,
    /// Maximum nesting depth of calls.
    pub max_depth: u32,
    /// Default retry policy of calls that are safe to repeat.
    pub retry: RetryPolicy,
    /// Retry budget of an upstream, shared by all calls.
    pub retry_budget: RetryBudget,
    /// Circuit breaker for failing upstreams; `None` disables it.
    pub breaker: Option<BreakerSettings>,
    /// Maximum number of cached results of tools with `cache`.
    pub cache_entries: usize,
    /// Default timeout of calls.
    pub default_timeout: Duration,
    /// Refuse arguments that need repair, and unknown keys.
    pub strict_validation: bool,
    /// Maximum size of a result for the caller, in bytes; the whole is stored.
    pub max_output_bytes: usize,
    /// Maximum size of arguments and result in a record, in bytes.
    pub max_record_bytes: usize,
    /// Capacity of the event buffer: how far a slow subscriber may lag behind.
    pub event_capacity: usize,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            limits: LimitSettings::default(),
            quotas: CallQuotas::default(),
            tenant_quotas: BTreeMap::new(),
            max_parallel: 10,
            max_batch: 50,
            max_depth: 5,
            retry: RetryPolicy::default(),
            retry_budget: RetryBudget::default(),
            breaker: Some(BreakerSettings::default()),
            cache_entries: 1_000,
            default_timeout: Duration::from_secs(30),
            strict_validation: false,
            max_output_bytes: 100 * 1024,
            max_record_bytes: 16 * 1024,
            event_capacity: 1024,
        }
    }
}
