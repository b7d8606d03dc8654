//! Human in the loop: the places where a call or a provider waits for a person.
//!
//! - `approvals`: calls that need a person's verdict before they run.
//! - `questions`: elicitation by tools of background calls.
//! - `parked`: MCP requests that wait for their client's answers.
//! - `consents`: OAuth consents for tools that act on a person's behalf.

pub(crate) mod approvals;
pub(crate) mod consents;
pub(crate) mod parked;
pub(crate) mod questions;
