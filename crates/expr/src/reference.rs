//! What an expression reads.

use std::ops::{Range, RangeInclusive};

use crate::syntax::{Id, Kind, Literal, Node};

/// A name that an expression reads, and how far its path is known before evaluation.
///
/// Variables of macros are no references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'e> {
    /// The name.
    pub root: &'e str,
    /// Whether the name may be absent: `name?.field`, `has(name)`, `default(name, 1)`. Also
    /// where it was asked for before: `has(name) ? name.field : 1`.
    pub optional: bool,
    /// The fields and elements on the way, up to the first that is computed.
    pub path: Vec<Segment<'e>>,
    /// The bytes of the name and its path.
    pub at: Range<usize>,
}

/// One access of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment<'e> {
    /// What is read.
    pub access: Access<'e>,
    /// Whether it may be absent: `a.?b`, `a[?0]`, `has(a.b)`.
    pub optional: bool,
}

/// What a segment of a path reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access<'e> {
    /// A field of a map.
    Key(&'e str),
    /// An element of a list.
    Index(i64),
}

/// All references of a tree, in the order of the text.
pub(crate) fn references(nodes: &[Node]) -> Vec<Reference<'_>> {
    // The node that continues the path of another.
    let mut next: Vec<Option<Id>> = vec![None; nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        let of = match &node.kind {
            Kind::Select { of, .. } => *of,
            Kind::Index { of, key, .. } if access(nodes, *key).is_some() => *of,
            _ => continue,
        };
        if let Some(next) = next.get_mut(of as usize) {
            *next = Some(id as Id);
        }
    }
    let guards = guards(nodes);
    let mut found: Vec<Reference<'_>> = Vec::new();
    for (id, node) in nodes.iter().enumerate() {
        let Kind::Name { name, optional } = &node.kind else { continue };
        let mut reference = Reference {
            root: name,
            optional: *optional || guards.iter().any(|guard| guard.covers(name, id)),
            path: Vec::new(),
            at: node.at.start as usize..node.at.end as usize,
        };
        let mut follow = next.get(id).copied().flatten();
        while let Some(id) = follow {
            let Some(node) = nodes.get(id as usize) else { break };
            let (access, optional) = match &node.kind {
                Kind::Select { key, optional, .. } => (Some(Access::Key(key)), *optional),
                Kind::Index { key, optional, .. } => (access(nodes, *key), *optional),
                _ => break,
            };
            let Some(access) = access else { break };
            reference.path.push(Segment { access, optional });
            reference.at.end = node.at.end as usize;
            follow = next.get(id as usize).copied().flatten();
        }
        found.push(reference);
    }
    found.sort_by_key(|reference| reference.at.start);
    found
}

/// Nodes that are evaluated only if a name is there.
struct Guard<'e> {
    name: &'e str,
    /// The nodes of a tree follow one another, its root is the last.
    nodes: RangeInclusive<usize>,
}

impl Guard<'_> {
    fn covers(&self, name: &str, id: usize) -> bool {
        self.name == name && self.nodes.contains(&id)
    }
}

fn guards<'e>(nodes: &'e [Node]) -> Vec<Guard<'e>> {
    let mut found = Vec::new();
    let mut add = |names: Vec<&'e str>, from: Id, to: Id| {
        let nodes = from as usize + 1..=to as usize;
        found.extend(names.into_iter().map(|name| Guard { name, nodes: nodes.clone() }));
    };
    for node in nodes {
        match &node.kind {
            Kind::Conditional(condition, yes, no) => {
                add(present(nodes, *condition, true), *condition, *yes);
                add(present(nodes, *condition, false), *yes, *no);
            }
            Kind::All(operands) | Kind::Any(operands) => {
                let holds = matches!(node.kind, Kind::All(_));
                let Some(last) = operands.last() else { continue };
                for id in operands {
                    add(present(nodes, *id, holds), *id, *last);
                }
            }
            _ => {}
        }
    }
    found
}

/// The names that are there if a condition holds, or does not.
fn present(nodes: &[Node], id: Id, holds: bool) -> Vec<&str> {
    let Some(node) = nodes.get(id as usize) else { return Vec::new() };
    match &node.kind {
        Kind::Has(of) if holds => root(nodes, *of).into_iter().collect(),
        Kind::Call { function, arguments, .. } if holds && function.name == "hasValue" => {
            arguments.first().and_then(|of| root(nodes, *of)).into_iter().collect()
        }
        Kind::Not(of) => present(nodes, *of, !holds),
        Kind::All(operands) if holds => {
            operands.iter().flat_map(|id| present(nodes, *id, true)).collect()
        }
        Kind::Any(operands) if !holds => {
            operands.iter().flat_map(|id| present(nodes, *id, false)).collect()
        }
        _ => Vec::new(),
    }
}

/// The name at which a path begins.
fn root(nodes: &[Node], mut id: Id) -> Option<&str> {
    loop {
        match &nodes.get(id as usize)?.kind {
            Kind::Name { name, .. } => return Some(name),
            Kind::Select { of, .. } | Kind::Index { of, .. } => id = *of,
            _ => return None,
        }
    }
}

fn access(nodes: &[Node], key: Id) -> Option<Access<'_>> {
    match &nodes.get(key as usize)?.kind {
        Kind::Literal(Literal::Text(text)) => Some(Access::Key(text)),
        Kind::Literal(Literal::Int(number)) => Some(Access::Index(*number)),
        Kind::Literal(Literal::Uint(number)) => i64::try_from(*number).ok().map(Access::Index),
        _ => None,
    }
}
