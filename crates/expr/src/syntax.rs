//! The syntax tree of an expression.
//!
//! Nodes lie in one vector and name each other by number: dropping a tree needs no
//! recursion, and its depth is known while it is built.

use std::ops::Range;

use crate::functions::{Function, Pattern};
use crate::value::TypeName;

/// The number of a node.
pub(crate) type Id = u32;

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) at: Range<u32>,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Literal(Literal),
    /// A name of the scope. Absent names are an error, or nothing if `optional`.
    Name {
        name: Box<str>,
        optional: bool,
    },
    /// A variable of a macro, counted from the outermost.
    Local(u32),
    TypeName(TypeName),
    Select {
        of: Id,
        key: Box<str>,
        optional: bool,
    },
    Index {
        of: Id,
        key: Id,
        optional: bool,
    },
    /// Whether the selection or name is there.
    Has(Id),
    /// A function with its arguments; a method's first argument is what stands before
    /// the point.
    Call {
        function: Function,
        arguments: Vec<Id>,
        /// The regular expression of `matches`, if it is constant.
        pattern: Option<Box<Pattern>>,
    },
    Not(Id),
    Negate(Id),
    /// Operators of one strength, from left to right.
    Chain(Id, Vec<(Operator, Id)>),
    /// Two or more.
    All(Vec<Id>),
    Any(Vec<Id>),
    Conditional(Id, Id, Id),
    List(Vec<Item>),
    Map(Vec<Entry>),
    Fold(Box<Fold>),
    /// `cel.bind(x, value, body)`.
    Bind {
        value: Id,
        body: Id,
        local: u32,
    },
    /// `x.optMap(v, body)`; `flat` if the body is optional itself.
    OptMap {
        of: Id,
        body: Id,
        local: u32,
        flat: bool,
    },
    /// The first that is present and not null; null if there is none, or the last one
    /// whatever it is if `otherwise`.
    First {
        of: Vec<Id>,
        otherwise: bool,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Box<str>),
    Bytes(Box<[u8]>),
}

#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) value: Id,
    /// `[?x]`: an element only if it has a value.
    pub(crate) optional: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Id,
    pub(crate) value: Id,
    pub(crate) optional: bool,
}

/// A macro over the elements of a list or map.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub(crate) kind: FoldKind,
    pub(crate) over: Id,
    /// The first local of the macro.
    pub(crate) local: u32,
    /// Key and value, in place of one variable.
    pub(crate) two: bool,
    pub(crate) filter: Option<Id>,
    pub(crate) body: Id,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformMap,
    TransformMapEntry,
    SortBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    And,
    Or,
}

impl Operator {
    /// How strongly the weakest binds.
    pub(crate) const WEAKEST: u8 = 1;

    /// The operator and how strongly it binds.
    pub(crate) fn of(sign: &str) -> Option<(Self, u8)> {
        Some(match sign {
            "||" => (Self::Or, Self::WEAKEST),
            "&&" => (Self::And, 2),
            "in" => (Self::In, 3),
            "==" => (Self::Equal, 3),
            "!=" => (Self::Unequal, 3),
            "<" => (Self::Less, 3),
            "<=" => (Self::LessEqual, 3),
            ">" => (Self::Greater, 3),
            ">=" => (Self::GreaterEqual, 3),
            "+" => (Self::Add, 4),
            "-" => (Self::Subtract, 4),
            "*" => (Self::Multiply, 5),
            "/" => (Self::Divide, 5),
            "%" => (Self::Remainder, 5),
            _ => return None,
        })
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::In => "in",
            Self::And => "&&",
            Self::Or => "||",
        }
    }
}
