//! What models took to answer: tokens, and what they cost.

use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens and their price (S4.16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["input_tokens", "output_tokens", "estimated_cost_usd"]))]
pub struct Usage {
    /// Tokens that models read, but for those of a cache.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// Tokens that models read from a cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// Tokens that were put into a cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// What all of it costs, in US dollars, as far as prices are known.
    #[serde(rename = "estimated_cost_usd")]
    pub cost_usd: f64,
}

impl Usage {
    /// All tokens, whatever they cost.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens
    }

    /// Whether nothing was used.
    pub fn is_zero(&self) -> bool {
        self.total_tokens() == 0 && self.cost_usd == 0.0
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.input_tokens += more.input_tokens;
        self.output_tokens += more.output_tokens;
        self.cache_read_tokens += more.cache_read_tokens;
        self.cache_write_tokens += more.cache_write_tokens;
        self.cost_usd += more.cost_usd;
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What a call has used itself, and with the calls that it made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CallUsage {
    pub(crate) own: Usage,
    pub(crate) total: Usage,
}

impl CallUsage {
    /// Adds what the call has used itself.
    pub(crate) fn add_own(&mut self, usage: Usage) {
        self.own += usage;
        self.total += usage;
    }
}
