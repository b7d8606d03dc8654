//! [`Graph`]: steps and what they wait for. Every front end compiles to it.

use std::sync::Arc;
use std::time::Duration;

use windlass::Tools;

use crate::step::Step;

/// The steps of a block, and the edges between them.
pub struct Graph {
    nodes: Vec<Arc<Node>>,
    /// By node, those that wait for it.
    dependents: Vec<Vec<usize>>,
    has_undo: bool,
    order: Order,
}

/// Which steps wait for each other besides their edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Those that may change something run one after the other, in the order of
    /// the file.
    Effects,
    /// None.
    Edges,
}

impl Graph {
    /// A graph of these nodes. Edges lead to nodes of the same list.
    pub fn new(nodes: Vec<Node>, order: Order) -> Self {
        let mut dependents = vec![Vec::new(); nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            for edge in &node.needs {
                if !dependents[edge.from].contains(&index) {
                    dependents[edge.from].push(index);
                }
            }
        }
        let has_undo = nodes.iter().any(|node| {
            let inner = || node.blocks().any(Graph::has_undo);
            node.policy.undo.is_some() || inner()
        });
        Self { nodes: nodes.into_iter().map(Arc::new).collect(), dependents, has_undo, order }
    }

    /// The nodes, for another graph.
    pub(crate) fn into_nodes(self) -> impl Iterator<Item = Node> {
        self.nodes.into_iter().filter_map(Arc::into_inner)
    }

    /// The nodes, in the order of the file.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// By node, the one before it that must have ended because both may change
    /// something.
    pub(crate) fn effects(&self, tools: &Tools) -> Vec<Option<usize>> {
        let mut last = None;
        let mut before = vec![None; self.nodes.len()];
        if self.order == Order::Edges || self.nodes.len() < 2 {
            return before;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            if node.step.may_change(tools) {
                before[index] = last.replace(index);
            }
        }
        before
    }

    /// The nodes that wait for a node.
    pub(crate) fn dependents(&self, index: usize) -> &[usize] {
        &self.dependents[index]
    }

    /// Whether a step of it, or of a block within it, has an `undo`.
    pub(crate) fn has_undo(&self) -> bool {
        self.has_undo
    }
}

/// A step in its place.
pub struct Node {
    /// Its name, unique within the graph.
    pub id: Arc<str>,
    /// What it does.
    pub step: Box<dyn Step>,
    /// What it waits for.
    pub needs: Vec<Edge>,
    /// What happens before and after it.
    pub policy: Policy,
    /// Where it stands in the definition: `steps/a/do/b`.
    pub key: Arc<str>,
}

impl Node {
    /// The graphs within it, those of its policy included.
    pub fn blocks(&self) -> impl Iterator<Item = &Graph> {
        let handler = match &self.policy.on_error {
            OnError::Do(handler) => Some(&**handler),
            OnError::Fail | OnError::Skip | OnError::Handle(_) => None,
        };
        self.step.blocks().into_iter().chain(self.policy.undo.as_deref()).chain(handler)
    }
}

/// What a node waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The index of the node that comes first.
    pub from: usize,
    /// How.
    pub kind: EdgeKind,
}

/// How a node waits for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// Until it has ended or was skipped.
    After,
    /// Until it has ended through this handle. Of the edges of this kind at
    /// least one has to be taken; a node none of whose edges is taken is
    /// skipped (dead-path elimination).
    Flow(Arc<str>),
}

impl Edge {
    /// An edge to a node that has to end first.
    pub fn after(from: usize) -> Self {
        Self { from, kind: EdgeKind::After }
    }

    /// An edge through a handle.
    pub fn flow(from: usize, handle: impl Into<Arc<str>>) -> Self {
        Self { from, kind: EdgeKind::Flow(handle.into()) }
    }
}

/// What happens around a step.
#[derive(Default)]
pub struct Policy {
    /// A condition: if it does not hold, the step is skipped.
    pub when: Option<Box<dyn Guard>>,
    /// The timeout of its calls.
    pub timeout: Option<Duration>,
    /// The number of attempts of its calls, in place of the tool's.
    pub attempts: Option<u32>,
    /// What a failure means.
    pub on_error: OnError,
    /// What it means that a call which may have changed something was cut off.
    pub on_interrupted: OnInterrupted,
    /// What makes its effect undone, after the run failed.
    pub undo: Option<Box<Graph>>,
}

/// A condition on the values of a frame.
pub trait Guard: Send + Sync {
    /// Whether it holds.
    fn holds(&self, at: &crate::run::At<'_>) -> Result<bool, windlass::Error>;
}

/// What the failure of a step means.
#[derive(Default)]
pub enum OnError {
    /// The run fails.
    #[default]
    Fail,
    /// The step counts as skipped.
    Skip,
    /// The step has this value instead.
    Handle(Box<dyn Recover>),
    /// These steps run instead; the value is that of the last.
    Do(Box<Graph>),
}

/// What a failed step ends with instead.
pub trait Recover: Send + Sync {
    /// Its end, for this error.
    fn recover(
        &self,
        at: &crate::run::At<'_>,
        error: &windlass::Error,
    ) -> Result<crate::step::Done, windlass::Error>;
}

/// What it means that a call with an effect was cut off, so that nobody knows
/// whether it took place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInterrupted {
    /// The step fails.
    #[default]
    Fail,
    /// The call is repeated.
    Repeat,
    /// A person is asked.
    Ask,
}
