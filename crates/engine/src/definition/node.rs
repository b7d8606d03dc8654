//! Syntax tree of YAML and JSON, with the position of every value.
//!
//! The tree is built from parser events, not through serde, to keep the
//! positions of keys, duplicate keys and the spelling of numbers, and to
//! enforce limits while reading. JSON is read by the same parser, because it is
//! YAML's flow style.

use granit_parser::{Parser, Span};
use serde_json::{Number, Value};

use super::DefinitionLimits;
use super::reader::FaultReport;
use super::tree_builder::{FatalError, TreeBuilder};

/// A position in a file: line and column, from 1, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Position {
    pub(super) const START: Self = Self { line: 1, column: 1 };

    /// The position of a byte.
    pub(super) fn of_byte(text: &[u8], index: usize) -> Self {
        let before = String::from_utf8_lossy(text.get(..index).unwrap_or(text));
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        Self { line: small(line), column: small(column) }
    }
}

/// A value with its position.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) data: NodeValue,
    pub(super) at: Position,
}

#[derive(Clone, Debug)]
pub(super) enum NodeValue {
    Null,
    Bool(bool),
    /// A number and its spelling.
    Number(Number, Box<str>),
    Text(String),
    List(Vec<Node>),
    Map(Vec<MapEntry>),
}

/// An entry of a mapping; entries stay in file order.
#[derive(Clone, Debug)]
pub(super) struct MapEntry {
    pub(super) key: String,
    pub(super) at: Position,
    pub(super) value: Node,
}

impl Node {
    /// The value as JSON.
    pub(super) fn to_json(&self) -> Value {
        match &self.data {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(flag) => Value::Bool(*flag),
            NodeValue::Number(number, _) => Value::Number(number.clone()),
            NodeValue::Text(text) => Value::String(text.clone()),
            NodeValue::List(items) => items.iter().map(Self::to_json).collect(),
            NodeValue::Map(entries) => Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect(),
            ),
        }
    }

    /// The value of a key, if this is a mapping.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.data {
            NodeValue::Map(entries) => {
                entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
            }
            _ => None,
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The type's name, for messages.
    pub(super) fn kind_name(&self) -> &'static str {
        match &self.data {
            NodeValue::Null => "nothing",
            NodeValue::Bool(_) => "a boolean",
            NodeValue::Number(..) => "a number",
            NodeValue::Text(_) => "a text",
            NodeValue::List(_) => "a list",
            NodeValue::Map(_) => "a mapping",
        }
    }
}

/// Reads all documents of a text. Blank documents are skipped; after a syntax
/// error, the documents before it are returned.
pub(super) fn documents(
    text: &str,
    limits: &DefinitionLimits,
    report: &mut FaultReport<'_>,
) -> Vec<Node> {
    if text.len() > limits.file_bytes {
        report.hinted(
            Position::START,
            format!("the file is larger than {} bytes", limits.file_bytes),
            "split it",
        );
        return Vec::new();
    }
    // Both languages forbid control characters, and the scanner would take NUL
    // for the end.
    let control = |b: u8| b < b' ' && !matches!(b, b'\t' | b'\n' | b'\r');
    if let Some(index) = text.bytes().position(control) {
        let at = Position::of_byte(text.as_bytes(), index);
        report.add(at, format!("a control character, {:#04x}", text.as_bytes()[index]));
        return Vec::new();
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
    };
    let mut builder = TreeBuilder::new(limits);
    for next in Parser::new_from_str_with_options(text, options) {
        let outcome = match next {
            Ok((event, span)) => builder.take(event, place(&span), report),
            Err(error) => {
                let mark = error.marker();
                let at = Position { line: small(mark.line()), column: small(mark.col() + 1) };
                Err(FatalError { at, message: format!("not valid YAML or JSON: {}", error.info()) })
            }
        };
        if let Err(FatalError { at, message }) = outcome {
            report.add(at, message);
            break;
        }
    }
    builder.into_documents()
}

fn place(span: &Span) -> Position {
    Position { line: small(span.start.line()), column: small(span.start.col() + 1) }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
