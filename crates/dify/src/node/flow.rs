//! Nodes that steer: they ask nobody outside.

use serde_json::Value as Json;

use super::Selector;
use crate::condition::{Conditions, Operator};
use crate::value::{Kind, Value};

/// Where a run starts.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// What it asks for.
    pub inputs: Vec<Input>,
}

/// An input of a run.
#[derive(Clone, Debug)]
pub struct Input {
    /// The name of the variable.
    pub name: String,
    /// The label for people.
    pub label: String,
    /// What it is.
    pub kind: InputKind,
    /// Whether a run needs it.
    pub required: bool,
    /// The value if none is given.
    pub default: Value,
    /// The longest text.
    pub max_length: Option<u64>,
    /// The choices of a `select`.
    pub options: Vec<String>,
    /// The schema of a `json_object`.
    pub schema: Option<Json>,
}

/// What an input is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputKind {
    /// A line of text.
    #[default]
    Text,
    /// Several lines.
    Paragraph,
    /// One of some texts.
    Select,
    /// A number.
    Number,
    /// True or false.
    Checkbox,
    /// A file.
    File,
    /// Several files.
    Files,
    /// An object.
    Object,
}

/// An output of a workflow.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// Where it is from.
    pub selector: Selector,
}

/// A case of an if-else node.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its handle.
    pub id: String,
    /// When it is taken.
    pub conditions: Conditions,
}

/// Runs its nodes for each item of a list.
#[derive(Clone, Debug)]
pub struct Iteration {
    /// The list.
    pub over: Selector,
    /// The output of each round.
    pub output: Selector,
    /// The first node.
    pub start: String,
    /// How many rounds run at once.
    pub at_once: usize,
    /// What becomes of a round that fails.
    pub on_error: RoundError,
    /// Whether a list of lists becomes one list.
    pub flatten: bool,
}

/// What becomes of a round that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoundError {
    /// The iteration fails.
    #[default]
    Fail,
    /// Its output is null.
    Null,
    /// It has no output.
    Drop,
}

/// Runs its nodes until something holds.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The first node.
    pub start: String,
    /// The most rounds.
    pub rounds: u64,
    /// When it ends before that; never if there are none.
    pub until: Conditions,
    /// Its variables.
    pub variables: Vec<LoopVariable>,
}

/// A variable of a loop.
#[derive(Clone, Debug)]
pub struct LoopVariable {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// Where it starts.
    pub from: Operand,
}

/// A value that is written in the file or taken from a variable.
#[derive(Clone, Debug)]
pub enum Operand {
    /// The value.
    Constant(Value),
    /// The variable.
    Variable(Selector),
}

/// The first of several variables that is there.
#[derive(Clone, Debug)]
pub enum Aggregator {
    /// As the output `output`.
    One(Vec<Selector>),
    /// As the output `output` of each group.
    Groups(Vec<(String, Vec<Selector>)>),
}

/// A change of a variable.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The variable.
    pub target: Selector,
    /// What is done to it.
    pub operation: Operation,
    /// With what.
    pub operand: Operand,
    /// Whether it is of the first version, which checks no types.
    pub unchecked: bool,
}

/// What is done to a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names in OPERATIONS say it")]
pub enum Operation {
    Overwrite,
    Clear,
    Append,
    Extend,
    Set,
    Add,
    Subtract,
    Multiply,
    Divide,
    RemoveFirst,
    RemoveLast,
}

/// The operations by the names that files have for them.
pub const OPERATIONS: [(&str, Operation); 11] = [
    ("over-write", Operation::Overwrite),
    ("clear", Operation::Clear),
    ("append", Operation::Append),
    ("extend", Operation::Extend),
    ("set", Operation::Set),
    ("+=", Operation::Add),
    ("-=", Operation::Subtract),
    ("*=", Operation::Multiply),
    ("/=", Operation::Divide),
    ("remove-first", Operation::RemoveFirst),
    ("remove-last", Operation::RemoveLast),
];

/// Filters, orders and cuts a list.
#[derive(Clone, Debug)]
pub struct ListOperator {
    /// The list.
    pub list: Selector,
    /// What is kept: key (of files), operator, and with what it is compared.
    pub filter: Vec<(String, Operator, Value)>,
    /// Which one is taken, counted from 1; a template.
    pub extract: Option<String>,
    /// By which key (of files) it is ordered, and whether the largest goes first.
    pub order: Option<(String, bool)>,
    /// How many are kept; negative numbers count from the end.
    pub limit: Option<i64>,
}
