//! Schemas of tools and of credential forms.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::object;

/// A tool.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tool")]
pub(crate) struct ToolDoc {
    /// Its name.
    name: String,
    /// The name in the form that every model API takes.
    wire_name: String,
    /// A name for people.
    label: Option<String>,
    /// What it does.
    description: String,
    /// What runs it: `builtin`, `native`, `rest`, `mcp`, `wasm`, `process`,
    /// `workflow`, `agent` or `retrieval`.
    kind: String,
    /// What it is about.
    category: String,
    /// Its provider.
    provider: Option<String>,
    /// The group that it is switched with.
    group: Option<String>,
    /// Search keywords.
    tags: Vec<String>,
    version: Option<String>,
    /// Its source: a file, `api/…` or `builtin/…`.
    source: String,
    /// The JSON Schema of what a model may send.
    #[schemars(schema_with = "object")]
    input_schema: Value,
    /// What of it is not checked before a call, and why: others wrote it, and it
    /// does not compile.
    unchecked: Option<String>,
    /// The JSON Schema of its result.
    output_schema: Option<Value>,
    behaviour: BehaviourDoc,
    exposure: ExposureDoc,
    /// The timeout of a call, in seconds.
    timeout: Option<f64>,
    /// Its concurrency limit.
    max_concurrent: Option<u64>,
}

/// The behaviour of a tool: its side effects.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Behaviour")]
struct BehaviourDoc {
    /// It is read-only.
    read_only: bool,
    /// Whether it may run in parallel with other calls; by default its name decides.
    concurrency_safe: Option<bool>,
    /// It is idempotent.
    idempotent: bool,
    /// It is destructive.
    destructive: bool,
}

/// Whether a model sees a tool.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Exposure")]
enum ExposureDoc {
    /// In every list.
    Direct,
    /// Deferred: only after a search found it.
    Deferred,
    /// Never; only programs call it.
    Hidden,
}

/// One field of a form that asks for credentials.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CredentialField")]
pub(crate) struct FieldDoc {
    /// The name of the field in `values`.
    name: String,
    /// A name for people.
    label: Option<String>,
    #[serde(rename = "type")]
    kind: FieldType,
    /// Whether the field is required.
    required: bool,
    /// The default.
    default: Option<Value>,
    /// How to get one.
    help: Option<String>,
    /// Where to get one.
    url: Option<String>,
    /// The placeholder of the empty field.
    placeholder: Option<String>,
    /// The choices of a `select`.
    options: Vec<String>,
}

/// The form control of a field.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum FieldType {
    /// A text that is not secret.
    TextInput,
    /// A secret text; it is never shown again.
    SecretInput,
    /// A choice.
    Select,
    /// Yes or no.
    Boolean,
}
