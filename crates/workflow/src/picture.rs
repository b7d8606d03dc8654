//! Pictures of a graph: Mermaid, DOT and SVG, with the state of a run as
//! colours.

mod svg;

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::graph::{EdgeKind, Graph, Node};
use crate::plan::Plan;
use crate::runs::{PlaceStatus, RunView};

pub use svg::svg;

/// The state of steps, by their place without indices: a step of a `map` has the
/// state that matters most of all its items.
pub struct States(HashMap<String, PlaceStatus>);

impl States {
    /// Of no run.
    pub fn none() -> Self {
        Self(HashMap::new())
    }

    /// Of a run.
    pub fn of(view: &RunView) -> Self {
        let mut states: HashMap<String, PlaceStatus> = HashMap::new();
        for place in &view.places {
            let known = states.entry(without_indices(&place.place)).or_insert(place.status);
            if weight(place.status) > weight(*known) {
                *known = place.status;
            }
        }
        Self(states)
    }

    fn get(&self, place: &str) -> Option<PlaceStatus> {
        self.0.get(place).copied()
    }
}

/// Which of several states matters most.
fn weight(status: PlaceStatus) -> u8 {
    match status {
        PlaceStatus::Skipped => 0,
        PlaceStatus::Succeeded => 1,
        PlaceStatus::Handled => 2,
        PlaceStatus::Running => 3,
        PlaceStatus::Waiting => 4,
        PlaceStatus::Failed => 5,
    }
}

/// A place as the definition has it: `pages[3].lookup` is `pages.lookup`.
fn without_indices(place: &str) -> String {
    let mut plain = String::new();
    let mut rest = place;
    while let Some(at) = rest.find(['[', '#']) {
        plain.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        rest = after[end..].strip_prefix(']').unwrap_or(&after[end..]);
    }
    plain + rest
}

fn color(status: PlaceStatus) -> &'static str {
    match status {
        PlaceStatus::Running => "#bfdbfe",
        PlaceStatus::Waiting => "#fde68a",
        PlaceStatus::Succeeded => "#bbf7d0",
        PlaceStatus::Handled => "#d9f99d",
        PlaceStatus::Skipped => "#e5e7eb",
        PlaceStatus::Failed => "#fecaca",
    }
}

/// What is written on a node.
fn label(node: &Node) -> String {
    match node.step.tool() {
        Some(tool) => format!("{} · {tool}", node.id),
        None => format!("{} · {}", node.id, node.step.kind()),
    }
}

/// What a node waits for.
fn needs(graph: &Graph, index: usize) -> Vec<(usize, Option<Arc<str>>)> {
    let edges = graph.nodes()[index].needs.iter().map(|edge| {
        let handle = match &edge.kind {
            EdgeKind::After => None,
            EdgeKind::Flow(handle) => Some(Arc::clone(handle)),
        };
        (edge.from, handle)
    });
    let mut needs: Vec<_> = edges.collect();
    needs.sort();
    needs.dedup();
    needs
}

/// As a flow chart of Mermaid.
pub fn mermaid(plan: &Plan, states: &States) -> String {
    let mut text = "flowchart TD\n".to_owned();
    mermaid_of(&plan.graph, "", 1, states, &mut text);
    text
}

fn mermaid_of(graph: &Graph, prefix: &str, depth: usize, states: &States, text: &mut String) {
    let indent = "  ".repeat(depth);
    let id = |node: &Node| format!("{prefix}{}", node.id).replace(['.', '!'], "_");
    for (index, node) in graph.nodes().iter().enumerate() {
        let own = id(node);
        let shown = label(node).replace('"', "'");
        let blocks: Vec<&Graph> = node.step.blocks();
        if blocks.is_empty() {
            let _ = writeln!(text, "{indent}{own}[\"{shown}\"]");
        } else {
            let _ = writeln!(text, "{indent}subgraph {own}[\"{shown}\"]");
            for block in blocks {
                let prefix = format!("{prefix}{}.", node.id);
                mermaid_of(block, &prefix, depth + 1, states, text);
            }
            let _ = writeln!(text, "{indent}end");
        }
        for (from, handle) in needs(graph, index) {
            let from = id(&graph.nodes()[from]);
            let _ = match handle {
                Some(handle) => writeln!(text, "{indent}{from} -- \"{handle}\" --> {own}"),
                None => writeln!(text, "{indent}{from} --> {own}"),
            };
        }
        if let Some(status) = states.get(&format!("{prefix}{}", node.id)) {
            let _ = writeln!(text, "{indent}style {own} fill:{}", color(status));
        }
    }
}

/// In the language of Graphviz.
pub fn dot(plan: &Plan, states: &States) -> String {
    let mut text = format!("digraph \"{}\" {{\n  compound=true;\n", plan.name);
    text.push_str("  node [shape=box, style=\"rounded,filled\", fillcolor=white];\n");
    dot_of(&plan.graph, "", 1, states, &mut text);
    text.push_str("}\n");
    text
}

fn dot_of(graph: &Graph, prefix: &str, depth: usize, states: &States, text: &mut String) {
    let indent = "  ".repeat(depth);
    for (index, node) in graph.nodes().iter().enumerate() {
        let place = format!("{prefix}{}", node.id);
        let fill = states.get(&place).map_or("white", color);
        let blocks: Vec<&Graph> = node.step.blocks();
        let shown = label(node);
        if blocks.is_empty() {
            let _ =
                writeln!(text, "{indent}\"{place}\" [label=\"{shown}\", fillcolor=\"{fill}\"];");
        } else {
            let _ = writeln!(text, "{indent}subgraph \"cluster_{place}\" {{");
            let _ =
                writeln!(text, "{indent}  label=\"{shown}\"; style=filled; fillcolor=\"{fill}\";");
            let _ = writeln!(text, "{indent}  \"{place}\" [shape=point, label=\"\"];");
            for block in blocks {
                dot_of(block, &format!("{place}."), depth + 1, states, text);
            }
            let _ = writeln!(text, "{indent}}}");
        }
        for (from, handle) in needs(graph, index) {
            let from = format!("{prefix}{}", graph.nodes()[from].id);
            let handle = handle.map(|handle| format!(" [label=\"{handle}\"]")).unwrap_or_default();
            let _ = writeln!(text, "{indent}\"{from}\" -> \"{place}\"{handle};");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lose_their_indices() {
        assert_eq!(without_indices("pages[3].lookup"), "pages.lookup");
        assert_eq!(without_indices("poll#12.get"), "poll.get");
        assert_eq!(without_indices("plain"), "plain");
    }
}
