//! Decides when a call may run: beside which others, and within which limits.

mod access;
mod limits;
mod plan;

pub(crate) use limits::Limits;
pub(crate) use plan::{Access, Plan};
