//! What an expression reads.

use std::ops::Range;

use crate::syntax::{Id, Kind, Literal, Node};

/// A name that an expression reads, and how far its path is known before evaluation.
///
/// Variables of macros are no references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'e> {
    /// The name.
    pub root: &'e str,
    /// Whether the name may be absent: `name?.field`, `has(name)`, `default(name, 1)`.
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
    let mut found: Vec<Reference<'_>> = Vec::new();
    for (id, node) in nodes.iter().enumerate() {
        let Kind::Name { name, optional } = &node.kind else { continue };
        let mut reference = Reference {
            root: name,
            optional: *optional,
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

fn access(nodes: &[Node], key: Id) -> Option<Access<'_>> {
    match &nodes.get(key as usize)?.kind {
        Kind::Literal(Literal::Text(text)) => Some(Access::Key(text)),
        Kind::Literal(Literal::Int(number)) => Some(Access::Index(*number)),
        Kind::Literal(Literal::Uint(number)) => i64::try_from(*number).ok().map(Access::Index),
        _ => None,
    }
}
