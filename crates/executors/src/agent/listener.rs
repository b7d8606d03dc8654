//! Who hears what an agent does, and what there is to hear.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use windlass::Usage;

/// Hears what an agent does, and what the agents do that it calls: a context
/// object of its call.
#[derive(Clone)]
pub struct Listener(pub(super) Arc<dyn Fn(&RunEvent<'_>) + Send + Sync>);

impl Listener {
    /// Calls back for everything. The callback runs on the agent's own task, so
    /// it should be short.
    pub fn new(hear: impl Fn(&RunEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }
}

/// Something that an agent does.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunEvent<'e> {
    /// It asks its model.
    Turn {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// Which turn, from 1.
        turn: u32,
        /// How many it may take.
        max_turns: u32,
    },
    /// Its model writes.
    Text {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// What it writes next.
        text: &'e str,
    },
    /// Its answer broke off, and the model is asked again: what it has written
    /// in this turn counts for nothing.
    Restart {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// What it has written.
        text: &'e str,
    },
    /// It calls a tool.
    Call {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// The tool.
        tool: &'e str,
        /// What the model wrote.
        arguments: &'e Value,
    },
    /// A tool has ended.
    Result {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// The tool.
        tool: &'e str,
        /// Whether it gave a result.
        is_success: bool,
        /// How long it ran.
        run_time: Duration,
    },
    /// It has used this much so far, with the agents that it called.
    Used {
        /// The agent.
        agent: &'e str,
        /// The run.
        run: &'e str,
        /// How much.
        usage: Usage,
    },
}
