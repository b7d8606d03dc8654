//! Brief summary of tool use, for final answers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::rate;

/// A few figures about a number of calls, for a final answer or a front end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BriefSummary {
    /// Number of calls.
    pub total_calls: u64,
    /// In per cent, 0 to 100; 0 without calls.
    pub success_rate: f64,
    /// Calls per tool.
    pub tool_usage: BTreeMap<String, u64>,
    /// Whether any call failed.
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
