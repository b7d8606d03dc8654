//! Settings of the concurrency limits.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Concurrency and rate limits of an engine. They can be changed at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitSettings {
    /// Maximum number of running calls.
    pub max_concurrent: usize,
    /// Maximum number of waiting calls; further ones are refused.
    pub queue_size: usize,
    /// Order of waiting calls, or whether calls may wait at all.
    pub strategy: Strategy,
    /// Maximum number of running calls per category.
    pub bucket_limits: BTreeMap<String, usize>,
    /// Maximum number of running calls per tenant.
    pub per_tenant: Option<usize>,
    /// Maximum number of running calls per agent.
    pub per_agent: Option<usize>,
    /// Slots reserved for tenants below their fair share; by default one in
    /// ten. A single tenant may use all of them.
    pub reserved_slots: Option<usize>,
    /// Rate limit: calls per second, which is also the burst size.
    pub calls_per_second: Option<u32>,
    /// Ageing for the strategy `priority`: a waiting call gains one step of
    /// priority per interval, which prevents starvation.
    pub ageing: Duration,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            max_concurrent: 10,
            queue_size: 100,
            strategy: Strategy::default(),
            bucket_limits: BTreeMap::new(),
            per_tenant: None,
            per_agent: None,
            reserved_slots: None,
            calls_per_second: None,
            ageing: Duration::from_secs(1),
        }
    }
}

impl LimitSettings {
    /// Number of reserved slots, of this many.
    pub(super) fn reserved(&self, slots: usize) -> usize {
        self.reserved_slots.unwrap_or(slots / 10).min(slots - 1)
    }
}

/// What happens to a call without a free slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// It waits; tenants are served round-robin, and first come, first served
    /// within a tenant.
    #[default]
    Fifo,
    /// It waits; the highest priority is served first.
    Priority,
    /// It is refused.
    Reject,
}
