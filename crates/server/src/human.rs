//! Human in the loop: where a call or a provider waits for what a person says.

pub(crate) mod approvals;
pub(crate) mod consents;
pub(crate) mod parked;
pub(crate) mod questions;
