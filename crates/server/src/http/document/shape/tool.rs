//! Tools and forms.

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
    /// Who offers it.
    provider: Option<String>,
    /// The group that it is switched with.
    group: Option<String>,
    /// Words to find it by.
    tags: Vec<String>,
    version: Option<String>,
    /// Where it came from: a file, `api/…` or `builtin/…`.
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
    /// How long a call may take, in seconds.
    timeout: Option<f64>,
    /// How many of its calls run at once.
    max_concurrent: Option<u64>,
}

/// What calling a tool means for the world.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Behaviour")]
struct BehaviourDoc {
    /// It changes nothing.
    read_only: bool,
    /// It may run beside other calls; where it is missing, its name decides.
    concurrency_safe: Option<bool>,
    /// Doing it twice is the same as doing it once.
    idempotent: bool,
    /// It may destroy something.
    destructive: bool,
}

/// Whether a model sees a tool.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Exposure")]
enum ExposureDoc {
    /// In every list.
    Direct,
    /// Only after it was searched for.
    Deferred,
    /// Never; only programs call it.
    Hidden,
}

/// One field of a form that asks for credentials.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CredentialField")]
pub(crate) struct FieldDoc {
    /// The name that values have.
    name: String,
    /// A name for people.
    label: Option<String>,
    #[serde(rename = "type")]
    kind: FieldType,
    /// Whether the provider cannot do without it.
    required: bool,
    /// What it is where nobody says.
    default: Option<Value>,
    /// How to get one.
    help: Option<String>,
    /// Where to get one.
    url: Option<String>,
    /// What stands in the empty field.
    placeholder: Option<String>,
    /// The choices of a `select`.
    options: Vec<String>,
}

/// How a form asks for a value.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum FieldType {
    /// A text that may be shown.
    TextInput,
    /// A text that is never shown again.
    SecretInput,
    /// A choice.
    Select,
    /// Yes or no.
    Boolean,
}
