//! S0.20's brief summary: what a final answer tells about the use of tools.

use std::collections::BTreeMap;

use serde::Serialize;

use super::rate;

/// A few figures about a number of calls, for a final answer or a front end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BriefSummary {
    /// How many calls.
    pub total_calls: u64,
    /// Per cent, 0 to 100; 0 where there was no call.
    pub success_rate: f64,
    /// Calls by tool.
    pub tool_usage: BTreeMap<String, u64>,
    /// Whether a call failed.
    pub has_errors: bool,
}

impl BriefSummary {
    pub(crate) fn new(total: u64, successful: u64, tool_usage: &BTreeMap<String, u64>) -> Self {
        Self {
            total_calls: total,
            success_rate: rate(successful, total),
            tool_usage: tool_usage.clone(),
            has_errors: successful < total,
        }
    }
}
