//! Decides when a call may run: beside which others, and within which limits.

mod access;
mod limits;
mod plan;

pub use limits::{BucketMetrics, LimitMetrics, LimitSettings, Strategy};
pub(crate) use limits::{Demand, Limits};
pub(crate) use plan::{Access, Plan};
