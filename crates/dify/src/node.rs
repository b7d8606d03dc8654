//! Nodes of a graph, with the settings of each type.

pub mod flow;
pub mod model;
pub mod reach;
pub mod references;

use crate::document::Position;
use crate::value::Value;

/// The selector of a variable: `[node, name, key…]`.
pub type Selector = Vec<String>;

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// Its title on the canvas.
    pub title: String,
    /// The iteration or loop that it is in.
    pub parent: Option<String>,
    /// The loop that its settings name. Dify forgets between rounds what such nodes left,
    /// and lets only such nodes end the loop, whatever container the canvas shows.
    pub loop_id: Option<String>,
    /// What it does.
    pub kind: NodeKind,
    /// What happens when it fails.
    pub on_error: OnError,
    /// How it is tried again before that.
    pub retry: Retry,
    /// Where it is on the canvas.
    pub position: Option<(f64, f64)>,
    /// Where it is in the file.
    pub at: Position,
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// Where a run starts.
    Start(flow::Start),
    /// Gives outputs of a workflow.
    End(Vec<flow::Output>),
    /// Gives text of a chat.
    Answer(String),
    /// Asks a model.
    Llm(Box<model::Llm>),
    /// Asks a model which class a question is of.
    Classifier(Box<model::Classifier>),
    /// Asks a model for parameters in a text.
    Extractor(Box<model::Extractor>),
    /// Runs an agent.
    Agent(Box<model::Agent>),
    /// Runs code.
    Code(Box<reach::Code>),
    /// Renders a Jinja template.
    Template(reach::Template),
    /// Calls a tool.
    Tool(Box<reach::Tool>),
    /// Sends a request.
    Http(Box<reach::Http>),
    /// Looks something up.
    Knowledge(Box<reach::Knowledge>),
    /// Reads the text of files.
    Document(reach::Document),
    /// Asks a person.
    Human(Box<reach::Human>),
    /// Chooses a branch.
    IfElse(Vec<flow::Case>),
    /// Runs its nodes for each item of a list.
    Iteration(Box<flow::Iteration>),
    /// Runs its nodes until something holds.
    Loop(Box<flow::Loop>),
    /// The first node in an iteration or loop.
    ContainerStart,
    /// Ends a loop.
    LoopEnd,
    /// The first of several variables that is there.
    Aggregator(flow::Aggregator),
    /// Changes variables of the conversation or of a loop.
    Assigner(Vec<flow::Assignment>),
    /// Filters, orders and cuts a list.
    ListOperator(Box<flow::ListOperator>),
    /// Starts a run from outside; nothing here does that.
    Trigger(&'static str),
}

impl NodeKind {
    /// The type as files name it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Start(_) => "start",
            Self::End(_) => "end",
            Self::Answer(_) => "answer",
            Self::Llm(_) => "llm",
            Self::Classifier(_) => "question-classifier",
            Self::Extractor(_) => "parameter-extractor",
            Self::Agent(_) => "agent",
            Self::Code(_) => "code",
            Self::Template(_) => "template-transform",
            Self::Tool(_) => "tool",
            Self::Http(_) => "http-request",
            Self::Knowledge(_) => "knowledge-retrieval",
            Self::Document(_) => "document-extractor",
            Self::Human(_) => "human-input",
            Self::IfElse(_) => "if-else",
            Self::Iteration(_) => "iteration",
            Self::Loop(_) => "loop",
            Self::ContainerStart => "iteration-start",
            Self::LoopEnd => "loop-end",
            Self::Aggregator(_) => "variable-aggregator",
            Self::Assigner(_) => "assigner",
            Self::ListOperator(_) => "list-operator",
            Self::Trigger(name) => name,
        }
    }

    /// Whether it takes one of its handles and leaves the others.
    pub fn is_branch(&self) -> bool {
        matches!(self, Self::IfElse(_) | Self::Classifier(_) | Self::Human(_))
    }

    /// Whether its outputs are those of the run.
    pub fn is_response(&self) -> bool {
        matches!(self, Self::End(_) | Self::Answer(_))
    }

    /// Whether it has nodes inside.
    pub fn is_container(&self) -> bool {
        matches!(self, Self::Iteration(_) | Self::Loop(_))
    }

    /// The first node of a container.
    pub fn first_inside(&self) -> Option<&str> {
        match self {
            Self::Iteration(iteration) => Some(&iteration.start),
            Self::Loop(repeat) => Some(&repeat.start),
            _ => None,
        }
    }
}

/// What happens when a node fails.
#[derive(Clone, Debug, Default)]
pub enum OnError {
    /// The run fails.
    #[default]
    Fail,
    /// The run goes on with these outputs.
    Default(Vec<(String, Value)>),
    /// The run goes on at the handle `fail-branch`.
    Branch,
}

/// How a node is tried again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retry {
    /// How many times more; 0 if not at all.
    pub times: u32,
    /// Milliseconds between.
    pub interval: u64,
}
