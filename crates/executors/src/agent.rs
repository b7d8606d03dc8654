//! Agents: a model, what it is told, and the tools that it may call, run as a
//! tool.
//!
//! ```text
//! arguments ─ template ─► first message
//!    ┌─► model ─ OpenTurn ─► calls ─ Gate ─► results ─► next message ─┐
//!    └────────────────────────────────────────────────────────────────┘ until it calls nothing
//! ```
//!
//! An agent is a tool like any other: it is called, checked, recorded and
//! cancelled by the engine, by a person as well as by another agent, whose calls
//! are nested in its own. While it waits for its model or its tools it has no
//! slot. Its run is kept turn by turn in a [`RunLog`], so that it can go on after
//! the process was killed: the model is not asked again for what it has answered,
//! and no effect is repeated.

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
pub use log::{Entry, MemoryLog, RunLog, Stop, taken_over};
pub use spec::{AgentSpec, Budget};

use crate::model::{Api, Endpoint, Model, ModelSettings, Models};
use extract::Extract;

/// The definitions of those who answer: a file name, and the YAML in it.
pub const DEFINITIONS: &[(&str, &str)] = &[("models.yaml", include_str!("agent/providers.yaml"))];

/// The definitions of those who answer besides, as they were set: each has a key
/// of its own.
pub fn provider_definitions(settings: &ModelSettings) -> Vec<(String, String)> {
    let known = |name: &str| Api::ALL.into_iter().any(|api| api.provider() == name);
    let set = settings.providers.iter().filter(|(name, _)| !known(name));
    let definition = |(name, endpoint): (&String, &Endpoint)| {
        let about = serde_json::json!({
            "identity": {
                "name": name, "author": "Windlass", "label": name, "tags": ["model"],
                "description": {
                    "en_US": format!("Models at {}, for agents.", endpoint.base_url),
                    "zh_Hans": format!("供智能体使用的模型,位于 {}。", endpoint.base_url),
                },
            },
            "credentials_schema": [{
                "name": "api_key", "type": "secret-input", "required": false,
                "label": {"en_US": "API key", "zh_Hans": "API 密钥"},
                "help": {
                    "en_US": "Agents ask their models with it. Without it, the environment's is used.",
                    "zh_Hans": "智能体用它调用模型;未设置时使用环境变量中的密钥。",
                },
            }],
        });
        (format!("models/{name}.yaml"), about.to_string())
    };
    set.map(definition).collect()
}

/// What the names of agents' tools begin with (S4.8).
const PREFIX: &str = "invoke_";

/// Runs agents. Cheap to clone.
#[derive(Clone)]
pub struct Agents {
    models: Models,
    log: Option<Arc<dyn RunLog>>,
    lang: Lang,
}

impl Agents {
    /// Agents that ask these models.
    pub fn new(models: Models) -> Self {
        Self { models, log: None, lang: Lang::default() }
    }

    /// Keeps runs here. Without it, none can go on after the process has ended.
    #[must_use]
    pub fn log(mut self, log: Arc<dyn RunLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// The language of what models read.
    #[must_use]
    pub fn lang(mut self, lang: Lang) -> Self {
        self.lang = lang;
        self
    }

    /// What runs an agent that a definition describes.
    pub fn bind(&self, tool: &ToolSpec) -> Result<Arc<dyn Executor>, Error> {
        let spec = AgentSpec::read(&tool.entry);
        let spec = spec.map_err(|why| wrong(tool.name.as_str(), &why))?;
        Ok(Arc::new(self.agent(tool.name.as_str(), spec)?))
    }

    /// An agent as a tool, for programs that need no definition.
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

    fn agent(&self, tool: &str, spec: AgentSpec) -> Result<Agent, Error> {
        spec.check().map_err(|why| wrong(tool, &why))?;
        let model = self.models.find(&spec.model)?;
        let fallback = self.models.fallback(&model, spec.fallback.as_deref());
        fallback.map_err(|error| wrong(tool, error.message()))?;
        Ok(Agent {
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

/// Whose run a call is: one that is to go on, or one of a call that another
/// run makes.
#[derive(Clone, Debug)]
pub struct RunScope {
    /// The call that makes it; none where a person does.
    pub parent: Option<CallId>,
    /// The run's id.
    pub run: Arc<str>,
}

/// A conversation that goes on from run to run: a context object of calls that a
/// person makes. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct History(Arc<parking_lot::Mutex<Vec<serde_json::Value>>>);

impl History {
    /// A conversation in which this was said, in the form of the model's API.
    pub fn new(messages: Vec<serde_json::Value>) -> Self {
        Self(Arc::new(parking_lot::Mutex::new(messages)))
    }

    /// What was said.
    pub fn messages(&self) -> Vec<serde_json::Value> {
        self.0.lock().clone()
    }

    /// How many messages it has.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether nothing has been said.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An agent, ready to run.
struct Agent {
    name: Arc<str>,
    spec: AgentSpec,
    model: Model,
    extract: Extract,
    models: Models,
    log: Option<Arc<dyn RunLog>>,
    lang: Lang,
}

impl Executor for Agent {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let tools = call.tools();
            tools.aside(run::run(self, call, &tools)).await
        })
    }
}
