//! Aggregates over records: the summary of a conversation, and statistics over
//! all calls.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{BriefSummary, Histogram, Status};
use crate::value::usage::Usage;

/// Summary of the calls of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The conversation.
    pub conversation_id: String,
    /// Number of calls.
    pub total_calls: u64,
    /// Number of successful calls.
    pub successful_calls: u64,
    /// Number of failed calls.
    pub failed_calls: u64,
    /// In per cent, 0 to 100; 0 without calls.
    pub success_rate: f64,
    /// Calls per tool.
    pub tool_usage: BTreeMap<String, u64>,
    /// Model usage.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
}

impl Summary {
    /// Creates a summary from counts: `(tool, calls, successful)`.
    pub fn new(conversation: &str, counts: impl IntoIterator<Item = (String, u64, u64)>) -> Self {
        let mut summary = Self { conversation_id: conversation.to_owned(), ..Self::default() };
        for (tool, calls, successful) in counts {
            summary.total_calls += calls;
            summary.successful_calls += successful;
            *summary.tool_usage.entry(tool).or_default() += calls;
        }
        summary.failed_calls = summary.total_calls - summary.successful_calls;
        summary.success_rate = rate(summary.successful_calls, summary.total_calls);
        summary
    }

    /// Adds the model usage of each call.
    #[must_use]
    pub fn with_usage(mut self, usage: impl IntoIterator<Item = Usage>) -> Self {
        usage.into_iter().for_each(|usage| self.usage += usage);
        self
    }

    /// The brief form, for a final answer.
    pub fn to_brief(&self) -> Value {
        json!(BriefSummary::new(self.total_calls, self.successful_calls, &self.tool_usage))
    }
}

/// Statistics over all calls of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// All calls together.
    pub total: ToolStatistics,
    /// Per tool.
    pub tools: BTreeMap<String, ToolStatistics>,
}

impl Statistics {
    /// Creates statistics from counts: `(tool, status, histogram bucket,
    /// calls)`. A call that never ran has no bucket and does not count for
    /// execution times.
    pub fn from_counts<T: AsRef<str>>(
        counts: impl IntoIterator<Item = (T, Status, Option<u32>, u64)>,
    ) -> Self {
        #[derive(Default)]
        struct StatusCounts(BTreeMap<Status, u64>, Histogram);
        impl StatusCounts {
            fn add(&mut self, status: Status, bucket: Option<u32>, calls: u64) {
                *self.0.entry(status).or_default() += calls;
                if let Some(bucket) = bucket {
                    self.1.add(bucket, calls);
                }
            }
        }

        let mut total = StatusCounts::default();
        let mut tools: BTreeMap<String, StatusCounts> = BTreeMap::new();
        for (tool, status, bucket, calls) in counts {
            total.add(status, bucket, calls);
            let tool = tool.as_ref();
            match tools.get_mut(tool) {
                Some(counts) => counts.add(status, bucket, calls),
                None => tools.entry(tool.to_owned()).or_default().add(status, bucket, calls),
            }
        }
        Self {
            total: ToolStatistics::new(total.0, &total.1),
            tools: tools
                .into_iter()
                .map(|(tool, counts)| (tool, ToolStatistics::new(counts.0, &counts.1)))
                .collect(),
        }
    }

    /// Adds the model usage per tool.
    #[must_use]
    pub fn with_usage<T: AsRef<str>>(
        mut self,
        usage: impl IntoIterator<Item = (T, Usage)>,
    ) -> Self {
        for (tool, usage) in usage {
            self.total.usage += usage;
            if let Some(tool) = self.tools.get_mut(tool.as_ref()) {
                tool.usage += usage;
            }
        }
        self
    }
}

/// Statistics over the calls of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ToolStatistics {
    /// Number of calls.
    pub calls: u64,
    /// Number of successful calls.
    pub successful: u64,
    /// In per cent, 0 to 100; 0 without calls.
    pub success_rate: f64,
    /// Calls per final status.
    pub by_status: BTreeMap<Status, u64>,
    /// Median execution time, in milliseconds.
    pub p50_ms: f64,
    /// 95th percentile of the execution time, in milliseconds.
    pub p95_ms: f64,
    /// 99th percentile of the execution time, in milliseconds.
    pub p99_ms: f64,
    /// Model usage.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    #[schemars(with = "Option<Usage>")]
    pub usage: Usage,
}

impl ToolStatistics {
    /// Creates statistics from counts by status and by histogram bucket.
    pub fn new(by_status: BTreeMap<Status, u64>, run_times: &Histogram) -> Self {
        let calls = by_status.values().sum();
        let successful = by_status.get(&Status::Succeeded).copied().unwrap_or_default();
        Self {
            calls,
            successful,
            success_rate: rate(successful, calls),
            by_status,
            p50_ms: run_times.quantile_ms(0.50),
            p95_ms: run_times.quantile_ms(0.95),
            p99_ms: run_times.quantile_ms(0.99),
            usage: Usage::default(),
        }
    }
}

/// Success rate in per cent.
pub fn rate(successful: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { successful as f64 * 100.0 / total as f64 }
}
