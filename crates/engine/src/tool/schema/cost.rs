//! Validation cost: how many checks a schema makes of a value, with references
//! expanded.
//!
//! Two kilobytes of references that fan out can stand for billions of checks,
//! and the validator keeps an error for each. So a schema is turned into a
//! graph, in which an edge either stays at the same value (`$ref`, `anyOf`,
//! `not` …) or descends into a part of it (`properties`, `items` …).
//!
//! - What stays at the same value multiplies whatever the value is. That is
//!   bounded here once, and a cycle of such edges is refused: it never ends.
//! - What goes to a part multiplies with the depth of the value. A tree type
//!   is honest, and so are two alternatives that both lead into `left`, so
//!   this is counted for each value, before it is validated.
//!
//! A meta-schema, which a schema may refer to but does not contain, counts as
//! one check per part of the value.

use std::collections::{HashMap, HashSet};
use std::ptr;

use serde_json::Value;

use super::graph::{Graph, ValuePart};

/// Maximum number of checks of one value at the same place.
const MAX_CHECKS: u64 = 100_000;
/// Maximum nesting of references and alternatives at the same place.
const MAX_CHAIN: u32 = 256;
/// Maximum nesting of checks for one value: each takes stack space.
const MAX_NESTING: u32 = 1_000;

/// Maximum number of checks for a value.
pub(super) struct Allowance {
    base: u64,
    /// Additional checks per part of the value: its sender paid for that.
    per_part: u64,
    /// Whether the validator memoises results at recursive references.
    remembers: bool,
}

/// For deciding validity: costs time, but no memory.
pub(super) const ACCEPT: Allowance = Allowance { base: 2_000_000, per_part: 32, remembers: true };
/// For collecting all errors: about half a kilobyte per check.
pub(super) const EXPLAIN: Allowance = Allowance { base: 100_000, per_part: 4, remembers: false };

/// Validation cost of a schema.
pub(super) struct CheckCost {
    graph: Graph,
    /// Checks of a value without its parts, per node.
    here: Vec<u64>,
    /// Checks of any value including its parts; `None` for recursive types.
    total: Option<u64>,
}

impl CheckCost {
    /// The cost of a schema, or why it is too expensive for any value.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut graph = Graph::of(schema)?;
        let order = graph.order_here().ok_or(
            "the schema refers to itself without going into the value, so a check never ends",
        )?;
        let mut here = vec![1_u64; graph.len()];
        let mut chain = vec![0_u32; graph.len()];
        for node in order {
            for edge in graph.here(node) {
                let checks = here[edge.to].saturating_mul(graph.passes(node));
                here[node] = here[node].saturating_add(checks);
                chain[node] = chain[node].max(chain[edge.to] + 1);
            }
            if here[node] > MAX_CHECKS {
                return Err(format!(
                    "the schema expands to more than {MAX_CHECKS} checks of one value"
                ));
            }
            if chain[node] > MAX_CHAIN {
                return Err(format!(
                    "the schema has more than {MAX_CHAIN} references or alternatives \
                     inside each other"
                ));
            }
        }
        let total = graph.order_all().map(|order| {
            let mut total = vec![1_u64; graph.len()];
            for node in order {
                let checks = |to: usize, times| total[to].saturating_mul(times);
                let here = graph.here(node).iter().map(|e| checks(e.to, graph.passes(node)));
                let parts = graph.parts(node).iter().map(|(_, to)| checks(*to, 1));
                total[node] = here.chain(parts).fold(1, u64::saturating_add);
            }
            total[Graph::ROOT]
        });
        let total = total.filter(|_| !graph.leaves_the_schema());
        Ok(Self { graph, here, total })
    }

    /// Whether checking a value stays within the allowance.
    pub(super) fn affords(&self, value: &Value, allowance: &Allowance) -> bool {
        // Shortcut: most schemas are so small that every value pays for its own
        // checks.
        self.total.is_some_and(|total| total <= allowance.per_part)
            || self.counts_within(value, allowance)
    }

    fn counts_within(&self, value: &Value, allowance: &Allowance) -> bool {
        let size = size(value);
        let limit = allowance.base.saturating_add(allowance.per_part.saturating_mul(size));
        if let Some(total) = self.total
            && total <= u64::from(MAX_NESTING)
            && total.saturating_mul(size) <= limit
        {
            return true;
        }
        let mut count = CheckCounter {
            cost: self,
            size,
            limit,
            steps: 0,
            known: HashMap::new(),
            seen: HashSet::new(),
            later: Vec::new(),
            remembers: allowance.remembers,
        };
        count.all(value).is_some()
    }
}

/// Counts the checks of one value.
struct CheckCounter<'a> {
    cost: &'a CheckCost,
    size: u64,
    limit: u64,
    steps: u64,
    known: HashMap<(usize, *const Value), Checks>,
    /// Recursive references that the validator answers from its memo, after
    /// following each once.
    seen: HashSet<(usize, *const Value)>,
    later: Vec<(usize, &'a Value, u32)>,
    remembers: bool,
}

#[derive(Clone, Copy)]
struct Checks {
    number: u64,
    nesting: u32,
}

impl<'a> CheckCounter<'a> {
    /// The number of checks of a whole value; `None` if there are too many.
    fn all(&mut self, value: &'a Value) -> Option<u64> {
        let mut number = self.at(Graph::ROOT, value, 0)?.number;
        while let Some((node, value, depth)) = self.later.pop() {
            number = number.saturating_add(self.at(node, value, depth)?.number);
            if number > self.limit {
                return None;
            }
        }
        Some(number)
    }

    fn at(&mut self, node: usize, value: &'a Value, depth: u32) -> Option<Checks> {
        let cost = self.cost;
        let graph = &cost.graph;
        if !(value.is_array() || value.is_object()) {
            return self.within(Checks { number: cost.here[node], nesting: 0 }, depth);
        }
        let key = (node, ptr::from_ref(value));
        if graph.is_shared(node)
            && let Some(known) = self.known.get(&key).copied()
        {
            return self.within(known, depth);
        }
        self.steps += 1;
        if self.steps > self.limit || depth > MAX_NESTING {
            return None;
        }
        let mut sum = Checks { number: 1, nesting: 0 };
        if graph.is_foreign(node) {
            sum.number = self.size;
        }
        for edge in graph.here(node) {
            if edge.again && self.remembers {
                if self.seen.insert((edge.to, ptr::from_ref(value))) {
                    self.later.push((edge.to, value, depth + 1));
                }
                sum.add(Checks { number: 1, nesting: 0 }, 1);
            } else {
                sum.add(self.at(edge.to, value, depth + 1)?, graph.passes(node));
            }
        }
        for (part, to) in graph.parts(node) {
            self.part(part, *to, value, depth + 1, &mut sum)?;
        }
        if graph.is_shared(node) {
            self.known.insert(key, sum);
        }
        self.within(sum, depth)
    }

    /// Adds the checks of the parts of a value that a keyword applies to.
    fn part(
        &mut self,
        part: &ValuePart,
        to: usize,
        value: &'a Value,
        depth: u32,
        sum: &mut Checks,
    ) -> Option<()> {
        match (part, value) {
            (ValuePart::Property(name), Value::Object(map)) => {
                if let Some(value) = map.get(name) {
                    sum.add(self.at(to, value, depth)?, 1);
                }
            }
            (ValuePart::Others(named), Value::Object(map)) => {
                for (name, value) in map {
                    if !named.contains(name) {
                        sum.add(self.at(to, value, depth)?, 1);
                    }
                }
            }
            (ValuePart::Names, Value::Object(map)) => {
                let number = self.cost.here[to].saturating_mul(map.len() as u64);
                sum.add(Checks { number, nesting: 0 }, 1);
            }
            (ValuePart::Item(index), Value::Array(items)) => {
                if let Some(value) = items.get(*index) {
                    sum.add(self.at(to, value, depth)?, 1);
                }
            }
            (ValuePart::Items { from }, Value::Array(items)) => {
                for value in items.iter().skip(*from) {
                    sum.add(self.at(to, value, depth)?, 1);
                }
            }
            _ => {}
        }
        Some(())
    }

    fn within(&self, checks: Checks, depth: u32) -> Option<Checks> {
        let fits = checks.number <= self.limit && depth + checks.nesting <= MAX_NESTING;
        fits.then_some(checks)
    }
}

impl Checks {
    fn add(&mut self, inner: Self, times: u64) {
        self.number = self.number.saturating_add(inner.number.saturating_mul(times));
        self.nesting = self.nesting.max(inner.nesting + 1);
    }
}

/// Number of values in a value.
fn size(value: &Value) -> u64 {
    let mut count = 0;
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        count += 1;
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(map) => left.extend(map.values()),
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(schema: &Value) -> String {
        CheckCost::of(schema).err().unwrap_or_default()
    }

    /// Definitions `n0` to `n30` of which each applies the next one twice.
    fn doubling(next: impl Fn(&str) -> Value) -> Value {
        let each = |n: usize| {
            let next = next(&format!("#/$defs/n{}", n + 1));
            (format!("n{n}"), json!({"anyOf": [next, next]}))
        };
        let mut defs: serde_json::Map<String, Value> = (0..30).map(each).collect();
        defs.insert("n30".to_owned(), json!({"type": "integer"}));
        json!({"$defs": defs, "$ref": "#/$defs/n0"})
    }

    #[test]
    fn what_multiplies_at_one_value_is_refused() {
        let bomb = doubling(|next| json!({"$ref": next}));
        assert!(refused(&bomb).contains("more than 100000 checks"));

        // An `id` that begins no resource does not hide what is referred to.
        let mut hidden = bomb;
        for n in 0..30 {
            hidden["$defs"][format!("n{n}")]["id"] = json!(format!("x{n}"));
        }
        assert!(refused(&hidden).contains("more than 100000 checks"));

        let repeated =
            doubling(|next| json!({"allOf": [{"$ref": next}], "unevaluatedProperties": false}));
        assert!(refused(&repeated).contains("more than 100000 checks"));
    }

    #[test]
    fn a_cycle_has_to_go_into_the_value() {
        for endless in [
            json!({"$ref": "#"}),
            json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "not": {"$ref": "#/$defs/a"}}),
            json!({"$anchor": "a", "if": {"$ref": "#a"}}),
            json!({"$id": "http://x/a", "allOf": [{"$ref": "a"}]}),
            json!({"$defs": {"a b": {"$ref": "#/$defs/a%20b"}}, "$ref": "#/$defs/a%20b"}),
        ] {
            assert!(refused(&endless).contains("never ends"), "{endless}");
        }
        for tree in [
            json!({"properties": {"children": {"items": {"$ref": "#"}}}}),
            json!({"$dynamicAnchor": "t", "additionalProperties": {"$dynamicRef": "#t"}}),
            json!({"$recursiveAnchor": true, "contains": {"$recursiveRef": "#"}}),
            json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}),
        ] {
            assert_eq!(refused(&tree), "", "{tree}");
        }
        assert!(refused(&json!({"$ref": "#/$defs/none"})).contains("leads to nothing"));
    }

    #[test]
    fn what_multiplies_with_depth_is_counted_for_each_value() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let bomb = CheckCost::of(&doubling(|next| json!({"items": {"$ref": next}}))).unwrap();
        assert!(bomb.affords(&nested(5), &EXPLAIN));
        assert!(bomb.affords(&nested(15), &ACCEPT));
        assert!(!bomb.affords(&nested(30), &ACCEPT));

        let branch = |op: &str| {
            json!({"properties": {"op": {"const": op},
            "left": {"$ref": "#/$defs/e"}, "right": {"$ref": "#/$defs/e"}}})
        };
        let branches: Vec<Value> = ["add", "sub", "mul", "div"].map(branch).into();
        let tree = json!({"$defs": {"e": {"oneOf": branches}}, "$ref": "#/$defs/e"});
        let tree = CheckCost::of(&tree).unwrap();
        let sum = |terms: usize| {
            (0..terms).fold(json!({}), |left, _| json!({"op": "add", "left": left, "right": {}}))
        };
        assert!(tree.affords(&sum(60), &ACCEPT));
        assert!(tree.affords(&sum(4), &EXPLAIN));
        assert!(!tree.affords(&sum(60), &EXPLAIN));
    }

    #[test]
    fn a_large_plain_value_is_affordable() {
        let rows = CheckCost::of(&json!({"items": {"additionalProperties":
            {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}))
        .unwrap();
        let row = json!({"a": 1, "b": 2, "c": null});
        let value = Value::Array(vec![row; 50_000]);
        assert!(rows.affords(&value, &ACCEPT) && rows.affords(&value, &EXPLAIN));
    }
}
