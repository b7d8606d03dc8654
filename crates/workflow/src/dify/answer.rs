//! Answers as the log keeps them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_dify::node::{Node, NodeKind};
use windlass_dify::step::{Answer, HttpAnswer, ModelAnswer, Outcome, ToolAnswer};
use windlass_dify::value::{Object, Value as DifyValue};

use super::job::Reached;

/// The answer to a job.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KeptAnswer {
    Model {
        text: String,
        structured: Option<Value>,
        usage: Value,
    },
    Tool {
        text: String,
        files: Vec<Value>,
        json: Vec<Value>,
    },
    Http {
        status: u16,
        body: String,
        headers: Map<String, Value>,
    },
    Knowledge(Vec<Value>),
    Documents(Vec<String>),
    Code(Value),
    Person {
        action: String,
        form: Map<String, Value>,
    },
    Expired,
    /// The outputs of a node, from what takes its place.
    Outputs(Map<String, Value>),
    /// It failed, and its node says how to go on.
    Failed {
        class: String,
        message: String,
    },
}

fn values(values: Vec<Value>) -> Vec<DifyValue> {
    values.into_iter().map(DifyValue::from_json).collect()
}

fn object(map: Map<String, Value>) -> Object {
    map.into_iter().map(|(name, value)| (name, DifyValue::from_json(value))).collect()
}

impl KeptAnswer {
    pub(super) fn reached(self, node: &Node) -> Reached {
        Reached::Answer(match self {
            Self::Model { text, structured, usage } => Answer::Model(Box::new(ModelAnswer {
                text,
                structured: structured.map(DifyValue::from_json),
                usage: DifyValue::from_json(usage),
                ..ModelAnswer::default()
            })),
            Self::Tool { text, files, json } => Answer::Tool(Box::new(ToolAnswer {
                text,
                files: values(files),
                json: values(json),
                variables: Object::new(),
            })),
            Self::Http { status, body, headers } => Answer::Http(Box::new(HttpAnswer {
                status,
                body,
                headers: object(headers),
                files: Vec::new(),
            })),
            Self::Knowledge(results) => Answer::Knowledge(values(results)),
            Self::Documents(texts) => Answer::Documents(texts),
            Self::Code(result) => Answer::Code(DifyValue::from_json(result)),
            Self::Person { action, form } => Answer::Human { action, inputs: object(form) },
            Self::Expired => Answer::Expired,
            Self::Outputs(outputs) => return Reached::Outcome(outcome(node, outputs)),
            Self::Failed { class, message } => {
                return Reached::Failure(windlass_dify::step::Failure::new(class, message));
            }
        })
    }
}

/// The outcome of a node whose outputs came from what takes its place; the handle of a
/// branch is one of them.
fn outcome(node: &Node, outputs: Map<String, Value>) -> Outcome {
    let text = |name: &str| outputs.get(name).and_then(Value::as_str).map(str::to_owned);
    let handle = match &node.kind {
        NodeKind::Classifier(_) => text("class_id"),
        NodeKind::Human(_) => text("__action_id"),
        NodeKind::IfElse(_) => text("selected_case_id"),
        _ => None,
    };
    let mut outcome = Outcome { handle, ..Outcome::default() };
    for (name, value) in outputs {
        outcome.outputs.insert(name, DifyValue::from_json(value).into());
    }
    outcome
}
