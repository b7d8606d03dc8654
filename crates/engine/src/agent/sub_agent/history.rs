//! Call history of a sub-agent: a bounded list, and counters over all calls.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::call::CallResult;
use crate::error::{Error, ErrorKind};
use crate::journal::record::{BriefSummary, UNKNOWN_TOOL, rate, seconds};
use crate::value::name::CallId;

const MAX_HISTORY: usize = 1000;

/// Summary of a sub-agent's calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExecutionSummary {
    /// Id of the sub-agent.
    pub agent_id: Arc<str>,
    /// Id of the agent that it works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_agent_id: Option<Arc<str>>,
    /// Number of calls.
    pub total_calls: u64,
    /// Number of successful calls.
    pub successful_calls: u64,
    /// In per cent, 0 to 100; 0 without calls.
    pub success_rate: f64,
    /// Calls per tool. Names of unknown tools are counted together.
    pub tool_usage: BTreeMap<String, u64>,
    /// The most recent calls, oldest first.
    pub call_details: Vec<CallDetail>,
}

/// One call of a sub-agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallDetail {
    /// The call's id; its record, with arguments and result, has the same.
    pub call_id: CallId,
    /// The id that the model gave the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ref: Option<Arc<str>>,
    /// The tool.
    pub tool_name: Arc<str>,
    /// Whether the tool gave a result.
    pub is_success: bool,
    /// The operator's text about the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The failure's error type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<&'static str>,
    /// How long it ran; seconds on the wire.
    #[serde(rename = "execution_time", serialize_with = "seconds")]
    pub run_time: Duration,
    /// When the call came.
    #[serde(rename = "executed_at")]
    pub created_at: Timestamp,
}

impl From<&CallResult> for CallDetail {
    fn from(result: &CallResult) -> Self {
        let error = result.error();
        Self {
            call_id: result.id,
            call_ref: result.call_ref.clone(),
            tool_name: Arc::clone(&result.tool_name),
            is_success: result.is_success(),
            error: error.map(|error| error.message().to_owned()),
            error_type: error.map(|error| error.kind().info().error_type),
            run_time: result.run_time,
            created_at: result.created_at,
        }
    }
}

/// Call history of a sub-agent.
pub(super) struct CallHistory {
    newest: VecDeque<CallDetail>,
    max: usize,
    total: u64,
    successful: u64,
    usage: BTreeMap<String, u64>,
}

impl Default for CallHistory {
    fn default() -> Self {
        Self {
            newest: VecDeque::new(),
            max: MAX_HISTORY,
            total: 0,
            successful: 0,
            usage: BTreeMap::new(),
        }
    }
}

impl CallHistory {
    pub(super) fn push(&mut self, result: &CallResult) {
        self.total += 1;
        self.successful += u64::from(result.is_success());
        // Unknown names share one entry: a model can make up any number of
        // them.
        let tool = match result.error().map(Error::kind) {
            Some(ErrorKind::ToolNotFound) => UNKNOWN_TOOL,
            _ => &result.tool_name,
        };
        match self.usage.get_mut(tool) {
            Some(calls) => *calls += 1,
            None => {
                self.usage.insert(tool.to_owned(), 1);
            }
        }
        self.newest.push_back(result.into());
        self.limit(self.max);
    }

    pub(super) fn limit(&mut self, max: usize) {
        self.max = max;
        let beyond = self.newest.len().saturating_sub(max);
        self.newest.drain(..beyond);
    }

    pub(super) fn details(&self) -> Vec<CallDetail> {
        self.newest.iter().cloned().collect()
    }

    pub(super) fn summary(&self, agent: Arc<str>, parent: Option<Arc<str>>) -> ExecutionSummary {
        ExecutionSummary {
            agent_id: agent,
            parent_agent_id: parent,
            total_calls: self.total,
            successful_calls: self.successful,
            success_rate: rate(self.successful, self.total),
            tool_usage: self.usage.clone(),
            call_details: self.details(),
        }
    }

    pub(super) fn brief(&self) -> BriefSummary {
        BriefSummary::new(self.total, self.successful, &self.usage)
    }
}
