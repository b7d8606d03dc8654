//! Progress events of an agent's run.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use windlass::Usage;

/// Receives the events of an agent and of the agents that it calls. A context object of
/// its call.
#[derive(Clone)]
pub struct Listener(pub(super) Arc<dyn Fn(&RunEvent<'_>) + Send + Sync>);

impl Listener {
    /// A listener with a callback. It runs on the agent's own task, so it should be
    /// short.
    pub fn new(hear: impl Fn(&RunEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }
}

/// An event of a run.
#[derive(Debug)]
pub enum RunEvent<'e> {
    /// A request to the model.
    Turn {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// The turn, from 1.
        turn: u32,
        /// The maximum number of turns.
        max_turns: u32,
    },
    /// A chunk of the model's text.
    Text {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// The text of the chunk.
        text: &'e str,
    },
    /// The stream broke off and the request is repeated: discard the text of this turn so
    /// far.
    Restart {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// The discarded text.
        text: &'e str,
    },
    /// A tool call.
    Call {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// The tool.
        tool: &'e str,
        /// The arguments, as the model wrote them.
        arguments: &'e Value,
    },
    /// The end of a tool call.
    Result {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// The tool.
        tool: &'e str,
        /// Whether it succeeded.
        is_success: bool,
        /// How long it ran.
        run_time: Duration,
    },
    /// Usage so far, including the agents that it called.
    Used {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// The usage.
        usage: Usage,
    },
}
