//! What can be set about an engine.

use std::time::Duration;

use crate::schedule::{BreakerSettings, CallQuotas, LimitSettings, RetryBudget, RetryPolicy};

/// The settings of an engine. The defaults are those of the requirements.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// How many calls run at once, and which wait.
    pub limits: LimitSettings,
    /// How many calls may begin, and what they may cost, by tenant, user, key and
    /// tool.
    pub quotas: CallQuotas,
    /// How many calls of one batch run at once (S3.23).
    pub max_parallel: usize,
    /// How many calls a batch may have; each one more gets an error (S3.24).
    pub max_batch: usize,
    /// How deep tools may call tools that call tools.
    pub max_depth: u32,
    /// How often a call is tried that is safe to repeat and does not say so
    /// itself.
    pub retry: RetryPolicy,
    /// How many extra attempts an upstream gets from all calls together.
    pub retry_budget: RetryBudget,
    /// When an upstream that keeps failing is left alone; none: never.
    pub breaker: Option<BreakerSettings>,
    /// How many results of tools with `cache` are kept (S3.26).
    pub cache_entries: usize,
    /// How long a call may take if neither it nor its tool says so.
    pub default_timeout: Duration,
    /// Refuse arguments that would have to be repaired, and unknown keys.
    pub strict_validation: bool,
    /// How many bytes of a result the caller gets; the whole is kept.
    pub max_output_bytes: usize,
    /// How many bytes of the arguments and of the result a record keeps.
    pub max_record_bytes: usize,
    /// How many events a slow subscriber may lag behind.
    pub event_capacity: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: LimitSettings::default(),
            quotas: CallQuotas::default(),
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
