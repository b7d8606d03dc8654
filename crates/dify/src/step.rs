//! What a node does, as pure functions.
//!
//! [`begin`] looks at a node and the variables and says what is to be done: nothing but an
//! [`Outcome`], or [`Work`] for whoever can reach out. [`finish`] makes an outcome of its
//! answer, and [`recover`] one of a failure, if the node says so. Iterations and loops are
//! work for whoever runs the graph: [`rounds`] has their rules.

mod code;
mod flow;
mod list;
mod model;
mod reach;
pub mod rounds;

use std::fmt;

use indexmap::IndexMap;

use crate::json;
use crate::node::reach::{Action, HumanInput};
use crate::node::{Node, NodeKind, OnError, Selector, model::Model, model::Role};
use crate::pool::Pool;
use crate::template::{Part, SecretUse};
use crate::value::{File, Object, Segment, Value};

pub use self::flow::{check_inputs, start};

/// The outputs of a node, by name.
pub type Outputs = IndexMap<String, Segment>;

/// How a node ended.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Its outputs.
    pub outputs: Outputs,
    /// The handle at which it leaves; all of them if there is none.
    pub handle: Option<String>,
    /// Variables of others that it changed.
    pub assigned: Vec<(String, String, Segment)>,
    /// Why it failed, if it did and its node says how to go on.
    pub failure: Option<Failure>,
}

impl Outcome {
    fn of<const N: usize>(outputs: [(&str, Segment); N]) -> Self {
        let outputs = outputs.into_iter().map(|(name, segment)| (name.to_owned(), segment));
        Self { outputs: outputs.collect(), ..Self::default() }
    }

    fn at(mut self, handle: impl Into<String>) -> Self {
        self.handle = Some(handle.into());
        self
    }
}

/// Why a node failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong, in the words of Dify where it has some.
    pub message: String,
    /// The class of the error: the output `error_type`.
    pub class: String,
}

impl Failure {
    /// A failure of a class.
    pub fn new(class: impl Into<String>, message: impl Into<String>) -> Self {
        Self { message: message.into(), class: class.into() }
    }

    fn value(message: impl Into<String>) -> Self {
        Self::new("ValueError", message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<SecretUse> for Failure {
    fn from(secret: SecretUse) -> Self {
        Self::new("SecretNotAllowed", secret.to_string())
    }
}

/// What is to be done for a node.
#[derive(Clone, Debug)]
pub enum Work {
    /// Nothing; this is how it ended.
    Done(Outcome),
    /// Ask a model.
    Model(Box<ModelRequest>),
    /// Call a tool.
    Tool(Box<ToolCall>),
    /// Run an agent.
    Agent(Box<AgentCall>),
    /// Send a request.
    Http(Box<HttpRequest>),
    /// Look something up.
    Knowledge(Box<Lookup>),
    /// Read the texts of files.
    Documents(Vec<File>),
    /// Run code.
    Code(Box<CodeCall>),
    /// Ask a person.
    Human(Box<Question>),
    /// Run the nodes inside, as [`rounds`] says.
    Rounds,
}

/// A request to a model.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// The model, with its parameters.
    pub model: Model,
    /// The messages.
    pub messages: Vec<Message>,
    /// Where the conversation so far goes.
    pub history: Option<History>,
    /// The JSON Schema that the answer has.
    pub schema: Option<serde_json::Value>,
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Whose it is.
    pub role: Role,
    /// The text.
    pub text: String,
    /// Files that go with it.
    pub files: Vec<Value>,
}

/// Where the conversation so far goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// Before which message.
    pub before: usize,
    /// How many rounds of it; all that fit if there is no number.
    pub rounds: Option<u64>,
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// `builtin`, `plugin`, `api`, `workflow`, `mcp`.
    pub provider_kind: String,
    /// The provider, as the file names it.
    pub provider: String,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub arguments: Object,
    /// The settings.
    pub configuration: Object,
}

/// A run of an agent.
#[derive(Clone, Debug)]
pub struct AgentCall {
    /// The strategy.
    pub strategy: String,
    /// What it is given: `instruction`, `query`, `model`, `tools`.
    pub parameters: Object,
    /// How many rounds of the conversation it sees, if any.
    pub history: Option<Option<u64>>,
}

/// A request over HTTP.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The method, in capitals.
    pub method: String,
    /// The address.
    pub url: String,
    /// What is added to the query of the address.
    pub params: Vec<(String, String)>,
    /// The headers.
    pub headers: Vec<(String, HeaderValue)>,
    /// What is sent.
    pub body: HttpBody,
    /// Seconds to connect, read and write.
    pub timeouts: [Option<u64>; 3],
    /// Whether certificates are checked.
    pub verifies: bool,
}

/// The value of a header, with the names of secrets in place of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderValue {
    /// The parts, one after the other.
    Plain(Vec<Part>),
    /// `Basic` and the parts in base64.
    Basic(Vec<Part>),
}

/// What a request sends.
#[derive(Clone, Debug, PartialEq)]
pub enum HttpBody {
    /// Nothing.
    None,
    /// A text.
    Text(String),
    /// JSON.
    Json(serde_json::Value),
    /// A file.
    File(File),
    /// A form.
    Form(Vec<(String, String)>),
    /// A form, and the files in it.
    Multipart(Vec<(String, String)>, Vec<(String, File)>),
}

/// A search in datasets.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// What is looked up.
    pub query: String,
    /// Where, by the ids that they have in Dify.
    pub datasets: Vec<String>,
    /// How many results are wanted.
    pub top_k: u64,
    /// How good they must be.
    pub threshold: Option<f64>,
}

/// A call of `main`.
#[derive(Clone, Debug)]
pub struct CodeCall {
    /// `python3` or `javascript`.
    pub language: String,
    /// The text.
    pub code: String,
    /// The arguments of `main`.
    pub arguments: Object,
}

/// A question to a person.
#[derive(Clone, Debug)]
pub struct Question {
    /// The text, with `{{#$output.NAME#}}` where inputs go.
    pub form: String,
    /// What is asked for, with the values that they start with.
    pub inputs: Vec<(HumanInput, Value)>,
    /// What the person may choose.
    pub actions: Vec<Action>,
    /// Seconds until it expires.
    pub timeout: u64,
}

/// The answer to [`Work`].
#[derive(Clone, Debug)]
pub enum Answer {
    /// Of a model.
    Model(Box<ModelAnswer>),
    /// Of a tool or an agent.
    Tool(Box<ToolAnswer>),
    /// Of a server.
    Http(Box<HttpAnswer>),
    /// The results of a search: objects with `title`, `content`, `url`, `metadata`.
    Knowledge(Vec<Value>),
    /// The texts of files, in their order.
    Documents(Vec<String>),
    /// What `main` returned.
    Code(Value),
    /// What a person chose and filled in.
    Human {
        /// The id of the action.
        action: String,
        /// The inputs.
        inputs: Object,
    },
    /// The question expired.
    Expired,
}

/// What a model answered.
#[derive(Clone, Debug, Default)]
pub struct ModelAnswer {
    /// The text.
    pub text: String,
    /// What it thought, if it says.
    pub reasoning: String,
    /// The answer by the schema, if there was one.
    pub structured: Option<Value>,
    /// Tokens and the like.
    pub usage: Value,
    /// Why it ended.
    pub finish_reason: String,
    /// Files that it made.
    pub files: Vec<Value>,
}

/// What a tool or an agent answered.
#[derive(Clone, Debug, Default)]
pub struct ToolAnswer {
    /// The text.
    pub text: String,
    /// The files.
    pub files: Vec<Value>,
    /// The objects.
    pub json: Vec<Value>,
    /// Outputs of its own.
    pub variables: Object,
}

/// What a server answered.
#[derive(Clone, Debug, Default)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The text; empty if it is a file.
    pub body: String,
    /// The headers.
    pub headers: Object,
    /// The file that it is.
    pub files: Vec<Value>,
}

/// What is to be done for a node.
pub fn begin(node: &Node, pool: &Pool) -> Result<Work, Failure> {
    Ok(match &node.kind {
        NodeKind::Start(_) | NodeKind::Trigger(_) => Work::Done(flow::start_outputs(node, pool)),
        NodeKind::End(outputs) => Work::Done(flow::end(outputs, pool)?),
        NodeKind::Answer(text) => Work::Done(flow::answer(text, pool)?),
        NodeKind::IfElse(cases) => Work::Done(flow::if_else(cases, pool)?),
        NodeKind::Aggregator(settings) => Work::Done(flow::aggregate(settings, pool)),
        NodeKind::Assigner(changes) => Work::Done(flow::assign(changes, pool)?),
        NodeKind::ListOperator(settings) => Work::Done(list::operate(settings, pool)?),
        NodeKind::ContainerStart | NodeKind::LoopEnd => Work::Done(Outcome::default()),
        NodeKind::Template(settings) => Work::Done(reach::template(settings, pool)?),
        NodeKind::Llm(settings) => Work::Model(Box::new(model::llm(settings, pool)?)),
        NodeKind::Classifier(settings) => Work::Model(Box::new(model::classifier(settings, pool)?)),
        NodeKind::Extractor(settings) => Work::Model(Box::new(model::extractor(settings, pool)?)),
        NodeKind::Agent(settings) => Work::Agent(Box::new(reach::agent(settings, pool)?)),
        NodeKind::Tool(settings) => Work::Tool(Box::new(reach::tool(settings, pool)?)),
        NodeKind::Http(settings) => Work::Http(Box::new(reach::http(settings, pool)?)),
        NodeKind::Knowledge(settings) => reach::knowledge(settings, pool)?,
        NodeKind::Document(settings) => reach::documents(settings, pool)?,
        NodeKind::Code(settings) => Work::Code(Box::new(code::call(settings, pool)?)),
        NodeKind::Human(settings) => Work::Human(Box::new(reach::question(settings, pool)?)),
        NodeKind::Iteration(_) | NodeKind::Loop(_) => Work::Rounds,
    })
}

/// How a node ended whose work was answered.
pub fn finish(node: &Node, pool: &Pool, answer: Answer) -> Result<Outcome, Failure> {
    match (&node.kind, answer) {
        (NodeKind::Llm(settings), Answer::Model(answer)) => {
            Ok(model::llm_answer(settings, *answer))
        }
        (NodeKind::Classifier(settings), Answer::Model(answer)) => {
            model::class_of(settings, pool, &answer)
        }
        (NodeKind::Extractor(settings), Answer::Model(answer)) => {
            Ok(model::parameters_of(settings, &answer))
        }
        (NodeKind::Tool(_) | NodeKind::Agent(_), Answer::Tool(answer)) => {
            Ok(reach::tool_answer(*answer))
        }
        (NodeKind::Http(_), Answer::Http(answer)) => {
            let strict = node.retry.times > 0 || !matches!(node.on_error, OnError::Fail);
            reach::http_answer(*answer, strict)
        }
        (NodeKind::Knowledge(_), Answer::Knowledge(results)) => {
            let results: Value = results.into_iter().collect();
            Ok(Outcome::of([("result", results.into())]))
        }
        (NodeKind::Document(settings), Answer::Documents(texts)) => {
            Ok(reach::document_texts(settings, pool, texts))
        }
        (NodeKind::Code(settings), Answer::Code(result)) => code::outcome(settings, &result),
        (NodeKind::Human(settings), Answer::Human { action, inputs }) => {
            reach::decision(settings, pool, &action, inputs)
        }
        (NodeKind::Human(_), Answer::Expired) => Ok(Outcome::default().at("__timeout")),
        (kind, _) => Err(Failure::new(
            "TypeError",
            format!("this is no answer for a node of type {}", kind.name()),
        )),
    }
}

/// How a node ended that failed: `None` if the run fails with it.
pub fn recover(node: &Node, failure: Failure) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    match &node.on_error {
        OnError::Fail => return Err(failure),
        OnError::Default(values) => {
            let values = values.iter().map(|(name, value)| (name.clone(), value.clone().into()));
            outcome.outputs.extend(values);
        }
        OnError::Branch => {}
    }
    let texts = [("error_message", &failure.message), ("error_type", &failure.class)];
    for (name, text) in texts {
        outcome.outputs.insert(name.to_owned(), Value::from(text.as_str()).into());
    }
    outcome.failure = Some(failure);
    Ok(outcome)
}

/// A selector as Python writes it, for messages.
fn written(selector: &Selector) -> String {
    let selector: Value = selector.iter().map(|part| Value::from(part.as_str())).collect();
    crate::value::text::repr(&selector)
}

/// The value of a selector, and nothing of a secret.
fn lookup(pool: &Pool, selector: &Selector) -> Result<Option<Segment>, Failure> {
    match pool.is_secret(selector) {
        true => Err(SecretUse { name: selector[1].clone() }.into()),
        false => Ok(pool.get(selector)),
    }
}

/// Variables by name, for code and templates; what is missing is null.
fn named(pool: &Pool, variables: &[(String, Selector)]) -> Result<Object, Failure> {
    let mut object = Object::new();
    for (name, selector) in variables {
        let segment = lookup(pool, selector)?;
        object.insert(name.clone(), segment.map_or(Value::Null, |segment| segment.value));
    }
    Ok(object)
}

/// An object in a text, strictly or repaired.
fn object_in(text: &str) -> Option<serde_json::Map<String, serde_json::Value>> {
    json::first_object(text).or_else(|| match json::parse(text) {
        Some(serde_json::Value::Object(object)) => Some(object),
        _ => None,
    })
}
