//! Decides when a call may run.

mod limits;
#[allow(dead_code, reason = "the batch comes next")]
mod plan;

pub(crate) use limits::Limits;
