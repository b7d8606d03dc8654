//! Variable pool: what the nodes of a graph left for each other.
//!
//! A selector is `[node, name, key…]`. The nodes `sys`, `env` and `conversation` are
//! reserved. Secrets of the environment are not in the pool; only their names are, so
//! that a template that asks for one can be told from one that misspells a variable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;

use crate::value::{Segment, Value};

/// The reserved first parts of selectors.
pub const RESERVED: [&str; 4] = ["sys", "env", "conversation", "rag"];

/// The variables of a run or of a frame. Copies share what they did not change.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    nodes: BTreeMap<String, Arc<IndexMap<String, Segment>>>,
    secrets: Arc<BTreeSet<String>>,
}

impl Pool {
    /// An empty pool that knows the names of the environment's secrets.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        Self { nodes: BTreeMap::new(), secrets: Arc::new(secrets.into_iter().collect()) }
    }

    /// Sets a variable.
    pub fn set(&mut self, node: &str, name: &str, segment: impl Into<Segment>) {
        let variables = match self.nodes.get_mut(node) {
            Some(variables) => variables,
            None => self.nodes.entry(node.to_owned()).or_default(),
        };
        Arc::make_mut(variables).insert(name.to_owned(), segment.into());
    }

    /// The variable itself, without a look into it.
    pub fn variable(&self, node: &str, name: &str) -> Option<&Segment> {
        self.nodes.get(node)?.get(name)
    }

    /// What a selector finds.
    pub fn get<S: AsRef<str>>(&self, selector: &[S]) -> Option<Segment> {
        let (node, rest) = selector.split_first()?;
        let (name, keys) = rest.split_first()?;
        let variable = self.variable(node.as_ref(), name.as_ref())?;
        let Some(first) = keys.first() else { return Some(variable.clone()) };
        if let Value::File(file) = &variable.value {
            return file.attribute(first.as_ref()).map(|json| Value::from_json(json).into());
        }
        let mut value = &variable.value;
        for key in keys {
            value = value.as_object()?.get(key.as_ref())?;
        }
        Some(Segment::of(value.clone()))
    }

    /// Whether a selector asks for a secret of the environment.
    pub fn is_secret<S: AsRef<str>>(&self, selector: &[S]) -> bool {
        matches!(selector, [node, name, ..]
            if node.as_ref() == "env" && self.secrets.contains(name.as_ref()))
    }

    /// The names of the environment's secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(String::as_str)
    }

    /// All variables of a node, in the order in which they were set.
    pub fn of_node(&self, node: &str) -> impl Iterator<Item = (&str, &Segment)> {
        let variables = self.nodes.get(node).into_iter().flat_map(|variables| variables.iter());
        variables.map(|(name, segment)| (name.as_str(), segment))
    }

    /// All variables but those of a node, as `(node, name, segment)`.
    pub fn of_others<'p>(
        &'p self,
        node: &'p str,
    ) -> impl Iterator<Item = (&'p str, &'p str, &'p Segment)> {
        let others = self.nodes.iter().filter(move |(id, _)| *id != node);
        others.flat_map(|(id, variables)| {
            variables.iter().map(|(name, segment)| (id.as_str(), name.as_str(), segment))
        })
    }

    /// Forgets all variables of a node.
    pub fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// Takes over the variables of one node from another pool.
    pub fn take_over(&mut self, other: &Self, node: &str) {
        if let Some(variables) = other.nodes.get(node) {
            self.nodes.insert(node.to_owned(), Arc::clone(variables));
        }
    }
}
