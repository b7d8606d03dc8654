//! Agents: a model with a system prompt and a set of tools, called like a tool.
//!
//! ```text
//! arguments ─ template ─► first message
//!    ┌─► model ─ OpenTurn ─► calls ─ Gate ─► results ─► next message ─┐
//!    └────────────────────────────────────────────────────────────────┘ until it calls nothing
//! ```
//!
//! An agent is a tool like any other: the engine validates, records and cancels its
//! calls, whether they come from a person or from another agent, in which case they are
//! nested. It holds no slot while it waits for its model or its tools. Its run is logged
//! turn by turn in a [`RunLog`], so that it can resume after the process was killed: the
//! model is not asked again for what it has answered, and no side effect is repeated.

mod cost;
mod extract;
mod gate;
mod listener;
mod log;
mod run;
mod shared_budget;
mod spec;
mod told;

use std::sync::Arc;

use windlass::{
    BoxFuture, Call, CallId, Error, ErrorKind, Executor, Lang, Output, ToolBuilder, ToolSpec,
};

pub use cost::{AgentCost, cost_summary};
pub use listener::{Listener, RunEvent};
pub use log::{MemoryLog, RunEntry, RunLog, Stop, taken_over};
pub use spec::{AgentSpec, Budget};

use crate::model::{Api, Model, ModelSettings, Models};
use extract::Extract;

/// Definitions of the providers of models, as file names and their text: the known ones
/// and those of the settings, each with an API key of its own.
pub fn provider_definitions(settings: &ModelSettings) -> Vec<(String, String)> {
    let known = Api::ALL.into_iter().map(Api::provider_definition);
    let set = settings.providers.iter().filter(|(name, _)| Api::of_provider(name).is_none());
    known.chain(set.map(|(name, endpoint)| endpoint.provider_definition(name))).collect()
}

/// Prefix of the names of agents' tools.
const PREFIX: &str = "invoke_";

/// The executor of agents. Cheap to clone.
#[derive(Clone)]
pub struct Agents {
    models: Models,
    log: Option<Arc<dyn RunLog>>,
    lang: Lang,
}

impl Agents {
    /// Agents that use these models.
    pub fn new(models: Models) -> Self {
        Self { models, log: None, lang: Lang::default() }
    }

    /// Sets the run log. Without it, no run can be resumed after the process ends.
    #[must_use]
    pub fn log(mut self, log: Arc<dyn RunLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// Sets the language of texts for models.
    #[must_use]
    pub fn lang(mut self, lang: Lang) -> Self {
        self.lang = lang;
        self
    }

    /// The executor for an agent's definition.
    pub fn bind(&self, tool: &ToolSpec) -> Result<Arc<dyn Executor>, Error> {
        let spec = AgentSpec::read(&tool.entry);
        let spec = spec.map_err(|why| wrong(tool.name.as_str(), &why))?;
        Ok(Arc::new(self.agent(tool.name.as_str(), spec)?))
    }

    /// An agent as a tool, without a definition file.
    pub fn tool(&self, name: &str, spec: AgentSpec) -> Result<ToolBuilder, Error> {
        let timeout = spec.budget.time.unwrap_or(std::time::Duration::from_secs(600));
        let input = serde_json::json!({
            "type": "object",
            "properties": {"message": {"type": "string"}},
            "required": ["message"],
        });
        let agent = Arc::new(self.agent(name, spec)?);
        Ok(ToolBuilder::native(name, input, agent).timeout(timeout).with(|tool| {
            tool.kind = windlass::Kind::Agent;
            tool.behaviour.concurrency_safe = Some(true);
        }))
    }

    fn agent(&self, tool: &str, spec: AgentSpec) -> Result<AgentExecutor, Error> {
        spec.check().map_err(|why| wrong(tool, &why))?;
        let model = self.models.find(&spec.model)?;
        let fallback = self.models.fallback(&model, spec.fallback.as_deref());
        fallback.map_err(|error| wrong(tool, error.message()))?;
        Ok(AgentExecutor {
            name: tool.strip_prefix(PREFIX).unwrap_or(tool).into(),
            model,
            extract: Extract::new(&spec.extract)?,
            spec,
            models: self.models.clone(),
            log: self.log.clone(),
            lang: self.lang,
        })
    }
}

fn wrong(tool: &str, why: &str) -> Error {
    Error::new(ErrorKind::InvalidDefinition, format!("the agent `{tool}`: {why}"))
}

/// Which run a call belongs to: set to resume a run, or for a call made by another run.
#[derive(Clone, Debug)]
pub struct RunScope {
    /// The call that makes this call; `None` if a person does.
    pub parent: Option<CallId>,
    /// The run id.
    pub run: Arc<str>,
}

/// A conversation that spans runs: a context object of calls made by a person. Cheap to
/// clone; clones share the conversation.
#[derive(Clone, Default)]
pub struct History(Arc<parking_lot::Mutex<Vec<serde_json::Value>>>);

impl History {
    /// A conversation with earlier messages, in the form of the model's API.
    pub fn new(messages: Vec<serde_json::Value>) -> Self {
        Self(Arc::new(parking_lot::Mutex::new(messages)))
    }

    /// All messages.
    pub fn messages(&self) -> Vec<serde_json::Value> {
        self.0.lock().clone()
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The executor of one agent.
struct AgentExecutor {
    name: Arc<str>,
    spec: AgentSpec,
    model: Model,
    extract: Extract,
    models: Models,
    log: Option<Arc<dyn RunLog>>,
    lang: Lang,
}

impl Executor for AgentExecutor {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let tools = call.tools();
            tools.aside(run::run(self, call, &tools)).await
        })
    }
}
