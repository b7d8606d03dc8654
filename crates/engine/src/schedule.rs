//! Scheduling: concurrency limits and queue, batch plans, quotas, retries and
//! circuit breakers.

mod access;
mod fair_slots;
mod limits;
mod plan;
mod quota;
mod retry;
mod running;
mod slot;
mod upstream;

pub use fair_slots::{FairSlot, FairSlots, TENANT_SHARE};
pub use limits::{BucketMetrics, LimitMetrics, LimitSettings, Strategy, TenantLoad};
pub(crate) use limits::{Demand, Permit, SlotPool, TicketCell};
pub(crate) use plan::{Access, BatchPlan};
pub(crate) use quota::QuotaCounters;
pub use quota::{CallQuota, CallQuotas, QuotaScope, QuotaUse};
pub use retry::RetryPolicy;
pub use running::UnderWay;
pub(crate) use running::{ListedCall, RunningCalls};
pub(crate) use slot::Slot;
pub(crate) use upstream::{Attempt, Upstream, UpstreamRef, UpstreamSettings, Upstreams, asks_many};
pub use upstream::{BreakerSettings, RetryBudget};
