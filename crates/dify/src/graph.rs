//! Nodes, edges, and which of them a run has taken.
//!
//! A node is ready when no edge into it is undecided and at least one was taken. Edges
//! that are not taken are skipped, and so are nodes all of whose edges are (dead-path
//! elimination): a join waits for the live branches and for no others.

use std::collections::HashMap;

use crate::document::{Position, is_root};
use crate::node::{Node, NodeKind, OnError};
use crate::step::Outcome;

/// The handle of failures.
pub const FAIL_BRANCH: &str = "fail-branch";

/// A place in [`Graph::nodes`].
pub type Place = usize;

/// An edge.
#[derive(Clone, Debug)]
pub struct Edge {
    /// From which node.
    pub source: Place,
    /// To which node.
    pub target: Place,
    /// At which handle of the source it starts.
    pub handle: String,
    /// Where it is in the file.
    pub at: Position,
}

/// The nodes of a workflow, those in iterations and loops included, and its edges.
#[derive(Clone, Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    by_id: HashMap<String, Place>,
    into: Vec<Vec<usize>>,
    out_of: Vec<Vec<usize>>,
}

/// Why nodes and edges make no graph.
#[derive(Clone, Debug)]
pub struct GraphError {
    /// Where in the file.
    pub at: Position,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl Graph {
    /// Puts nodes and edges together. The ids are different.
    pub fn new(mut nodes: Vec<Node>, edges: Vec<Edge>) -> Result<Self, GraphError> {
        let by_id: HashMap<String, Place> =
            nodes.iter().enumerate().map(|(place, node)| (node.id.clone(), place)).collect();
        let (mut into, mut out_of) = (vec![Vec::new(); nodes.len()], vec![Vec::new(); nodes.len()]);
        for (number, edge) in edges.iter().enumerate() {
            out_of[edge.source].push(number);
            into[edge.target].push(number);
        }
        find_first_nodes(&mut nodes, &by_id)?;
        let graph = Self { nodes, edges, by_id, into, out_of };
        graph.check_parents()?;
        graph.check_cycles()?;
        Ok(graph)
    }

    /// The nodes, in the order of the file.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The edges, in the order of the file.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The node at a place.
    pub fn node(&self, place: Place) -> &Node {
        &self.nodes[place]
    }

    /// The place of an id.
    pub fn place(&self, id: &str) -> Option<Place> {
        self.by_id.get(id).copied()
    }

    /// The edges out of a node.
    pub fn out_of(&self, place: Place) -> impl Iterator<Item = (usize, &Edge)> {
        self.out_of[place].iter().map(|number| (*number, &self.edges[*number]))
    }

    /// Where a run starts: the start node, or a trigger if there is none.
    pub fn root(&self) -> Option<Place> {
        let start = self.nodes.iter().position(|node| matches!(node.kind, NodeKind::Start(_)));
        start.or_else(|| self.nodes.iter().position(|node| is_root(&node.kind)))
    }

    /// The nodes in an iteration or loop, not those of containers in it.
    pub fn inside<'g>(&'g self, container: &'g str) -> impl Iterator<Item = Place> + 'g {
        let inside = move |node: &Node| node.parent.as_deref() == Some(container);
        (0..self.nodes.len()).filter(move |place| inside(&self.nodes[*place]))
    }

    /// Whether a node leaves at one handle only.
    pub fn chooses(&self, place: Place) -> bool {
        let node = &self.nodes[place];
        node.kind.is_branch() || matches!(node.on_error, OnError::Branch)
    }

    fn check_parents(&self) -> Result<(), GraphError> {
        for node in &self.nodes {
            let Some(parent) = &node.parent else { continue };
            // Containers in containers have an end.
            let (mut at, mut depth) = (Some(parent.as_str()), 0);
            while let Some(id) = at {
                depth += 1;
                at = self.place(id).and_then(|place| self.nodes[place].parent.as_deref());
                if depth > 8 {
                    let message =
                        format!("node `{}` is in more than 8 iterations and loops", node.id);
                    let hint = "flatten them".to_owned();
                    return Err(GraphError { at: node.at, message, hint });
                }
            }
        }
        Ok(())
    }

    /// Removes nodes without edges into them until none is left; what is left is a cycle.
    fn check_cycles(&self) -> Result<(), GraphError> {
        let mut open: Vec<usize> = self.into.iter().map(Vec::len).collect();
        let mut free: Vec<Place> =
            (0..self.nodes.len()).filter(|place| open[*place] == 0).collect();
        let mut seen = 0;
        while let Some(place) = free.pop() {
            seen += 1;
            for (_, edge) in self.out_of(place) {
                open[edge.target] -= 1;
                if open[edge.target] == 0 {
                    free.push(edge.target);
                }
            }
        }
        if seen == self.nodes.len() {
            return Ok(());
        }
        let inside = |edge: &&Edge| open[edge.source] > 0 && open[edge.target] > 0;
        let edge = self.edges.iter().find(inside);
        let (at, source, target) = edge.map_or_else(
            || (Position::default(), "", ""),
            |e| (e.at, self.nodes[e.source].id.as_str(), self.nodes[e.target].id.as_str()),
        );
        let message = format!("the edge from `{source}` to `{target}` closes a cycle");
        Err(GraphError { at, message, hint: "use a loop node".to_owned() })
    }
}

/// Containers whose file does not name their first node have one of type `…-start`.
fn find_first_nodes(nodes: &mut [Node], by_id: &HashMap<String, Place>) -> Result<(), GraphError> {
    for place in 0..nodes.len() {
        let Some(first) = nodes[place].kind.first_inside() else { continue };
        if by_id.contains_key(first) {
            continue;
        }
        let (id, at) = (nodes[place].id.clone(), nodes[place].at);
        let inside = |node: &&Node| node.parent.as_deref() == Some(&id);
        let start =
            nodes.iter().filter(inside).find(|n| matches!(n.kind, NodeKind::ContainerStart));
        let Some(found) = start.map(|node| node.id.clone()) else {
            let message = match first {
                "" => format!("node `{id}` needs `start_node_id`"),
                first => format!("node `{id}` starts at `{first}`, which is no node"),
            };
            let hint = "write the id of its first node".to_owned();
            return Err(GraphError { at, message, hint });
        };
        match &mut nodes[place].kind {
            NodeKind::Iteration(iteration) => iteration.start = found,
            NodeKind::Loop(repeat) => repeat.start = found,
            _ => {}
        }
    }
    Ok(())
}

/// What a run knows of an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EdgeState {
    #[default]
    Undecided,
    Taken,
    Skipped,
}

/// Which edges of a graph a frame has taken.
#[derive(Clone, Debug)]
pub struct Paths {
    edges: Vec<EdgeState>,
    skipped: Vec<bool>,
}

/// What followed from the end of a node.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// Nodes that are ready now.
    pub ready: Vec<Place>,
    /// Nodes that will not run.
    pub skipped: Vec<Place>,
    /// Edges that were taken.
    pub taken: Vec<usize>,
}

/// At which handles a run leaves a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving<'h> {
    /// At all of them.
    All,
    /// At this one.
    At(&'h str),
    /// At all but this one.
    AllBut(&'h str),
}

impl<'h> Leaving<'h> {
    /// Where a run leaves a node that ended like this.
    pub fn of(node: &Node, outcome: &'h Outcome) -> Self {
        let has_branch = matches!(node.on_error, OnError::Branch);
        match (&outcome.failure, node.kind.is_branch()) {
            (Some(_), _) if has_branch => Self::At(FAIL_BRANCH),
            (Some(_), _) => Self::All,
            (None, true) => Self::At(outcome.handle.as_deref().unwrap_or("source")),
            (None, false) if has_branch => Self::AllBut(FAIL_BRANCH),
            (None, false) => Self::All,
        }
    }

    fn takes(self, handle: &str) -> bool {
        match self {
            Self::All => true,
            Self::At(wanted) => handle == wanted,
            Self::AllBut(other) => handle != other,
        }
    }
}

impl Paths {
    /// All edges undecided, but those out of other starts than this one.
    pub fn new(graph: &Graph, first: Place) -> Self {
        let mut paths = Self {
            edges: vec![EdgeState::Undecided; graph.edges.len()],
            skipped: vec![false; graph.nodes.len()],
        };
        if is_root(&graph.nodes[first].kind) {
            let mut followed = Followed::default();
            for (place, node) in graph.nodes.iter().enumerate() {
                if place != first && is_root(&node.kind) {
                    paths.skip_node(graph, place, &mut followed);
                }
            }
        }
        paths
    }

    /// Whether a node will not run.
    pub fn is_skipped(&self, place: Place) -> bool {
        self.skipped[place]
    }

    /// A node has ended.
    pub fn follow(&mut self, graph: &Graph, place: Place, leaving: Leaving<'_>) -> Followed {
        let mut followed = Followed::default();
        let edges: Vec<usize> = graph.out_of[place].clone();
        let (taken, left): (Vec<usize>, Vec<usize>) =
            edges.into_iter().partition(|number| leaving.takes(&graph.edges[*number].handle));
        for number in left {
            self.skip_edge(graph, number, &mut followed);
        }
        for number in taken {
            self.edges[number] = EdgeState::Taken;
            followed.taken.push(number);
            let target = graph.edges[number].target;
            if self.is_ready(graph, target) && !followed.ready.contains(&target) {
                followed.ready.push(target);
            }
        }
        followed
    }

    fn is_ready(&self, graph: &Graph, place: Place) -> bool {
        let states = || graph.into[place].iter().map(|number| self.edges[*number]);
        !states().any(|state| state == EdgeState::Undecided)
            && states().any(|state| state == EdgeState::Taken)
    }

    /// Skips an edge, and all that nothing else leads to.
    fn skip_edge(&mut self, graph: &Graph, number: usize, followed: &mut Followed) {
        let mut edges = vec![number];
        while let Some(number) = edges.pop() {
            self.edges[number] = EdgeState::Skipped;
            let target = graph.edges[number].target;
            let states = || graph.into[target].iter().map(|number| self.edges[*number]);
            if states().any(|state| state == EdgeState::Undecided) {
                continue;
            }
            if states().any(|state| state == EdgeState::Taken) {
                if !followed.ready.contains(&target) {
                    followed.ready.push(target);
                }
                continue;
            }
            if !self.skipped[target] {
                self.skipped[target] = true;
                followed.skipped.push(target);
                edges.extend(graph.out_of[target].iter().rev());
            }
        }
    }

    fn skip_node(&mut self, graph: &Graph, place: Place, followed: &mut Followed) {
        self.skipped[place] = true;
        for number in graph.out_of[place].clone() {
            self.skip_edge(graph, number, followed);
        }
    }
}
