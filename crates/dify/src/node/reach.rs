//! Nodes that reach out: tools, requests, code, people.

use serde_json::Value as Json;

use super::Selector;
use crate::value::{Kind, Object, Value};

/// Runs code.
#[derive(Clone, Debug)]
pub struct Code {
    /// `python3` or `javascript`.
    pub language: String,
    /// The text, with a function `main`.
    pub code: String,
    /// Its arguments.
    pub variables: Vec<(String, Selector)>,
    /// Its results.
    pub outputs: Vec<CodeOutput>,
}

/// A result of code.
#[derive(Clone, Debug)]
pub struct CodeOutput {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// What an object has in it, if that is said.
    pub children: Option<Vec<CodeOutput>>,
}

/// Renders a Jinja template.
#[derive(Clone, Debug)]
pub struct Template {
    /// The template.
    pub text: String,
    /// What it sees.
    pub variables: Vec<(String, Selector)>,
}

/// What a tool is given for a parameter.
#[derive(Clone, Debug)]
pub enum ToolInput {
    /// The variable, with its type.
    Variable(Selector),
    /// A template.
    Text(String),
    /// The value.
    Constant(Value),
}

/// Calls a tool.
#[derive(Clone, Debug)]
pub struct Tool {
    /// `builtin`, `plugin`, `api`, `workflow`, `mcp`.
    pub provider_kind: String,
    /// The provider: `time`, or `langgenius/tavily/tavily`.
    pub provider: String,
    /// The tool.
    pub name: String,
    /// The title for people.
    pub label: String,
    /// What it is given by the node.
    pub parameters: Vec<(String, ToolInput)>,
    /// What it is given by the one who set it up.
    pub configuration: Vec<(String, ToolInput)>,
    /// The plugin, by its unique name.
    pub plugin: Option<String>,
}

impl Tool {
    /// The short name of the provider.
    pub fn vendor(&self) -> &str {
        self.provider.rsplit('/').next().unwrap_or(&self.provider)
    }
}

/// Sends a request.
#[derive(Clone, Debug)]
pub struct Http {
    /// The method, in capitals.
    pub method: String,
    /// A template.
    pub url: String,
    /// Lines `name:value`; a template.
    pub headers: String,
    /// Lines `name:value`; each a template.
    pub params: String,
    /// Who asks.
    pub authorization: Option<Authorization>,
    /// What is sent.
    pub body: Body,
    /// Seconds to connect, read and write.
    pub timeouts: [Option<u64>; 3],
    /// Whether certificates are checked.
    pub verifies: bool,
}

/// How a request says who asks.
#[derive(Clone, Debug)]
pub struct Authorization {
    /// How.
    pub scheme: Scheme,
    /// The key, as a template.
    pub key: String,
    /// The header.
    pub header: String,
}

/// How a key is put into its header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// `Basic key`, encoded if it is `name:password`.
    Basic,
    /// `Bearer key`.
    #[default]
    Bearer,
    /// The key alone.
    Custom,
}

/// What a request sends.
#[derive(Clone, Debug, Default)]
pub enum Body {
    /// Nothing.
    #[default]
    None,
    /// A text, as a template.
    Raw(String),
    /// JSON, as a template.
    Json(String),
    /// A file.
    Binary(Selector),
    /// A form.
    Form(Vec<Field>),
    /// A form with files.
    Multipart(Vec<Field>),
}

/// A field of a form.
#[derive(Clone, Debug)]
pub struct Field {
    /// A template.
    pub name: String,
    /// A template, or the selector of files.
    pub value: FieldValue,
}

/// The value of a field.
#[derive(Clone, Debug)]
pub enum FieldValue {
    /// A template.
    Text(String),
    /// Files.
    Files(Selector),
}

/// Looks something up.
#[derive(Clone, Debug)]
pub struct Knowledge {
    /// What is looked up.
    pub query: Option<Selector>,
    /// Where, by the ids that they have in Dify.
    pub datasets: Vec<String>,
    /// How many are wanted.
    pub top_k: u64,
    /// How good they must be.
    pub threshold: Option<f64>,
    /// All settings, as the file has them.
    pub settings: Json,
}

/// Reads the text of files.
#[derive(Clone, Debug)]
pub struct Document {
    /// The file or files.
    pub files: Selector,
    /// Whether the file says that there are several.
    pub is_list: bool,
}

/// Asks a person.
#[derive(Clone, Debug)]
pub struct Human {
    /// The text, as a template; `{{#$output.NAME#}}` is the place of an input.
    pub form: String,
    /// What is asked for.
    pub inputs: Vec<HumanInput>,
    /// What the person may choose.
    pub actions: Vec<Action>,
    /// Seconds until it expires.
    pub timeout: u64,
    /// How the person hears of it, as the file has it.
    pub delivery: Json,
}

/// What a person is asked for.
#[derive(Clone, Debug)]
pub struct HumanInput {
    /// The name of the output.
    pub name: String,
    /// `text-input`, `paragraph`, `select`, `file`, `file-list`.
    pub kind: String,
    /// The settings, as the file has them: default, options.
    pub settings: Object,
}

/// What a person may choose.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its handle.
    pub id: String,
    /// What the button says.
    pub title: String,
}
