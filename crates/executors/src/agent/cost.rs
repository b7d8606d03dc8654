//! What agents cost, from their results (S4.16).

use serde::Serialize;
use serde_json::Value;
use windlass::CallResult;

/// What one agent took, with the agents that it called.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCost {
    /// The agent.
    pub agent_name: String,
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that they wrote.
    pub output_tokens: u64,
    /// What that costs, in US dollars.
    pub estimated_cost_usd: f64,
    /// How often its model was asked.
    pub turns_used: u64,
    /// How long it took.
    pub duration_ms: u64,
}

/// What the agents among these results took (S4.16's `getCostSummary`).
pub fn cost_summary<'r>(results: impl IntoIterator<Item = &'r CallResult>) -> Vec<AgentCost> {
    let about = |result: &'r CallResult| result.metadata()?.get("agentMetadata");
    let of = |about: &Value| AgentCost {
        agent_name: about["agentName"].as_str().unwrap_or_default().to_owned(),
        input_tokens: about["tokensUsed"]["input"].as_u64().unwrap_or_default(),
        output_tokens: about["tokensUsed"]["output"].as_u64().unwrap_or_default(),
        estimated_cost_usd: about["estimatedCostUsd"].as_f64().unwrap_or_default(),
        turns_used: about["turnsUsed"].as_u64().unwrap_or_default(),
        duration_ms: about["durationMs"].as_u64().unwrap_or_default(),
    };
    results.into_iter().filter_map(about).map(of).collect()
}
