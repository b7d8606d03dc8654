//! Calls that do not come from the conversation itself: those of sub-agents,
//! and those that a running tool makes.

pub(crate) mod nested;
pub(crate) mod sub_agent;
