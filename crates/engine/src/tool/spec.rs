//! [`ToolSpec`]: the description of a tool, as plain data.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::compact;
use crate::schedule::RetryPolicy;
use crate::value::duration;
use crate::value::name::ToolName;
use crate::value::text::Text;

/// The description of a tool. Serialisable, without code or secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// The unique name.
    pub name: ToolName,
    /// Name of its provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Version, as given by its author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
    /// Icon: a URL, a file name or base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Description for the model: what it does and when to use it.
    #[serde(default)]
    pub description: Text,
    /// Category, to which limits apply.
    #[serde(default)]
    pub category: Category,
    /// Search terms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Kind of executor.
    #[serde(default)]
    pub kind: Kind,
    /// Handler of that kind, with its settings.
    #[serde(default)]
    pub entry: Entry,
    /// JSON Schema of all arguments, including hidden ones; an object.
    #[serde(default = "empty_object_schema", deserialize_with = "compact::read")]
    pub input: Value,
    /// JSON Schema of the result, if the author gave one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "compact::read_some"
    )]
    pub output: Option<Value>,
    /// Whether the output schema is advisory: foreign ones describe results but
    /// are not enforced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_advisory: bool,
    /// Settings of parameters that a JSON Schema cannot express, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Parameter>,
    /// Behaviour: its side effects.
    #[serde(default)]
    pub behaviour: Behaviour,
    /// Whether calls are allowed, need approval, or are denied; unset: the
    /// engine's rules decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Calls may run concurrently if every parameter listed here has one of
    /// these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub safe_when: BTreeMap<String, Vec<Value>>,
    /// Resources that it writes, such as `memory:{user_id}`: calls that write
    /// different resources run concurrently. Names in braces are parameters or
    /// variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// Maximum number of concurrent calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<usize>,
    /// Retry policy; unset: the engine's, and only if a call is safe to repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Upstream, whose failures count together; unset: the provider, else the
    /// tool itself. Names in braces are parameters or variables; of a URL, host
    /// and port count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// TTL of cached results for the same arguments; only for read-only tools.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub cache: Option<Duration>,
    /// Timeout of a call, including the time in the queue.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Group with which it is switched on and off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whether a model sees it.
    #[serde(default)]
    pub exposure: Exposure,
    /// Typical execution time.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub estimated_duration: Option<Duration>,
    /// Maximum size of a result for the model, in bytes; the whole is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<usize>,
    /// Whether the provider's credentials belong to the team.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub team_authorization: bool,
}

impl ToolSpec {
    /// Whether the tool is remote: it runs elsewhere, or calls another service.
    pub fn is_remote(&self) -> bool {
        self.upstream.is_some() || self.kind.is_remote()
    }

    /// Creates a description with this name and defaults: no parameters,
    /// exclusive.
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

/// The schema with `type: object`, which every API demands.
pub(crate) fn object_schema(schema: &Value) -> Value {
    let Some(map) = schema.as_object() else { return empty_object_schema() };
    let mut map = map.clone();
    map.insert("type".to_owned(), "object".into());
    Value::Object(map)
}

/// Category of a tool: one of the known ones, or any other word.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Category(Arc<str>);

impl Category {
    /// The known categories.
    pub const KNOWN: [&str; 6] = ["http", "database", "file", "ai", "notification", "custom"];

    /// Creates a category.
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

/// Kind of a tool: what runs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A handler that ships with Windlass.
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
    /// A child process.
    Process,
    /// A workflow.
    Workflow,
    /// Another agent.
    Agent,
    /// A search over documents.
    Retrieval,
}

impl Kind {
    /// The name in definitions.
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

    /// Whether the executor counts on the schema's defaults. Those of an HTTP
    /// API or an MCP server describe what the upstream assumes: they are shown
    /// to the model, and sent only if the schema requires the value.
    pub fn counts_on_defaults(self) -> bool {
        !matches!(self, Self::Rest | Self::Mcp)
    }

    /// Whether its tools are remote: they run elsewhere or call another service
    /// (an API, a server, a model), and so may be slow or silent for reasons of
    /// their own. A tool of any kind that names an upstream is remote, too:
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

    /// Provider type that clients of the provider API expect.
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

impl ToolSpec {
    /// Removes the spare capacity of its schemas and settings. One that was
    /// deserialized has none.
    pub fn compact(&mut self) {
        compact::value(&mut self.input);
        self.output.as_mut().into_iter().for_each(compact::value);
        compact::map(&mut self.entry.config);
    }
}

/// The handler of a tool, with its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Name of the handler; empty for the tool's own name.
    #[serde(default)]
    pub handler: String,
    /// Settings of the handler.
    #[serde(default, flatten, deserialize_with = "compact::read_map")]
    pub config: Map<String, Value>,
}

/// Settings of a parameter that a JSON Schema cannot express.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
    /// Help text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<Text>,
    /// Input type in forms.
    #[serde(default)]
    pub input: InputKind,
    /// Who fills it.
    #[serde(default)]
    pub filled_by: FilledBy,
    /// Whether it is required. For a parameter that the model fills, the input
    /// schema says so, too.
    #[serde(default)]
    pub required: bool,
}

/// Input type of a parameter in forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputKind {
    /// By the type of the schema.
    #[default]
    Plain,
    /// A choice among the schema's `enum`.
    Select,
    /// A secret, never shown again.
    SecretInput,
    /// A file.
    File,
}

/// Who fills a parameter.
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

/// Behaviour of a tool: its side effects. The defaults are the cautious ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    /// It has no side effects.
    pub read_only: bool,
    /// It may run concurrently; unset: guessed from the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_safe: Option<bool>,
    /// Repeating a call has no further effect.
    pub idempotent: bool,
    /// It may delete or overwrite something.
    pub destructive: bool,
}

impl Behaviour {
    /// A read-only tool: concurrency-safe and idempotent.
    pub const READ_ONLY: Self = Self {
        read_only: true,
        concurrency_safe: Some(true),
        idempotent: true,
        destructive: false,
    };

    /// Whether calls are safe to repeat: read-only or idempotent.
    pub fn may_be_repeated(self) -> bool {
        self.read_only || self.idempotent
    }
}

/// Whether calls of a tool may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// They are allowed.
    #[default]
    Allow,
    /// They are denied.
    Deny,
    /// Each needs approval by a person.
    Ask,
}

/// Visibility of a tool for models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exposure {
    /// Always listed.
    #[default]
    Direct,
    /// Listed after it was found by a search.
    Deferred,
    /// Never listed; only programs call it.
    Hidden,
}
