//! Who calls, and what a call carries besides its arguments.

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

/// Who calls. It is recorded with the call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["tenant_id", "caller_type"]))]
pub struct Caller {
    /// The tenant that everything of this call belongs to.
    #[serde(rename = "tenant_id")]
    pub tenant: TenantId,
    /// The person on whose behalf the call is made.
    #[serde(rename = "user_id", skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<str>>,
    /// The agent, node or program that calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_id: Option<Arc<str>>,
    /// What the caller is.
    pub caller_type: CallerType,
    /// The conversation.
    #[serde(rename = "conversation_id", skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Arc<str>>,
    /// The workflow.
    #[serde(rename = "workflow_id", skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Arc<str>>,
    /// The call that made this call.
    #[serde(rename = "parent_call_id", skip_serializing_if = "Option::is_none")]
    pub parent: Option<CallId>,
}

/// What a caller is (S0.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallerType {
    /// Nobody said.
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

/// What a call carries besides its arguments. Shared by all calls of a turn.
#[derive(Clone)]
pub struct Context {
    pub(crate) caller: Arc<Caller>,
    pub(crate) agent: Option<Arc<Agent>>,
    pub(crate) variables: Map<String, Value>,
    pub(crate) secrets: HashMap<String, Secret>,
    pub(crate) objects: Objects,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) begun_by: Option<Arc<str>>,
    /// How many calls this one is nested in.
    pub(crate) depth: u32,
}

impl Context {
    /// The context of a call that names none, made once.
    pub(crate) fn unnamed() -> Arc<Self> {
        static UNNAMED: LazyLock<Arc<Context>> = LazyLock::new(Arc::default);
        Arc::clone(&UNNAMED)
    }

    /// A context for this caller.
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

    /// S0.12's `for_conversation`.
    pub fn for_conversation(agent_id: &str, conversation: &str) -> Self {
        Self::new(Caller {
            caller_id: Some(agent_id.into()),
            caller_type: CallerType::ConversationAgent,
            conversation: Some(conversation.into()),
            ..Caller::default()
        })
    }

    /// S0.12's `for_workflow`.
    pub fn for_workflow(workflow: &str, node: &str) -> Self {
        Self::new(Caller {
            caller_id: Some(node.into()),
            caller_type: CallerType::WorkflowNode,
            workflow: Some(workflow.into()),
            ..Caller::default()
        })
    }

    /// Makes the calls in the name of an agent.
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

    /// Gives the tools a secret.
    #[must_use]
    pub fn secret(mut self, name: &str, secret: impl Into<Secret>) -> Self {
        self.secrets.insert(name.to_owned(), secret.into());
        self
    }

    /// Gives the tools an object, which they find by its type.
    #[must_use]
    pub fn object<T: Send + Sync + 'static>(mut self, object: T) -> Self {
        self.objects.insert(object);
        self
    }

    /// Puts the calls into a conversation, unless they are in one.
    #[must_use]
    pub fn in_conversation(mut self, conversation: impl Into<Arc<str>>) -> Self {
        let caller = Arc::make_mut(&mut self.caller);
        caller.conversation.get_or_insert_with(|| conversation.into());
        self
    }

    /// Says where in a trace the calls belong.
    #[must_use]
    pub fn trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(trace);
        self
    }

    /// Says who began the calls, by whatever tells people apart, so that others
    /// can be kept from cancelling them: [`UnderWay`](crate::UnderWay). Records
    /// and events do not tell it.
    #[must_use]
    pub fn begun_by(mut self, who: impl Into<Arc<str>>) -> Self {
        self.begun_by = Some(who.into());
        self
    }

    /// Who began the calls: what [`Context::begun_by`] said.
    pub fn beginner(&self) -> Option<&str> {
        self.begun_by.as_deref()
    }

    /// Who calls.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The same for calls that an agent makes in its own name, in a
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

/// The agent in whose name calls are made. Tools may ask for it.
#[derive(Clone, Default)]
pub struct Agent {
    /// The agent's id.
    pub id: String,
    /// The agent's name.
    pub name: String,
    /// Objects that the agent gives to its tools; a call's own come first.
    pub objects: Objects,
    /// Secrets that the agent gives to its tools; a call's own come first.
    pub secrets: HashMap<String, Secret>,
}

impl Agent {
    /// An agent with this id and name.
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), ..Self::default() }
    }

    /// Gives the agent's tools an object.
    #[must_use]
    pub fn object<T: Send + Sync + 'static>(mut self, object: T) -> Self {
        self.objects.insert(object);
        self
    }
}

/// Objects by their type.
#[derive(Clone, Default)]
pub struct Objects(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Objects {
    /// Puts an object in, in place of an earlier one of its type.
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
