//! Queue events: the events of a batch, for a front end that shows a model's
//! turn.
//!
//! A stateless view: each event maps to queue events by itself, so a subscriber
//! may start anywhere. An agent's name is that of its tool without `invoke_`;
//! its start comes before that of its tool, its end after it.
//!
//! A failed call is reported once: as `tool_error` for a tool that failed, was
//! refused or was stopped. An agent that ran and failed has produced an answer:
//! it is reported as `tool_completed` and `agent_completed`, both with
//! `success: false`. Other events have no equivalent and are omitted: progress
//! of other tools, changes of tools, missed events.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::{CallInfo, Event, EventBody};
use crate::call::content::{Body, Content};
use crate::error::ErrorKind;
use crate::journal::record::Status;
use crate::tool::Kind;

/// Prefix of the names of agents' tools.
const AGENT_PREFIX: &str = "invoke_";

/// An event of a batch, in the JSON form of a front end: `{"type":
/// "tool_started", "toolUseId": …}`.
///
/// `toolUseId` is the id that the model gave the call, or else the call's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum QueueEvent {
    /// A call of a batch was queued.
    ToolQueued {
        /// The tool.
        tool_name: Arc<str>,
        /// The call.
        tool_use_id: Arc<str>,
        /// Position in the batch, from 0.
        position: usize,
    },
    /// A call starts to run.
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
        /// Execution time, in milliseconds.
        duration_ms: u64,
        /// `false` only for an agent that ran and failed.
        success: bool,
    },
    /// A call failed, was refused, or was stopped.
    ToolError {
        /// The tool.
        tool_name: Arc<str>,
        /// The call.
        tool_use_id: Arc<str>,
        /// The message for operators.
        error: String,
    },
    /// An agent starts to run.
    AgentStarted {
        /// The agent.
        agent_name: Arc<str>,
        /// The call.
        tool_use_id: Arc<str>,
    },
    /// An agent starts another turn.
    AgentProgress {
        /// The agent.
        agent_name: Arc<str>,
        /// The call.
        tool_use_id: Arc<str>,
        /// Number of the turn, from 1.
        turn: u64,
        /// Maximum number of turns.
        max_turns: u64,
    },
    /// An agent ended, successfully or not.
    AgentCompleted {
        /// The agent.
        agent_name: Arc<str>,
        /// The call.
        tool_use_id: Arc<str>,
        /// Execution time, in milliseconds.
        duration_ms: u64,
        /// Whether it succeeded.
        success: bool,
    },
    /// All calls of a batch have their results.
    QueueDrained,
}

impl Event {
    /// Maps an event to queue events: mostly one, two for the start and the end
    /// of an agent, none if there is no equivalent.
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
                // A call that never ran has no execution time.
                let ran = *status == Status::Failed || *execution_time > 0.0;
                let agent = if ran { ended.agent(false) } else { None };
                let tool = match (status, error_kind) {
                    (Status::Failed, _) if agent.is_some() => ended.tool(false),
                    // The short text that front ends expect; the spelling
                    // suggestion is for the model.
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

/// The turn reported by an agent.
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
