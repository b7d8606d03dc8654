//! [`ToolSpec`]: everything there is to say about a tool, as plain data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::schedule::RetryPolicy;
use crate::value::duration;
use crate::value::name::ToolName;
use crate::value::text::Text;

/// A tool, described. Serialisable, without code or secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// The unique name.
    pub name: ToolName,
    /// The provider it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Its version, as its author counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
    /// An icon: an address, a file name or base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// What it does and when to use it, for the model.
    #[serde(default)]
    pub description: Text,
    /// The category, by which limits are set.
    #[serde(default)]
    pub category: Category,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What runs it.
    #[serde(default)]
    pub kind: Kind,
    /// Which handler of that kind, with which settings.
    #[serde(default)]
    pub entry: Entry,
    /// The JSON Schema of all arguments, hidden ones included; an object.
    #[serde(default = "empty_object_schema")]
    pub input: Value,
    /// The JSON Schema of the result, where the author gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The output schema describes results, but is not enforced: others wrote
    /// it, and their service is what it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_advisory: bool,
    /// What a JSON Schema cannot say about a parameter, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Parameter>,
    /// What calling it means for the world.
    #[serde(default)]
    pub behaviour: Behaviour,
    /// Whether its calls may run, need a person's word, or must not; unset: as
    /// the engine's rules say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// When it may run beside other calls although it may not always: every
    /// parameter here has one of these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub safe_when: BTreeMap<String, Vec<Value>>,
    /// What it changes, such as `memory:{user_id}`: calls that change different
    /// things run together. Names in braces are parameters or variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// How many of its calls run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<usize>,
    /// How often a call that failed is tried; unset: only a call that is safe
    /// to repeat, as often as the engine says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// The other side, whose failures count together; unset: the provider, else
    /// the tool itself. Names in braces are parameters or variables; of a URL,
    /// the host and port count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// How long a result may be given again for the same arguments; only for
    /// tools that are read-only.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub cache: Option<Duration>,
    /// How long one call may take, queue included.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The group it is switched on and off with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whether a model sees it at once.
    #[serde(default)]
    pub exposure: Exposure,
    /// How long it usually takes.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub estimated_duration: Option<Duration>,
    /// How many bytes of a result go to the model; more is cut, and kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<usize>,
    /// S3's `is_team_authorization`: the provider's credentials are the team's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub team_authorization: bool,
}

impl ToolSpec {
    /// Whether the tool runs somewhere else, or asks somebody else.
    pub fn is_remote(&self) -> bool {
        self.upstream.is_some() || self.kind.is_remote()
    }

    /// A tool with this name and nothing else: no parameters, exclusive.
    pub fn new(name: ToolName) -> Self {
        Self {
            name,
            provider: None,
            version: None,
            author: None,
            label: None,
            icon: None,
            description: Text::default(),
            category: Category::default(),
            tags: Vec::new(),
            kind: Kind::default(),
            entry: Entry::default(),
            input: empty_object_schema(),
            output: None,
            output_advisory: false,
            parameters: BTreeMap::new(),
            behaviour: Behaviour::default(),
            approval: None,
            safe_when: BTreeMap::new(),
            writes: Vec::new(),
            max_concurrent: None,
            retry: None,
            upstream: None,
            cache: None,
            timeout: None,
            group: None,
            exposure: Exposure::default(),
            estimated_duration: None,
            max_output_bytes: None,
            team_authorization: false,
        }
    }
}

/// The schema of a tool without parameters.
pub fn empty_object_schema() -> Value {
    json!({"type": "object", "properties": {}})
}

/// The category of a tool: S0.5's six, or another word.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Category(Arc<str>);

impl Category {
    /// The categories of S0.5.
    pub const KNOWN: [&str; 6] = ["http", "database", "file", "ai", "notification", "custom"];

    /// A category by its name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as shared text, without copying it.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl Default for Category {
    fn default() -> Self {
        Self("custom".into())
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What runs a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Shipped with Windlass.
    Builtin,
    /// A Rust function of the embedding program.
    #[default]
    Native,
    /// An HTTP API.
    Rest,
    /// A tool of an MCP server.
    Mcp,
    /// A WASM plugin.
    Wasm,
    /// A process.
    Process,
    /// A workflow.
    Workflow,
    /// Another agent.
    Agent,
    /// A search over documents.
    Retrieval,
}

impl Kind {
    /// The name, as written in definitions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Native => "native",
            Self::Rest => "rest",
            Self::Mcp => "mcp",
            Self::Wasm => "wasm",
            Self::Process => "process",
            Self::Workflow => "workflow",
            Self::Agent => "agent",
            Self::Retrieval => "retrieval",
        }
    }

    /// Whether the code behind the tool counts on the defaults of its schema.
    /// Those of an HTTP API or an MCP server say what the other side assumes:
    /// they are told to the model, and sent only where the schema requires the
    /// value.
    pub fn counts_on_defaults(self) -> bool {
        !matches!(self, Self::Rest | Self::Mcp)
    }

    /// Whether its tools run somewhere else, or ask somebody else: an API, a
    /// server, a model. Such a tool may be slow or silent for reasons that are
    /// not its own. A tool of any kind that names an upstream is remote, too:
    /// [`ToolSpec::is_remote`].
    pub fn is_remote(self) -> bool {
        match self {
            Self::Rest | Self::Mcp | Self::Agent => true,
            Self::Builtin
            | Self::Native
            | Self::Wasm
            | Self::Process
            | Self::Workflow
            | Self::Retrieval => false,
        }
    }

    /// S3.8's provider type.
    pub fn provider_type(self) -> &'static str {
        match self {
            Self::Builtin | Self::Native | Self::Process | Self::Agent => "BUILT_IN",
            Self::Rest => "API",
            Self::Mcp => "MCP",
            Self::Wasm => "PLUGIN",
            Self::Workflow => "WORKFLOW",
            Self::Retrieval => "DATASET_RETRIEVAL",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The handler that runs a tool, and its settings (S0.3 `entry`, S0.26
/// `implementation_config`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The handler's name; empty means the tool's own name.
    #[serde(default)]
    pub handler: String,
    /// What the handler wants to know.
    #[serde(default, flatten)]
    pub config: Map<String, Value>,
}

/// What a JSON Schema cannot say about a parameter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
    /// An explanation for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<Text>,
    /// How a form asks for it.
    #[serde(default)]
    pub input: InputKind,
    /// Who fills it.
    #[serde(default)]
    pub filled_by: FilledBy,
    /// Whether a call cannot do without it. For a parameter that the model
    /// fills, the input schema says it too.
    #[serde(default)]
    pub required: bool,
}

/// How a form asks for a parameter (S3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputKind {
    /// By the type that the schema gives.
    #[default]
    Plain,
    /// A choice among the schema's `enum`.
    Select,
    /// A value that is never shown again.
    SecretInput,
    /// A file.
    File,
}

/// Who fills a parameter (S3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FilledBy {
    /// The model; the parameter is in the schema that it sees.
    #[default]
    Model,
    /// A person or the operator, by a preset or a variable; hidden from the
    /// model.
    Form,
    /// A credential; hidden from the model, and never an argument.
    Secret,
}

/// What calling a tool means for the world. The cautious answer is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    /// It changes nothing.
    pub read_only: bool,
    /// It may run beside other calls; unset: judged by the name (S4.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_safe: Option<bool>,
    /// Doing it twice is the same as doing it once.
    pub idempotent: bool,
    /// It may destroy something.
    pub destructive: bool,
}

impl Behaviour {
    /// A tool that only looks: read-only, safe beside others, idempotent.
    pub const READ_ONLY: Self = Self {
        read_only: true,
        concurrency_safe: Some(true),
        idempotent: true,
        destructive: false,
    };

    /// Whether doing it again does no harm: it changes nothing, or the second
    /// time changes nothing more.
    pub fn may_be_repeated(self) -> bool {
        self.read_only || self.idempotent
    }
}

/// Whether calls of a tool may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// They may.
    #[default]
    Allow,
    /// They must not.
    Deny,
    /// A person is asked for each.
    Ask,
}

/// Whether a model sees a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exposure {
    /// In every list.
    #[default]
    Direct,
    /// Only after it was searched for.
    Deferred,
    /// Never; only programs call it.
    Hidden,
}
