//! Decides when a call may run.

mod limits;

pub(crate) use limits::Limits;
