//! What can be limited.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of an engine. They may change while calls run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitSettings {
    /// How many calls run at once.
    pub max_concurrent: usize,
    /// How many calls may wait for a slot; one more is refused.
    pub queue_size: usize,
    /// Which of those that wait comes next, or whether any may wait at all.
    pub strategy: Strategy,
    /// How many calls of a category run at once (S0.15).
    pub bucket_limits: BTreeMap<String, usize>,
    /// How many calls of one tenant run at once.
    pub per_tenant: Option<usize>,
    /// How many calls of one agent run at once.
    pub per_agent: Option<usize>,
    /// How many slots are kept free for tenants that have less than their share;
    /// unset: one of ten. A tenant that is alone may use all of them.
    pub reserved_slots: Option<usize>,
    /// How many calls begin in a second; as many may come at once.
    pub calls_per_second: Option<u32>,
    /// With the strategy `priority`, a waiting call gains one step of priority
    /// each time this has passed, so that nobody waits for ever.
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
    /// The slots that are kept free, of so many.
    pub(super) fn reserved(&self, slots: usize) -> usize {
        self.reserved_slots.unwrap_or(slots / 10).min(slots - 1)
    }
}

/// What happens to a call that finds no slot (S0.14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// It waits; tenants take turns, and within a tenant first come, first
    /// served.
    #[default]
    Fifo,
    /// It waits; the highest priority comes first.
    Priority,
    /// It is refused.
    Reject,
}
