//! Model usage: tokens and their cost.

use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["input_tokens", "output_tokens", "estimated_cost_usd"]))]
pub struct Usage {
    /// Input tokens, without those from a cache.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens read from a cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// Tokens written to a cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Cost in US dollars, as far as prices are known.
    #[serde(rename = "estimated_cost_usd")]
    pub cost_usd: f64,
}

impl Usage {
    /// Total number of tokens.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens
    }

    /// Whether it is zero.
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

/// Usage of a call itself, and including nested calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CallUsage {
    pub(crate) own: Usage,
    pub(crate) total: Usage,
}

impl CallUsage {
    /// Adds usage of the call itself.
    pub(crate) fn add_own(&mut self, usage: Usage) {
        self.own += usage;
        self.total += usage;
    }
}
