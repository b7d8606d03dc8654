//! The syntax tree of a template.

use std::rc::Rc;

use crate::value::Value;

/// A statement, with its line.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: u32,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Text(String),
    Print(Expr),
    For {
        targets: Vec<String>,
        over: Expr,
        only: Option<Expr>,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
    If {
        cases: Vec<(Expr, Vec<Node>)>,
        otherwise: Vec<Node>,
    },
    Set {
        targets: Vec<Target>,
        value: Expr,
    },
    SetBlock {
        target: Target,
        filters: Vec<FilterCall>,
        body: Vec<Node>,
    },
    With {
        names: Vec<(String, Expr)>,
        body: Vec<Node>,
    },
    Filter {
        filters: Vec<FilterCall>,
        body: Vec<Node>,
    },
    Macro(Rc<Macro>),
}

/// Where `set` puts a value.
#[derive(Debug)]
pub(super) enum Target {
    Name(String),
    /// An attribute of a namespace.
    Attribute(String, String),
}

#[derive(Debug)]
pub(super) struct Macro {
    pub(super) name: String,
    pub(super) parameters: Vec<(String, Option<Expr>)>,
    pub(super) body: Vec<Node>,
}

/// A filter without what it is applied to.
#[derive(Debug)]
pub(super) struct FilterCall {
    pub(super) name: String,
    pub(super) arguments: Arguments,
}

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) list: Vec<Expr>,
    pub(super) named: Vec<(String, Expr)>,
}

#[derive(Debug)]
pub(super) enum Expr {
    Constant(Value),
    Name(String),
    List(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Attribute(Box<Expr>, String),
    Item(Box<Expr>, Box<Expr>),
    /// Start, stop, step.
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    Call(Box<Expr>, Arguments),
    Filter(Box<Expr>, FilterCall),
    /// `x is name(…)`, and whether it is `is not`.
    Test(Box<Expr>, FilterCall, bool),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// Texts that are joined by `~`.
    Concat(Vec<Expr>),
    /// A chain such as `1 < x <= 5`.
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    /// Condition, value, other value.
    Choice(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}
