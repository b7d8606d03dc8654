//! Cost summary of agents, from their results.

use serde::Serialize;
use serde_json::Value;
use windlass::CallResult;

/// Usage of one agent, including the agents that it called.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCost {
    /// The agent.
    pub agent_name: String,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Estimated cost in US dollars.
    pub estimated_cost_usd: f64,
    /// Number of model requests.
    pub turns_used: u64,
    /// Duration of the run.
    pub duration_ms: u64,
}

/// The usage of each agent among these results.
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
