//! A schema as a graph of subschemas.

use std::collections::{HashMap, HashSet};
use std::ptr;

use serde_json::{Map, Value};

use super::reference::{References, is_meta_schema};

/// Keywords that apply one schema to the same value.
const ONE_HERE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords that apply a list of schemas to the same value.
const LIST_HERE: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords that apply named schemas to the same value.
const MAP_HERE: [&str; 2] = ["dependentSchemas", "dependencies"];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The subschemas that are reachable from the root.
pub(super) struct Graph {
    nodes: Vec<GraphNode>,
}

#[derive(Default)]
struct GraphNode {
    here: Vec<Edge>,
    parts: Vec<(ValuePart, usize)>,
    /// Reachable in more than one way.
    shared: bool,
    /// Refers to something outside the schema.
    foreign: bool,
    /// Evaluates what applies here more than once, to find out what is
    /// unevaluated.
    repeats: bool,
}

/// Edge to a subschema that checks the same value.
pub(super) struct Edge {
    pub(super) to: usize,
    /// Whether it closes a cycle.
    pub(super) again: bool,
}

/// The parts of a value that a subschema applies to.
pub(super) enum ValuePart {
    Property(String),
    /// All properties except these.
    Others(HashSet<String>),
    /// The property names.
    Names,
    Item(usize),
    Items {
        from: usize,
    },
}

impl Graph {
    pub(super) const ROOT: usize = 0;

    /// Builds the graph; fails if a reference cannot be resolved.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let references = References::of(schema);
        let mut building =
            GraphBuilder { ids: HashMap::new(), found: Vec::new(), nodes: Vec::new() };
        building.id(schema);
        let mut next = 0;
        while let Some(schema) = building.found.get(next).copied() {
            let node = building.node(schema, &references)?;
            building.nodes.push(node);
            next += 1;
        }
        let mut graph = Self { nodes: building.nodes };
        graph.mark_shared();
        Ok(graph)
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn here(&self, node: usize) -> &[Edge] {
        &self.nodes[node].here
    }

    pub(super) fn parts(&self, node: usize) -> &[(ValuePart, usize)] {
        &self.nodes[node].parts
    }

    pub(super) fn is_shared(&self, node: usize) -> bool {
        self.nodes[node].shared
    }

    pub(super) fn is_foreign(&self, node: usize) -> bool {
        self.nodes[node].foreign
    }

    pub(super) fn leaves_the_schema(&self) -> bool {
        self.nodes.iter().any(|node| node.foreign)
    }

    /// How often a node evaluates what applies to the same value:
    /// `unevaluated…` asks every subschema again whether it matches, and what
    /// it evaluated.
    pub(super) fn passes(&self, node: usize) -> u64 {
        if self.nodes[node].repeats { 3 } else { 1 }
    }

    /// Topological order by edges to the same value; `None` if there is a
    /// cycle.
    pub(super) fn order_here(&self) -> Option<Vec<usize>> {
        let walk = GraphWalk::over(self.len(), |node, nth| Some(self.here(node).get(nth)?.to));
        walk.back.is_empty().then_some(walk.order)
    }

    /// Topological order by all edges; `None` if there is a cycle, and then its
    /// closing edges are marked.
    pub(super) fn order_all(&mut self) -> Option<Vec<usize>> {
        let walk = GraphWalk::over(self.len(), |node, nth| {
            let (here, parts) = (self.here(node), self.parts(node));
            match here.get(nth) {
                Some(edge) => Some(edge.to),
                None => parts.get(nth - here.len()).map(|(_, to)| *to),
            }
        });
        for (node, nth) in &walk.back {
            if let Some(edge) = self.nodes[*node].here.get_mut(*nth) {
                edge.again = true;
            }
        }
        walk.back.is_empty().then_some(walk.order)
    }

    fn mark_shared(&mut self) {
        let mut ways = vec![0_usize; self.len()];
        for node in &self.nodes {
            node.here.iter().for_each(|edge| ways[edge.to] += 1);
            node.parts.iter().for_each(|(_, to)| ways[*to] += 1);
        }
        for (node, ways) in self.nodes.iter_mut().zip(ways) {
            node.shared = ways > 1;
        }
    }
}

/// A graph under construction.
struct GraphBuilder<'a> {
    ids: HashMap<*const Value, usize>,
    found: Vec<&'a Value>,
    nodes: Vec<GraphNode>,
}

impl<'a> GraphBuilder<'a> {
    fn id(&mut self, schema: &'a Value) -> usize {
        *self.ids.entry(ptr::from_ref(schema)).or_insert_with(|| {
            self.found.push(schema);
            self.found.len() - 1
        })
    }

    fn node(
        &mut self,
        schema: &'a Value,
        references: &References<'a>,
    ) -> Result<GraphNode, String> {
        let mut node = GraphNode::default();
        let Value::Object(map) = schema else { return Ok(node) };
        for (keyword, value) in map {
            self.here(keyword, value, &mut node);
            self.parts(keyword, value, map, &mut node);
            if REFERENCES.contains(&keyword.as_str())
                && let Value::String(reference) = value
            {
                let targets = references.resolve(schema, keyword, reference);
                if targets.is_empty() && !is_meta_schema(reference) {
                    let shown: String = reference.chars().take(60).collect();
                    return Err(format!(
                        "the schema is not valid: `{shown}` leads to nothing inside it"
                    ));
                }
                node.foreign |= targets.is_empty();
                for target in targets {
                    node.here.push(Edge { to: self.id(target), again: false });
                }
            }
        }
        node.repeats =
            map.contains_key("unevaluatedProperties") || map.contains_key("unevaluatedItems");
        Ok(node)
    }

    fn here(&mut self, keyword: &str, value: &'a Value, node: &mut GraphNode) {
        let mut add = |schema| node.here.push(Edge { to: self.id(schema), again: false });
        match value {
            Value::Array(list) if LIST_HERE.contains(&keyword) => list.iter().for_each(add),
            Value::Object(map) if MAP_HERE.contains(&keyword) => {
                map.values().filter(|value| !value.is_array()).for_each(add);
            }
            value if ONE_HERE.contains(&keyword) => add(value),
            _ => {}
        }
    }

    fn parts(
        &mut self,
        keyword: &str,
        value: &'a Value,
        siblings: &'a Map<String, Value>,
        node: &mut GraphNode,
    ) {
        let first = || {
            let lists = ["prefixItems", "items"].map(|key| siblings.get(key)?.as_array());
            lists.into_iter().flatten().map(Vec::len).next().unwrap_or(0)
        };
        let named = || {
            let properties = siblings.get("properties").and_then(Value::as_object);
            properties.into_iter().flat_map(Map::keys).cloned().collect()
        };
        let mut add = |part, schema| node.parts.push((part, self.id(schema)));
        match (keyword, value) {
            ("properties", Value::Object(map)) => {
                map.iter()
                    .for_each(|(name, schema)| add(ValuePart::Property(name.clone()), schema));
            }
            ("patternProperties", Value::Object(map)) => {
                map.values().for_each(|schema| add(ValuePart::Others(HashSet::new()), schema));
            }
            ("additionalProperties" | "unevaluatedProperties", schema) => {
                add(ValuePart::Others(named()), schema);
            }
            ("propertyNames", schema) => add(ValuePart::Names, schema),
            ("prefixItems" | "items", Value::Array(list)) => {
                list.iter().enumerate().for_each(|(at, schema)| add(ValuePart::Item(at), schema));
            }
            ("items" | "additionalItems" | "unevaluatedItems", schema) => {
                add(ValuePart::Items { from: first() }, schema);
            }
            ("contains", schema) => add(ValuePart::Items { from: 0 }, schema),
            _ => {}
        }
    }
}

/// Depth-first search over all nodes, without recursion.
struct GraphWalk {
    /// Post-order of the nodes.
    order: Vec<usize>,
    /// Back edges, as node and edge index.
    back: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, PartialEq)]
enum VisitState {
    New,
    OnTheWay,
    Done,
}

impl GraphWalk {
    fn over(nodes: usize, edge: impl Fn(usize, usize) -> Option<usize>) -> Self {
        let mut walk = Self { order: Vec::with_capacity(nodes), back: Vec::new() };
        let mut states = vec![VisitState::New; nodes];
        for start in 0..nodes {
            if states[start] != VisitState::New {
                continue;
            }
            states[start] = VisitState::OnTheWay;
            let mut way = vec![(start, 0)];
            while let Some((node, nth)) = way.last_mut() {
                let (from, number) = (*node, *nth);
                *nth += 1;
                match edge(from, number) {
                    Some(to) if states[to] == VisitState::New => {
                        states[to] = VisitState::OnTheWay;
                        way.push((to, 0));
                    }
                    Some(to) if states[to] == VisitState::OnTheWay => {
                        walk.back.push((from, number));
                    }
                    Some(_) => {}
                    None => {
                        states[from] = VisitState::Done;
                        walk.order.push(from);
                        way.pop();
                    }
                }
            }
        }
        walk
    }
}
