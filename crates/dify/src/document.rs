//! Reads Dify's DSL files: 0.1.0 to 0.7.0, and older ones without a version.
//!
//! What Dify would refuse is a fault, with its line and column and what to write instead.
//! What it would take, but not do as its author may think, is a note. Old forms are read
//! as what they became: nothing after this module knows them.

mod fields;
mod nodes;
mod report;
mod scalar;
mod tree;

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use self::fields::Fields;
pub use self::report::Fault;
use self::report::{Report, nearest};
pub use self::tree::Position;
use self::tree::{Tree, read};
use crate::graph::{Edge, Graph};
use crate::node::{Node, NodeKind};
use crate::value::{Kind, Segment, Value};

/// The newest version that is known.
pub const NEWEST_VERSION: (u64, u64, u64) = (0, 7, 0);
/// The most nodes of a graph.
pub const MAX_NODES: usize = 2_000;
/// The most edges of a graph.
pub const MAX_EDGES: usize = 20_000;

/// A workflow file of Dify.
#[derive(Clone, Debug)]
pub struct Document {
    /// The version of the DSL, if the file has one.
    pub version: Option<String>,
    /// The name of the app.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What sort of app it is.
    pub mode: Mode,
    /// The plugins that it wants, by their unique names.
    pub dependencies: Vec<String>,
    /// The variables of the environment, without the values of secrets.
    pub environment: Vec<Variable>,
    /// The variables of a conversation, with the values that they start with.
    pub conversation: Vec<Variable>,
    /// Its nodes and edges.
    pub graph: Graph,
    /// What is worth knowing about the file.
    pub notes: Vec<Fault>,
}

/// What sort of app a file is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Runs once, and gives outputs.
    Workflow,
    /// Answers in a conversation.
    Chat,
}

/// A variable of the environment or of a conversation.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its value; `None` for a secret, which has to be supplied.
    pub value: Option<Segment>,
}

impl Document {
    /// Reads a file; `name` is what faults call it.
    pub fn read(name: &str, text: &str) -> Result<Self, Vec<Fault>> {
        let mut report = Report::new(name);
        let document = read(text, &mut report).and_then(|tree| document(&tree, &mut report));
        match document {
            Some(mut document) if report.faults.is_empty() => {
                document.notes = report.notes;
                Ok(document)
            }
            _ => {
                report.faults.sort_by_key(|fault| fault.at);
                Err(report.faults)
            }
        }
    }

    /// Whether a text looks like a file of Dify, so that a loader knows whom to ask.
    pub fn is_likely(text: &str) -> bool {
        let has = |key: &str| {
            text.lines().any(|line| {
                line.starts_with(key) || line.trim_start().starts_with(&format!("\"{key}"))
            })
        };
        let keys = has("app") && has("workflow");
        keys && (text.contains("graph:") || text.contains("\"graph\""))
    }
}

fn document(tree: &Tree, report: &mut Report<'_>) -> Option<Document> {
    let top = Fields::of(tree, "the file", report)?;
    if let Some(kind) = top.get("kind")
        && kind.scalar().as_deref() != Some("app")
    {
        let kind_text = kind.scalar().unwrap_or_default();
        let hint = match kind_text.as_str() {
            "rag_pipeline" => {
                "RAG pipelines fill datasets and are no workflows; import the app that asks them"
            }
            _ => "write `kind: app`",
        };
        report.fault(kind.at, format!("`kind` is `{kind_text}`, not `app`"), hint);
        return None;
    }
    let version = top.text("version", report);
    if let Some(version) = &version {
        check_version(version, top.get("version").map_or(top.at(), |tree| tree.at), report);
    }
    let app = top.need("app", "write `app: {name: …, mode: workflow}`", report)?;
    let app = Fields::of(app, "app", report)?;
    let mode = mode(app, report);
    let workflow =
        top.need("workflow", "write `workflow: {graph: {nodes: […], edges: […]}}`", report)?;
    let workflow = Fields::of(workflow, "workflow", report)?;
    let graph = workflow.need("graph", "write `graph: {nodes: […], edges: […]}`", report)?;
    let graph = Fields::of(graph, "graph", report)?;
    let environment = variables(workflow, "environment_variables", report);
    let conversation = variables(workflow, "conversation_variables", report);
    let graph = read_graph(graph, mode?, report)?;
    let plugins = top.maps("dependencies", report);
    let dependencies = plugins.iter().filter_map(|dependency| {
        let value = dependency.map("value", report)?;
        let id = value.text("plugin_unique_identifier", report);
        id.or_else(|| value.text("marketplace_plugin_unique_identifier", report))
            .or_else(|| value.text("github_plugin_unique_identifier", report))
    });
    Some(Document {
        version,
        dependencies: dependencies.collect(),
        name: app.text_or_empty("name", report),
        description: app.text_or_empty("description", report),
        mode: mode?,
        environment,
        conversation,
        graph,
        notes: Vec::new(),
    })
}

fn check_version(version: &str, at: Position, report: &mut Report<'_>) {
    let mut parts = version.trim().split('.').map(|part| part.parse::<u64>().ok());
    let mut next = || parts.next().unwrap_or(Some(0));
    match (next(), next(), next()) {
        (Some(major), Some(minor), Some(patch)) => {
            if (major, minor, patch) > NEWEST_VERSION {
                let (major, minor, patch) = NEWEST_VERSION;
                let message = format!("version {version} is newer than {major}.{minor}.{patch}");
                report.note(at, message, "what is new in it is not read");
            }
        }
        _ => {
            let message = format!("`version` is `{version}`");
            report.note(at, message, "it is read as the newest; write a version such as 0.6.0");
        }
    }
}

fn mode(app: Fields<'_>, report: &mut Report<'_>) -> Option<Mode> {
    let tree = app.need("mode", "write `mode: workflow` or `mode: advanced-chat`", report)?;
    match tree.scalar().as_deref() {
        Some("workflow") => Some(Mode::Workflow),
        Some("advanced-chat") => Some(Mode::Chat),
        other => {
            let mode = other.unwrap_or("no text");
            let message = format!("`mode` is `{mode}`, which has no graph");
            report.fault(
                tree.at,
                message,
                "convert the app to a workflow or chatflow in Dify, and export it",
            );
            None
        }
    }
}

fn variables(workflow: Fields<'_>, key: &'static str, report: &mut Report<'_>) -> Vec<Variable> {
    let mut read = Vec::new();
    for fields in workflow.maps(key, report) {
        let name = fields.need_text("name", "write its name", report);
        let written = fields.text("value_type", report).unwrap_or_else(|| "string".to_owned());
        let Some(kind) = Kind::from_name(&written) else {
            let hint = format!("use one of {}", Kind::names().collect::<Vec<_>>().join(", "));
            report.fault(fields.at(), format!("unknown value_type `{written}`"), hint);
            continue;
        };
        let value = match (kind, fields.json("value")) {
            (Kind::Secret, _) => None,
            (kind, value) => Some(declared(kind, Value::from_json(value))),
        };
        let description = fields.text_or_empty("description", report);
        read.push(Variable { name, description, value });
    }
    read
}

/// A value of a declared type: what was written if it fits, else the type's zero.
fn declared(kind: Kind, value: Value) -> Segment {
    let value = match &value {
        Value::Text(text) if kind != Kind::String => {
            let parsed = serde_json::from_str::<Json>(text).ok().map(Value::from_json);
            parsed.filter(|parsed| kind.fits(parsed)).unwrap_or(value)
        }
        _ => value,
    };
    Segment::typed(kind, value).unwrap_or_else(|_| {
        let value = kind.zero().unwrap_or_default();
        let kind = if matches!(kind, Kind::Number) { Kind::Integer } else { kind };
        Segment { kind, value }
    })
}

fn read_graph(fields: Fields<'_>, mode: Mode, report: &mut Report<'_>) -> Option<Graph> {
    fields.need("nodes", "write a list of nodes", report)?;
    let trees = fields.list("nodes", report);
    if trees.len() > MAX_NODES {
        report.fault(fields.at(), format!("more than {MAX_NODES} nodes"), "split the workflow");
        return None;
    }
    let (mut nodes, mut canvas_only) = (Vec::<Node>::new(), HashSet::new());
    let mut places: HashMap<String, usize> = HashMap::new();
    for tree in trees {
        let Some(outer) = Fields::of(tree, "a node", report) else { continue };
        if outer.text("type", report).as_deref() == Some("custom-note") {
            canvas_only.extend(outer.text("id", report));
            continue;
        }
        let Some(node) = nodes::read(outer, report) else { continue };
        match places.get(&node.id) {
            Some(place) => {
                let first = nodes[*place].at.line;
                let message = format!("the id `{}` is taken, in line {first}", node.id);
                report.note(node.at, message, "the last node of an id is the one that runs");
                // Others name a container as their parent.
                if !nodes[*place].kind.is_container() {
                    nodes[*place] = node;
                }
            }
            None => {
                places.insert(node.id.clone(), nodes.len());
                nodes.push(node);
            }
        }
    }
    let edges = read_edges(fields, &nodes, &places, &canvas_only, report)?;
    if !report.faults.is_empty() {
        return None;
    }
    check_parents(&mut nodes, &places, report);
    check_response(&nodes, mode, fields.at(), report);
    check_handles(&nodes, &edges, report);
    match Graph::new(nodes, edges) {
        Ok(graph) => Some(graph),
        Err(wrong) => {
            report.fault(wrong.at, wrong.message, wrong.hint);
            None
        }
    }
}

/// Groups of the canvas are no containers.
fn check_parents(nodes: &mut [Node], places: &HashMap<String, usize>, report: &mut Report<'_>) {
    for at in 0..nodes.len() {
        let Some(parent) = nodes[at].parent.clone() else { continue };
        let holds = places.get(&parent).is_some_and(|place| nodes[*place].kind.is_container());
        if !holds {
            let message =
                format!("node `{}` is in `{parent}`, which is no iteration or loop", nodes[at].id);
            report.note(nodes[at].at, message, "it is read as a node of the outermost level");
            nodes[at].parent = None;
        }
    }
}

/// A run that can end nowhere has no result.
fn check_response(nodes: &[Node], mode: Mode, at: Position, report: &mut Report<'_>) {
    if !nodes.iter().any(|node| node.kind.is_response()) {
        let wanted = match mode {
            Mode::Workflow => "end",
            Mode::Chat => "answer",
        };
        let message = format!("the graph has no `{wanted}` node, so that it has no result");
        match nodes.len() {
            0 | 1 => report.fault(at, message, format!("add a node of type `{wanted}`")),
            _ => report.note(at, message, format!("add a node of type `{wanted}`")),
        }
    }
}

/// A branch that leads nowhere ends the run where it is taken.
fn check_handles(nodes: &[Node], edges: &[Edge], report: &mut Report<'_>) {
    let used: HashSet<(usize, &str)> =
        edges.iter().map(|edge| (edge.source, edge.handle.as_str())).collect();
    for (place, node) in nodes.iter().enumerate() {
        let handles: Vec<&str> = match &node.kind {
            NodeKind::Classifier(settings) => {
                settings.classes.iter().map(|c| c.id.as_str()).collect()
            }
            NodeKind::Human(settings) => settings.actions.iter().map(|a| a.id.as_str()).collect(),
            _ => continue,
        };
        for handle in handles.into_iter().filter(|handle| !used.contains(&(place, handle))) {
            let message = format!("nothing follows `{handle}` of node `{}`", node.id);
            report.note(node.at, message, format!("draw an edge with `sourceHandle: {handle}`"));
        }
    }
}

fn read_edges(
    fields: Fields<'_>,
    nodes: &[Node],
    places: &HashMap<String, usize>,
    canvas_only: &HashSet<String>,
    report: &mut Report<'_>,
) -> Option<Vec<Edge>> {
    let trees = fields.list("edges", report);
    if trees.len() > MAX_EDGES {
        report.fault(fields.at(), format!("more than {MAX_EDGES} edges"), "split the workflow");
        return None;
    }
    let mut edges = Vec::new();
    for tree in trees {
        let Some(edge) = Fields::of(tree, "an edge", report) else { continue };
        let ends = ["source", "target"].map(|key| {
            let id = edge.need_text(key, "write the id of a node", report);
            if id.is_empty() || canvas_only.contains(&id) {
                return None;
            }
            let place = places.get(&id).copied();
            if place.is_none() {
                let hint = match nearest(&id, nodes.iter().map(|node| node.id.as_str())) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "write the id of a node, or delete the edge".to_owned(),
                };
                let at = edge.get(key).map_or(edge.at(), |tree| tree.at);
                let message = format!("no node has the id `{id}`");
                // An edge from nowhere is never taken; one to nowhere would end the run.
                match key {
                    "source" => report.note(at, message, hint),
                    _ => report.fault(at, message, hint),
                }
            }
            place
        });
        if let [Some(source), Some(target)] = ends {
            if source == target {
                let message = format!("an edge from node `{}` to itself", nodes[source].id);
                report.note(edge.at(), message, "it is never taken; use a loop node");
                continue;
            }
            let handle = edge.text("sourceHandle", report).unwrap_or_else(|| "source".to_owned());
            edges.push(Edge { source, target, handle, at: edge.at() });
        }
    }
    Some(edges)
}

/// The types of nodes, as files name them.
fn node_type(name: &str) -> bool {
    nodes::TYPES.contains(&name)
}

/// Whether a node of this kind may be where a run starts.
pub(crate) fn is_root(kind: &NodeKind) -> bool {
    matches!(kind, NodeKind::Start(_) | NodeKind::Trigger(_))
}
