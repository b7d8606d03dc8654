//! The nodes of a file as a graph of steps, for pictures, checks and behaviour. They are
//! not run from here.

use std::sync::Arc;

use windlass::{BoxFuture, Error, ErrorKind, Tools};
use windlass_dify::node::{self, NodeKind, OnError};

use super::Dify;
use crate::graph::{Edge, Graph, Node, Order, Policy};
use crate::run::At;
use crate::step::{Done, Halt, Step};

/// The outermost nodes.
pub(super) fn graph(dify: &Dify) -> Graph {
    inside(dify, None)
}

fn inside(dify: &Dify, container: Option<&str>) -> Graph {
    let graph = &dify.document.graph;
    let places: Vec<usize> = (0..graph.nodes().len())
        .filter(|place| graph.node(*place).parent.as_deref() == container)
        .collect();
    let own = |place: usize| places.iter().position(|own| *own == place);
    let nodes = places.iter().map(|place| {
        let node = graph.node(*place);
        let edges = graph.edges().iter().filter(|edge| edge.target == *place);
        let needs = edges.filter_map(|edge| {
            let source = graph.node(edge.source);
            let named = source.kind.is_branch() || matches!(source.on_error, OnError::Branch);
            let handle = if named { edge.handle.as_str() } else { "" };
            Some(Edge::flow(own(edge.source)?, handle))
        });
        Node {
            id: node.id.as_str().into(),
            needs: needs.collect(),
            policy: Policy::default(),
            key: format!("dify/source:{}", node.at.line).into(),
            step: Box::new(Shape::of(dify, node)),
        }
    });
    Graph::new(nodes.collect(), Order::Edges)
}

/// Whether a node may change something, with the tools that there are now.
pub(super) fn may_change(dify: &Dify, node: &node::Node, tools: &Tools) -> bool {
    let (may_change, called) = effect(dify, node);
    may_change || called.is_some_and(|tool| changes(tools, &tool))
}

/// Whether a node may change something by itself, and the tool that decides otherwise.
fn effect(dify: &Dify, node: &node::Node) -> (bool, Option<Arc<str>>) {
    if let Some(tool) = dify.replacement(node) {
        return (false, Some(tool));
    }
    match &node.kind {
        NodeKind::Http(http) => (!matches!(http.method.as_str(), "GET" | "HEAD" | "OPTIONS"), None),
        NodeKind::Tool(tool) => (false, Some(dify.tool_name(tool).into())),
        NodeKind::Agent(_) | NodeKind::Code(_) => (true, None),
        _ => (false, None),
    }
}

fn changes(tools: &Tools, tool: &str) -> bool {
    tools.find(tool).is_none_or(|tool| !tool.spec().behaviour.read_only)
}

struct Shape {
    kind: &'static str,
    tool: Option<Arc<str>>,
    may_change: bool,
    /// The tool by which it may change something.
    called: Option<Arc<str>>,
    blocks: Vec<Graph>,
}

impl Shape {
    fn of(dify: &Dify, node: &node::Node) -> Self {
        let (may_change, called) = effect(dify, node);
        let tool = match &node.kind {
            NodeKind::Http(_) if called.is_none() => Some(super::reach::HTTP.into()),
            _ => called.clone(),
        };
        let blocks = match node.kind.is_container() {
            true => vec![inside(dify, Some(&node.id))],
            false => Vec::new(),
        };
        Self { kind: node.kind.name(), tool, may_change, called, blocks }
    }
}

impl Step for Shape {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }

    fn blocks(&self) -> Vec<&Graph> {
        self.blocks.iter().collect()
    }

    fn may_change(&self, tools: &Tools) -> bool {
        let called =
            self.may_change || self.called.as_deref().is_some_and(|tool| changes(tools, tool));
        let inner = || self.blocks.iter().flat_map(Graph::nodes);
        called || inner().any(|node| node.step.may_change(tools))
    }

    fn run<'a>(&'a self, _: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        let why = "a node of Dify's is run by the machine of its file";
        Box::pin(async move { Err(Error::new(ErrorKind::Internal, why).into()) })
    }
}
