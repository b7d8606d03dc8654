//! The syntax tree of a file, with the position of every value.
//!
//! JSON is read by the same parser, being YAML's flow style. Aliases cost as much as what
//! they copy, so that an alias bomb meets the limit before it takes memory.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Number, Value as Json};

use super::report::Report;
use super::scalar;

/// The largest file, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// The most values in a file, aliases expanded.
const MAX_VALUES: usize = 500_000;
/// How deep they may nest.
const MAX_DEPTH: usize = 64;

/// A position in a file: line and column, from 1, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl Position {
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

/// A value with its position.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) data: Data,
    pub(super) at: Position,
}

#[derive(Clone, Debug)]
pub(super) enum Data {
    Null,
    Bool(bool),
    /// A number and its spelling, so that `version: 0.10` does not become `0.1`.
    Number(Number, Box<str>),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<Entry>),
}

/// An entry of a mapping; they stay in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Position,
    pub(super) value: Tree,
}

impl Tree {
    /// The value of a key; of several, the last, as Python's reader has it.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let found = self.entries().iter().rev().find(|entry| entry.key == key);
        found.map(|entry| &entry.value)
    }

    pub(super) fn entries(&self) -> &[Entry] {
        match &self.data {
            Data::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.data, Data::Null)
    }

    /// The text of a scalar, as it was written.
    pub(super) fn scalar(&self) -> Option<String> {
        match &self.data {
            Data::Text(text) => Some(text.clone()),
            Data::Number(_, written) => Some(written.to_string()),
            Data::Bool(flag) => Some(if *flag { "True" } else { "False" }.to_owned()),
            _ => None,
        }
    }

    pub(super) fn to_json(&self) -> Json {
        match &self.data {
            Data::Null => Json::Null,
            Data::Bool(flag) => Json::Bool(*flag),
            Data::Number(number, _) => Json::Number(number.clone()),
            Data::Text(text) => Json::String(text.clone()),
            Data::List(items) => items.iter().map(Self::to_json).collect(),
            Data::Map(entries) => {
                let entries = entries.iter();
                Json::Object(entries.map(|e| (e.key.clone(), e.value.to_json())).collect())
            }
        }
    }

    /// What it is, for messages.
    pub(super) fn kind_name(&self) -> &'static str {
        match &self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "a boolean",
            Data::Number(..) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Map(_) => "a mapping",
        }
    }
}

/// Reads a file; `None` if there is nothing to go on with.
pub(super) fn read(text: &str, report: &mut Report<'_>) -> Option<Tree> {
    if text.len() > MAX_BYTES {
        let message = format!("the file is larger than {MAX_BYTES} bytes");
        report.fault(Position::START, message, "split the workflow");
        return None;
    }
    // The scanner would take NUL for the end.
    if let Some(index) = text.find('\0') {
        let line = text[..index].matches('\n').count() + 1;
        let at = Position { line: small(line), column: 1 };
        report.fault(at, "a NUL character", "export the file again");
        return None;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let taken = match next {
            Ok((event, span)) => builder.take(event, place(&span), report),
            Err(error) => {
                let mark = error.marker();
                let at = Position { line: small(mark.line()), column: small(mark.col() + 1) };
                Err((at, format!("not valid YAML or JSON: {}", error.info())))
            }
        };
        if let Err((at, message)) = taken {
            report.fault(at, message, "export the workflow again as DSL");
            return None;
        }
        if builder.root.is_some() {
            break;
        }
    }
    if builder.root.is_none() {
        report.fault(Position::START, "the file is empty", "export the workflow as DSL");
    }
    builder.root
}

fn place(span: &Span) -> Position {
    Position { line: small(span.start.line()), column: small(span.start.col() + 1) }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A position, and what is wrong there so that nothing after it can be read.
type Fatal = (Position, String);

#[derive(Default)]
struct Builder {
    root: Option<Tree>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Tree, Cost)>,
    spent: Cost,
}

#[derive(Clone, Copy, Default)]
struct Cost {
    values: usize,
    bytes: usize,
}

/// A list or mapping that is still open.
struct Open {
    at: Position,
    anchor: usize,
    before: Cost,
    items: Vec<Tree>,
    entries: Option<Vec<Entry>>,
    key: Option<(String, Position)>,
}

impl Builder {
    fn take(
        &mut self,
        event: Event<'_>,
        at: Position,
        report: &mut Report<'_>,
    ) -> Result<(), Fatal> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let before = self.spent;
                self.spend(Cost { values: 1, bytes: text.len() }, at)?;
                let is_text = tag.as_deref().map(|tag| tag.core_suffix()) == Some(Some("str"));
                let data = match style {
                    ScalarStyle::Plain if !is_text => scalar::resolve(&text),
                    _ => Data::Text(text.into_owned()),
                };
                self.finish(Tree { data, at }, anchor, before, report)
            }
            Event::SequenceStart(_, anchor, _) => self.push(at, anchor, false),
            Event::MappingStart(_, anchor, _) => self.push(at, anchor, true),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let data = match open.entries {
                    Some(entries) => Data::Map(merge(entries)),
                    None => Data::List(open.items),
                };
                self.finish(Tree { data, at: open.at }, open.anchor, open.before, report)
            }
            Event::Alias(id) => {
                let Some((tree, cost)) = self.anchors.get(&id) else {
                    return Err((at, "an alias inside its own anchor".to_owned()));
                };
                let (data, cost) = (tree.data.clone(), *cost);
                self.spend(cost, at)?;
                self.place(Tree { data, at }, report);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn push(&mut self, at: Position, anchor: usize, is_map: bool) -> Result<(), Fatal> {
        if self.open.len() >= MAX_DEPTH {
            return Err((at, format!("nested more than {MAX_DEPTH} levels deep")));
        }
        let before = self.spent;
        self.spend(Cost { values: 1, bytes: 0 }, at)?;
        let entries = is_map.then(Vec::new);
        self.open.push(Open { at, anchor, before, items: Vec::new(), entries, key: None });
        Ok(())
    }

    fn finish(
        &mut self,
        tree: Tree,
        anchor: usize,
        before: Cost,
        report: &mut Report<'_>,
    ) -> Result<(), Fatal> {
        if anchor != 0 {
            let cost = Cost {
                values: self.spent.values - before.values,
                bytes: self.spent.bytes - before.bytes,
            };
            self.spend(cost, tree.at)?;
            self.anchors.insert(anchor, (tree.clone(), cost));
        }
        self.place(tree, report);
        Ok(())
    }

    fn spend(&mut self, cost: Cost, at: Position) -> Result<(), Fatal> {
        self.spent.values += cost.values;
        self.spent.bytes += cost.bytes;
        if self.spent.values > MAX_VALUES || self.spent.bytes > MAX_BYTES * 2 {
            return Err((at, format!("more than {MAX_VALUES} values, aliases expanded")));
        }
        Ok(())
    }

    /// Puts a completed value where it belongs: an item, a key, a key's value, the root.
    fn place(&mut self, tree: Tree, report: &mut Report<'_>) {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(tree);
            return;
        };
        let Some(entries) = &mut open.entries else {
            open.items.push(tree);
            return;
        };
        match open.key.take() {
            Some((key, at)) => entries.push(Entry { key, at, value: tree }),
            None => {
                let key = match &tree.data {
                    Data::Null => Some("null".to_owned()),
                    _ => tree.scalar(),
                };
                let key = key.unwrap_or_else(|| {
                    report.fault(tree.at, "a list or mapping cannot be a key", "write a text");
                    String::new()
                });
                open.key = Some((key, tree.at));
            }
        }
    }
}

/// Applies `<<`: what the mapping says itself goes first.
fn merge(entries: Vec<Entry>) -> Vec<Entry> {
    if entries.iter().all(|entry| entry.key != "<<") {
        return entries;
    }
    let (merged, mut own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|e| e.key == "<<");
    let mut known: std::collections::HashSet<String> = own.iter().map(|e| e.key.clone()).collect();
    for entry in merged {
        let maps = match entry.value.data {
            Data::List(items) => items,
            data => vec![Tree { data, at: entry.at }],
        };
        for map in maps {
            if let Data::Map(added) = map.data {
                own.extend(added.into_iter().filter(|entry| known.insert(entry.key.clone())));
            }
        }
    }
    own
}
