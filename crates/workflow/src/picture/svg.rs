//! SVG, laid out in rows: a step stands below what it waits for.

use std::fmt::Write;

use super::{States, color, label, needs};
use crate::graph::Graph;
use crate::plan::Plan;

const HEIGHT: i32 = 36;
const GAP: i32 = 28;
const PAD: i32 = 14;
const HEADER: i32 = 26;
/// Width of a character, roughly.
const CHARACTER: i32 = 8;

/// A node or block in its place.
struct Boxed {
    place: String,
    label: String,
    x: i32,
    y: i32,
    width: i32,
    height: i32,
    /// What is within it, relative to it.
    inner: Vec<Layout>,
}

struct Layout {
    boxes: Vec<Boxed>,
    edges: Vec<(usize, usize)>,
    x: i32,
    y: i32,
    width: i32,
    height: i32,
}

/// As SVG.
pub fn svg(plan: &Plan, states: &States) -> String {
    let layout = layout(&plan.graph, "");
    let (width, height) = (layout.width + 2 * PAD, layout.height + 2 * PAD);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <defs><marker id=\"arrow\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"3\" \
         orient=\"auto\"><path d=\"M0,0 L7,3 L0,6\" fill=\"#64748b\"/></marker></defs>\n"
    );
    draw(&layout, PAD, PAD, states, &mut text);
    text.push_str("</svg>\n");
    text
}

fn layout(graph: &Graph, prefix: &str) -> Layout {
    let mut rows: Vec<usize> = Vec::new();
    let mut boxes: Vec<Boxed> = Vec::new();
    let mut edges = Vec::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        let needs = needs(graph, index);
        rows.push(needs.iter().map(|(from, _)| rows[*from] + 1).max().unwrap_or_default());
        edges.extend(needs.iter().map(|(from, _)| (*from, index)));
        let place = format!("{prefix}{}", node.id);
        let label = label(node);
        let letters = i32::try_from(label.chars().count()).unwrap_or(40).min(60);
        let least = letters * CHARACTER + 2 * PAD;
        let (mut x, mut height, mut inner) = (PAD, 0, Vec::new());
        for block in node.step.blocks() {
            let mut within = layout(block, &format!("{place}."));
            (within.x, within.y) = (x, HEADER);
            x += within.width + PAD;
            height = height.max(within.height);
            inner.push(within);
        }
        let (width, height) = match inner.is_empty() {
            true => (least, HEIGHT),
            false => (x.max(least), HEADER + height + PAD),
        };
        boxes.push(Boxed { place, label, x: 0, y: 0, width, height, inner });
    }
    let (mut y, mut widest) = (0, 0);
    for row in 0..=rows.iter().copied().max().unwrap_or_default() {
        let (mut x, mut tallest) = (0, 0);
        let in_row = boxes.iter_mut().zip(&rows).filter(|(_, own)| **own == row);
        for (one, _) in in_row {
            (one.x, one.y) = (x, y);
            x += one.width + GAP;
            tallest = tallest.max(one.height);
        }
        widest = widest.max(x - GAP);
        y += tallest + GAP;
    }
    Layout { boxes, edges, x: 0, y: 0, width: widest, height: y - GAP }
}

fn draw(layout: &Layout, x: i32, y: i32, states: &States, text: &mut String) {
    for (from, to) in &layout.edges {
        let (from, to) = (&layout.boxes[*from], &layout.boxes[*to]);
        let (x1, y1) = (x + from.x + from.width / 2, y + from.y + from.height);
        let (x2, y2) = (x + to.x + to.width / 2, y + to.y);
        let _ = writeln!(
            text,
            "<path d=\"M{x1},{y1} C{x1},{} {x2},{} {x2},{y2}\" fill=\"none\" stroke=\"#64748b\" \
             marker-end=\"url(#arrow)\"/>",
            y1 + GAP / 2,
            y2 - GAP / 2
        );
    }
    for one in &layout.boxes {
        let (x, y) = (x + one.x, y + one.y);
        let fill = states.get(&one.place).map_or("#ffffff", color);
        let Boxed { place, width, height, .. } = one;
        let _ = writeln!(
            text,
            "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
             rx=\"6\" fill=\"{fill}\" stroke=\"#334155\"/><text x=\"{}\" y=\"{}\">{}</text></g>",
            escaped(place),
            x + PAD,
            y + HEADER - 4,
            escaped(&one.label)
        );
        for inner in &one.inner {
            draw(inner, x + inner.x, y + inner.y, states, text);
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
