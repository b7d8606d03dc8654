//! Calls made on behalf of an agent: by sub-agents, and by a running tool.

pub(crate) mod nested;
pub(crate) mod sub_agent;
