//! Events as S4.4 names them, for a front end that shows a model's turn.
//!
//! A view without a memory: what an event looks like depends on nothing but
//! the event, so a subscriber may begin anywhere. An agent's name is that of its
//! tool without `invoke_`; its start comes before its tool's, its end after it.
//!
//! A call that fails is told once, as S4's queue does it: `tool_error` for a
//! tool that failed, was refused or was stopped. An agent that ran and failed
//! has answered for itself: `tool_completed` and `agent_completed`, both with
//! `success: false`. What S4 has no name for is left out: the progress of other
//! tools, the tools themselves, missed events.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::{CallInfo, Event, EventBody};
use crate::call::content::{Body, Content};
use crate::error::ErrorKind;
use crate::journal::record::Status;
use crate::tool::Kind;

/// What the name of an agent's tool may begin with (S4.8).
const AGENT_PREFIX: &str = "invoke_";

/// An event of a batch, in S4's JSON form: `{"type": "tool_started",
/// "toolUseId": …}`.
///
/// `toolUseId` is the id that the model gave the call, else the call's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum QueueEvent {
    /// A call of a batch was taken.
    ToolQueued {
        /// The tool.
        tool_name: Arc<str>,
        /// The call.
        tool_use_id: Arc<str>,
        /// Its place in the batch, from 0.
        position: usize,
    },
    /// A call begins to run.
    ToolStarted {
        /// The tool.
        tool_name: Arc<str>,
        /// The call.
        tool_use_id: Arc<str>,
    },
    /// A call has its result.
    ToolCompleted {
        /// The tool.
        tool_name: Arc<str>,
        /// The call.
        tool_use_id: Arc<str>,
        /// How long it ran, in milliseconds.
        duration_ms: u64,
        /// False only for an agent that ran and failed.
        success: bool,
    },
    /// A call failed, was refused, or was stopped.
    ToolError {
        /// The tool.
        tool_name: Arc<str>,
        /// The call.
        tool_use_id: Arc<str>,
        /// The operator's text.
        error: String,
    },
    /// An agent begins to run.
    AgentStarted {
        /// The agent.
        agent_name: Arc<str>,
        /// The call.
        tool_use_id: Arc<str>,
    },
    /// An agent begins another turn.
    AgentProgress {
        /// The agent.
        agent_name: Arc<str>,
        /// The call.
        tool_use_id: Arc<str>,
        /// Which turn, from 1.
        turn: u64,
        /// How many it may take.
        max_turns: u64,
    },
    /// An agent has ended, well or not.
    AgentCompleted {
        /// The agent.
        agent_name: Arc<str>,
        /// The call.
        tool_use_id: Arc<str>,
        /// How long it ran, in milliseconds.
        duration_ms: u64,
        /// Whether it gave a result.
        success: bool,
    },
    /// All calls of a batch have their results.
    QueueDrained,
}

impl Event {
    /// The event as S4 tells it: mostly one event, two for the start and the
    /// end of an agent, none where S4 has no name for it.
    pub fn to_queue_events(&self) -> Vec<QueueEvent> {
        match &self.body {
            EventBody::ToolQueued { call, position, .. } => vec![QueueEvent::ToolQueued {
                tool_name: Arc::clone(&call.tool_name),
                tool_use_id: tool_use_id(call),
                position: *position,
            }],
            EventBody::ExecutionStarted { call } => started(call),
            EventBody::ExecutionProgress { call, progress } => {
                turn(call, progress).into_iter().collect()
            }
            EventBody::ExecutionCompleted { call, execution_time } => {
                let ended = Ended { call, duration_ms: millis(*execution_time) };
                std::iter::once(ended.tool(true)).chain(ended.agent(true)).collect()
            }
            EventBody::ExecutionFailed { call, status, error_kind, error, execution_time } => {
                let ended = Ended { call, duration_ms: millis(*execution_time) };
                // A call that never ran took no time at all.
                let ran = *status == Status::Failed || *execution_time > 0.0;
                let agent = if ran { ended.agent(false) } else { None };
                let tool = match (status, error_kind) {
                    (Status::Failed, _) if agent.is_some() => ended.tool(false),
                    // S4's own words; how to spell it better is the model's to read.
                    (Status::Refused, ErrorKind::ToolNotFound) => {
                        ended.error(format!("Unknown tool: {}", call.tool_name))
                    }
                    _ => ended.error(error.clone()),
                };
                std::iter::once(tool).chain(agent).collect()
            }
            EventBody::QueueDrained { .. } => vec![QueueEvent::QueueDrained],
            // A front end has no name for these.
            EventBody::ToolLoaded { .. }
            | EventBody::ToolAdded { .. }
            | EventBody::ToolUpdated { .. }
            | EventBody::ToolRemoved { .. }
            | EventBody::ReloadStarted { .. }
            | EventBody::ReloadCompleted { .. }
            | EventBody::LoadError { .. }
            | EventBody::ValidationError { .. }
            | EventBody::ApprovalRequested { .. }
            | EventBody::ApprovalDecided { .. }
            | EventBody::ExecutionRetried { .. }
            | EventBody::Missed { .. } => Vec::new(),
        }
    }
}

/// A call that has ended.
struct Ended<'a> {
    call: &'a CallInfo,
    duration_ms: u64,
}

impl Ended<'_> {
    fn tool(&self, success: bool) -> QueueEvent {
        QueueEvent::ToolCompleted {
            tool_name: Arc::clone(&self.call.tool_name),
            tool_use_id: tool_use_id(self.call),
            duration_ms: self.duration_ms,
            success,
        }
    }

    fn error(&self, error: String) -> QueueEvent {
        QueueEvent::ToolError {
            tool_name: Arc::clone(&self.call.tool_name),
            tool_use_id: tool_use_id(self.call),
            error,
        }
    }

    /// The end of the agent, if the tool is one.
    fn agent(&self, success: bool) -> Option<QueueEvent> {
        Some(QueueEvent::AgentCompleted {
            agent_name: agent_name(self.call)?,
            tool_use_id: tool_use_id(self.call),
            duration_ms: self.duration_ms,
            success,
        })
    }
}

fn started(call: &CallInfo) -> Vec<QueueEvent> {
    let agent = agent_name(call)
        .map(|agent_name| QueueEvent::AgentStarted { agent_name, tool_use_id: tool_use_id(call) });
    let tool = QueueEvent::ToolStarted {
        tool_name: Arc::clone(&call.tool_name),
        tool_use_id: tool_use_id(call),
    };
    agent.into_iter().chain([tool]).collect()
}

/// The turn that an agent reports.
fn turn(call: &CallInfo, progress: &Content) -> Option<QueueEvent> {
    let Body::Json(report) = &progress.body else { return None };
    Some(QueueEvent::AgentProgress {
        agent_name: agent_name(call)?,
        tool_use_id: tool_use_id(call),
        turn: report.get("turn").and_then(Value::as_u64)?,
        max_turns: report.get("maxTurns").and_then(Value::as_u64)?,
    })
}

/// The agent behind a tool, if there is one.
fn agent_name(call: &CallInfo) -> Option<Arc<str>> {
    if call.kind != Some(Kind::Agent) {
        return None;
    }
    let name = call.tool_name.strip_prefix(AGENT_PREFIX).filter(|name| !name.is_empty());
    Some(name.map_or_else(|| Arc::clone(&call.tool_name), Arc::from))
}

fn tool_use_id(call: &CallInfo) -> Arc<str> {
    match &call.call_ref {
        Some(call_ref) => Arc::clone(call_ref),
        None => call.call_id.to_string().into(),
    }
}

/// Whole milliseconds; a cast of a float saturates.
fn millis(seconds: f64) -> u64 {
    (seconds * 1000.0).round() as u64
}
