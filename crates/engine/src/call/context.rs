//! The caller and the context of a call.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::value::name::{CallId, TenantId};
use crate::value::secret::Secret;
use crate::value::trace::TraceContext;

/// The caller, as recorded with each call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["tenant_id", "caller_type"]))]
pub struct Caller {
    /// The tenant that owns everything about the call.
    #[serde(rename = "tenant_id")]
    pub tenant: TenantId,
    /// The person on whose behalf the call is made.
    #[serde(rename = "user_id", skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<str>>,
    /// Id of the agent, workflow node or program that calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_id: Option<Arc<str>>,
    /// The type of the caller.
    pub caller_type: CallerType,
    /// The conversation.
    #[serde(rename = "conversation_id", skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Arc<str>>,
    /// The workflow.
    #[serde(rename = "workflow_id", skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Arc<str>>,
    /// The parent call, for nested calls.
    #[serde(rename = "parent_call_id", skip_serializing_if = "Option::is_none")]
    pub parent: Option<CallId>,
}

/// The type of a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallerType {
    /// Not stated.
    #[default]
    Unknown,
    /// An agent in a conversation.
    ConversationAgent,
    /// A node of a workflow.
    WorkflowNode,
    /// A program or a person.
    Direct,
}

impl CallerType {
    /// The wire name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::ConversationAgent => "conversation_agent",
            Self::WorkflowNode => "workflow_node",
            Self::Direct => "direct",
        }
    }

    /// The type with this wire name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Unknown, Self::ConversationAgent, Self::WorkflowNode, Self::Direct]
            .into_iter()
            .find(|caller_type| caller_type.name() == name)
    }
}

/// What a call carries besides its arguments: caller, agent, variables,
/// secrets, objects. Shared by all calls of a turn.
#[derive(Clone)]
pub struct Context {
    pub(crate) caller: Arc<Caller>,
    pub(crate) agent: Option<Arc<Agent>>,
    pub(crate) variables: Map<String, Value>,
    pub(crate) secrets: HashMap<String, Secret>,
    pub(crate) objects: Objects,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) begun_by: Option<Arc<str>>,
    /// Nesting depth.
    pub(crate) depth: u32,
}

impl Context {
    /// The default context, created once.
    pub(crate) fn unnamed() -> Arc<Self> {
        static UNNAMED: LazyLock<Arc<Context>> = LazyLock::new(Arc::default);
        Arc::clone(&UNNAMED)
    }

    /// Creates a context for this caller.
    pub fn new(caller: Caller) -> Self {
        Self {
            caller: Arc::new(caller),
            agent: None,
            variables: Map::new(),
            secrets: HashMap::new(),
            objects: Objects::default(),
            trace: None,
            begun_by: None,
            depth: 0,
        }
    }

    /// The context of an agent in a conversation.
    pub fn for_conversation(agent_id: &str, conversation: &str) -> Self {
        Self::new(Caller {
            caller_id: Some(agent_id.into()),
            caller_type: CallerType::ConversationAgent,
            conversation: Some(conversation.into()),
            ..Caller::default()
        })
    }

    /// The context of a workflow node.
    pub fn for_workflow(workflow: &str, node: &str) -> Self {
        Self::new(Caller {
            caller_id: Some(node.into()),
            caller_type: CallerType::WorkflowNode,
            workflow: Some(workflow.into()),
            ..Caller::default()
        })
    }

    /// The context for calls of a workflow's step: `run` is the run of the
    /// workflow, and `place` the step within it.
    #[must_use]
    pub fn for_step(&self, run: &str, place: &str) -> Self {
        let caller = Caller {
            caller_id: Some(place.into()),
            caller_type: CallerType::WorkflowNode,
            workflow: Some(run.into()),
            ..Caller::clone(&self.caller)
        };
        Self { caller: Arc::new(caller), ..self.clone() }
    }

    /// Sets the agent on whose behalf the calls are made.
    #[must_use]
    pub fn agent(mut self, agent: Arc<Agent>) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Sets a variable, which presets and form parameters may name.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a secret for the tools.
    #[must_use]
    pub fn secret(mut self, name: &str, secret: impl Into<Secret>) -> Self {
        self.secrets.insert(name.to_owned(), secret.into());
        self
    }

    /// Adds a context object, which tools find by its type.
    #[must_use]
    pub fn object<T: Send + Sync + 'static>(mut self, object: T) -> Self {
        self.objects.insert(object);
        self
    }

    /// Sets the conversation, unless there is one already.
    #[must_use]
    pub fn in_conversation(mut self, conversation: impl Into<Arc<str>>) -> Self {
        let caller = Arc::make_mut(&mut self.caller);
        caller.conversation.get_or_insert_with(|| conversation.into());
        self
    }

    /// Sets the trace context of the calls.
    #[must_use]
    pub fn trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Sets who initiated the calls (an API key, a session), so that others can
    /// be kept from cancelling them: see [`UnderWay`](crate::UnderWay). It is
    /// not part of records and events.
    #[must_use]
    pub fn begun_by(mut self, who: impl Into<Arc<str>>) -> Self {
        self.begun_by = Some(who.into());
        self
    }

    /// Who initiated the calls, as set by [`Context::begun_by`].
    pub fn beginner(&self) -> Option<&str> {
        self.begun_by.as_deref()
    }

    /// The caller.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The context for calls that an agent makes under its own name, in a
    /// conversation.
    #[must_use]
    pub fn in_name_of(&self, agent: Arc<Agent>, conversation: Arc<str>) -> Self {
        let caller = Caller {
            caller_id: Some(agent.id.as_str().into()),
            caller_type: CallerType::ConversationAgent,
            conversation: Some(conversation),
            ..Caller::clone(&self.caller)
        };
        Self { caller: Arc::new(caller), agent: Some(agent), ..self.clone() }
    }
}

impl Default for Context {
    fn default() -> Self {
        Self::new(Caller::default())
    }
}

/// The agent on whose behalf calls are made. Tools can have it injected.
#[derive(Clone, Default)]
pub struct Agent {
    /// The agent's id.
    pub id: String,
    /// The agent's name.
    pub name: String,
    /// Context objects for its tools; those of a call take precedence.
    pub objects: Objects,
    /// Secrets for its tools; those of a call take precedence.
    pub secrets: HashMap<String, Secret>,
}

impl Agent {
    /// An agent with this id and name.
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), ..Self::default() }
    }

    /// Adds a context object.
    #[must_use]
    pub fn object<T: Send + Sync + 'static>(mut self, object: T) -> Self {
        self.objects.insert(object);
        self
    }
}

/// Context objects by type.
#[derive(Clone, Default)]
pub struct Objects(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Objects {
    /// Adds an object, replacing an earlier one of its type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, object: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(object));
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object of a type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>()).and_then(|object| Arc::clone(object).downcast().ok())
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} objects", self.0.len())
    }
}
