//! Builds the syntax tree from parser events, within a budget.
//!
//! Aliases and anchors cost as much as what they copy, so an alias bomb
//! ("billion laughs") exhausts the budget before it takes memory.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, ScalarStyle, Tag};

use super::node::{MapEntry, Node, NodeValue, Position};
use super::reader::FaultReport;
use super::{DefinitionLimits, scalar};

/// An error after which the rest of the file cannot be read.
pub(super) struct FatalError {
    pub(super) at: Position,
    pub(super) message: String,
}

/// Builds the documents of a text, event by event.
pub(super) struct TreeBuilder<'l> {
    limits: &'l DefinitionLimits,
    documents: Vec<Node>,
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Anchored>,
    spent: NodeCost,
}

/// Cost of a part of the tree: values, and bytes of text.
#[derive(Clone, Copy, Default)]
struct NodeCost {
    nodes: usize,
    bytes: usize,
}

struct Anchored {
    node: Node,
    cost: NodeCost,
}

/// A list or mapping that is still open.
struct OpenCollection {
    at: Position,
    anchor: usize,
    spent_before: NodeCost,
    inside: CollectionKind,
}

enum CollectionKind {
    List(Vec<Node>),
    Map { entries: Vec<MapEntry>, merged: Vec<Node>, key: PendingKey },
}

/// The key whose value is expected next.
enum PendingKey {
    None,
    Name(String, Position),
    /// The merge key `<<`.
    Merge,
}

impl<'l> TreeBuilder<'l> {
    pub(super) fn new(limits: &'l DefinitionLimits) -> Self {
        Self {
            limits,
            documents: Vec::new(),
            open: Vec::new(),
            anchors: HashMap::new(),
            spent: NodeCost::default(),
        }
    }

    /// The documents that were read completely.
    pub(super) fn into_documents(self) -> Vec<Node> {
        self.documents
    }

    /// Handles the next event.
    pub(super) fn take(
        &mut self,
        event: Event<'_>,
        at: Position,
        report: &mut FaultReport<'_>,
    ) -> Result<(), FatalError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let before = self.spent;
                self.spend(NodeCost { nodes: 1, bytes: text.len() }, at)?;
                if matches!(style, ScalarStyle::Plain) && text == "<<" && self.at_key() {
                    self.set_key(PendingKey::Merge);
                    return Ok(());
                }
                let data = read_scalar(&text, style, tag.as_deref()).unwrap_or_else(|message| {
                    report.add(at, message);
                    NodeValue::Text(text.into_owned())
                });
                self.close(Node { data, at }, anchor, before, report)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.push(at, anchor, CollectionKind::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, _) => {
                let inside = CollectionKind::Map {
                    entries: Vec::new(),
                    merged: Vec::new(),
                    key: PendingKey::None,
                };
                self.push(at, anchor, inside)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.open.pop() else { return Ok(()) };
                let data = match frame.inside {
                    CollectionKind::List(items) => NodeValue::List(items),
                    CollectionKind::Map { entries, merged, .. } => {
                        NodeValue::Map(finish_map(entries, merged, report))
                    }
                };
                let node = Node { data, at: frame.at };
                self.close(node, frame.anchor, frame.spent_before, report)
            }
            Event::Alias(id) => {
                let Some(Anchored { node, cost }) = self.anchors.get(&id) else {
                    return Err(FatalError {
                        at,
                        message: "an alias inside its own anchor".into(),
                    });
                };
                let (data, cost) = (node.data.clone(), *cost);
                self.spend(cost, at)?;
                self.place(Node { data, at }, report);
                Ok(())
            }
            Event::DocumentEnd => {
                self.anchors.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Opens a list or mapping.
    fn push(
        &mut self,
        at: Position,
        anchor: usize,
        inside: CollectionKind,
    ) -> Result<(), FatalError> {
        if self.open.len() >= self.limits.depth {
            let message = format!("nested more than {} levels deep", self.limits.depth);
            return Err(FatalError { at, message });
        }
        let spent_before = self.spent;
        self.spend(NodeCost { nodes: 1, bytes: 0 }, at)?;
        self.open.push(OpenCollection { at, anchor, spent_before, inside });
        Ok(())
    }

    /// Completes a value, and keeps a copy if it has an anchor.
    fn close(
        &mut self,
        node: Node,
        anchor: usize,
        before: NodeCost,
        report: &mut FaultReport<'_>,
    ) -> Result<(), FatalError> {
        if anchor != 0 {
            let cost = NodeCost {
                nodes: self.spent.nodes - before.nodes,
                bytes: self.spent.bytes - before.bytes,
            };
            self.spend(cost, node.at)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), cost });
        }
        self.place(node, report);
        Ok(())
    }

    fn spend(&mut self, cost: NodeCost, at: Position) -> Result<(), FatalError> {
        self.spent.nodes = self.spent.nodes.saturating_add(cost.nodes);
        self.spent.bytes = self.spent.bytes.saturating_add(cost.bytes);
        let DefinitionLimits { nodes, file_bytes, .. } = *self.limits;
        let too_much = if self.spent.nodes > nodes {
            format!("more than {nodes} values, aliases expanded")
        } else if self.spent.bytes > file_bytes.saturating_mul(2) {
            format!("more than {} bytes of text, aliases expanded", file_bytes * 2)
        } else {
            return Ok(());
        };
        Err(FatalError { at, message: too_much })
    }

    fn at_key(&self) -> bool {
        matches!(
            self.open.last(),
            Some(OpenCollection { inside: CollectionKind::Map { key: PendingKey::None, .. }, .. })
        )
    }

    fn set_key(&mut self, new: PendingKey) {
        if let Some(OpenCollection { inside: CollectionKind::Map { key, .. }, .. }) =
            self.open.last_mut()
        {
            *key = new;
        }
    }

    /// Inserts a completed value: as an item, a key, the value of the current
    /// key, or a document.
    fn place(&mut self, node: Node, report: &mut FaultReport<'_>) {
        let Some(frame) = self.open.last_mut() else {
            if !matches!(node.data, NodeValue::Null) {
                self.documents.push(node);
            }
            return;
        };
        match &mut frame.inside {
            CollectionKind::List(items) => items.push(node),
            CollectionKind::Map { entries, merged, key } => {
                match std::mem::replace(key, PendingKey::None) {
                    PendingKey::None => *key = read_key(node, report),
                    PendingKey::Name(name, at) => {
                        entries.push(MapEntry { key: name, at, value: node });
                    }
                    PendingKey::Merge => merged.push(node),
                }
            }
        }
    }
}

fn read_scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<NodeValue, String> {
    match tag.map(|tag| tag.core_suffix()) {
        Some(None) => Err("tags such as `!name` have no meaning here".to_owned()),
        Some(Some("str")) => Ok(NodeValue::Text(text.to_owned())),
        Some(Some(_)) => scalar::resolve(text),
        None if matches!(style, ScalarStyle::Plain) => scalar::resolve(text),
        None => Ok(NodeValue::Text(text.to_owned())),
    }
}

fn read_key(node: Node, report: &mut FaultReport<'_>) -> PendingKey {
    let (name, hint) = match node.data {
        NodeValue::Text(name) => return PendingKey::Name(name, node.at),
        NodeValue::Number(_, written) => (written.into_string(), true),
        NodeValue::Bool(flag) => (flag.to_string(), true),
        NodeValue::Null => ("null".to_owned(), true),
        NodeValue::List(_) | NodeValue::Map(_) => (String::new(), false),
    };
    if hint {
        let hint = format!("write \"{name}\"");
        report.hinted(node.at, format!("the key `{name}` is not a text"), hint);
    } else {
        report.add(node.at, "a list or mapping cannot be a key");
    }
    PendingKey::Name(name, node.at)
}

/// Applies `<<` merges, where the mapping's own keys take precedence, and
/// reports duplicate keys.
fn finish_map(
    mut entries: Vec<MapEntry>,
    merged: Vec<Node>,
    report: &mut FaultReport<'_>,
) -> Vec<MapEntry> {
    let mut order: Vec<&MapEntry> = entries.iter().collect();
    order.sort_by(|a, b| a.key.cmp(&b.key));
    let mut twice: Vec<(Position, String)> = Vec::new();
    for pair in order.windows(2) {
        if pair[0].key == pair[1].key {
            let first = pair[0].at.line;
            let message = format!("duplicate key `{}`, first in line {first}", pair[1].key);
            twice.push((pair[1].at, message));
        }
    }
    twice.into_iter().for_each(|(at, message)| report.add(at, message));
    if merged.is_empty() {
        return entries;
    }
    let mut known: HashSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    for node in merged {
        let maps = match node.data {
            NodeValue::List(items) => items,
            data => vec![Node { data, at: node.at }],
        };
        for map in maps {
            let NodeValue::Map(added) = map.data else {
                report.add(map.at, "`<<` takes a mapping, or a list of mappings");
                continue;
            };
            entries.extend(added.into_iter().filter(|entry| known.insert(entry.key.clone())));
        }
    }
    entries
}
