//! Resolves references within a schema.
//!
//! Used for the cost of a schema only, so it overestimates rather than
//! underestimates: a dynamic reference leads to every anchor of its name, and a
//! URI to every `$id` with the same ending.

use std::collections::HashMap;
use std::ptr;

use serde_json::Value;

/// The referable parts of a schema.
pub(super) struct References<'a> {
    /// Schema resources (those with their own `$id`), the root first.
    resources: Vec<(&'a str, &'a Value)>,
    /// The resource that contains each object.
    inside: HashMap<*const Value, usize>,
    anchors: HashMap<&'a str, Vec<(usize, &'a Value)>>,
    /// Possible targets of `$recursiveRef`.
    recursive: Vec<&'a Value>,
}

impl<'a> References<'a> {
    pub(super) fn of(schema: &'a Value) -> Self {
        let mut references = Self {
            resources: vec![("", schema)],
            inside: HashMap::new(),
            anchors: HashMap::new(),
            recursive: Vec::new(),
        };
        references.read(schema, 0);
        references
    }

    /// The targets of a reference in an object; none if it leads outside.
    pub(super) fn resolve(
        &self,
        from: &'a Value,
        keyword: &str,
        reference: &str,
    ) -> Vec<&'a Value> {
        let own = self.inside.get(&ptr::from_ref(from)).copied().unwrap_or(0);
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resources: Vec<usize> = if base.is_empty() {
            // Which `$id` starts a resource depends on the draft; otherwise the
            // reference is relative to the root.
            vec![own, 0]
        } else {
            let named = |&at: &usize| last_segment(self.resources[at].0) == last_segment(base);
            (0..self.resources.len()).filter(named).collect()
        };
        let fragment = percent_decoded(fragment);
        let mut targets: Vec<&'a Value> = if fragment.is_empty() || fragment.starts_with('/') {
            resources.iter().filter_map(|&at| self.resources[at].1.pointer(&fragment)).collect()
        } else {
            let anchors = self.anchors.get(fragment.as_str()).into_iter().flatten();
            let dynamic = keyword == "$dynamicRef";
            anchors
                .filter(|(at, _)| dynamic || resources.contains(at))
                .map(|(_, target)| *target)
                .collect()
        };
        if keyword == "$recursiveRef" {
            targets.extend(&self.recursive);
        }
        targets.sort_by_key(|target| ptr::from_ref::<Value>(target));
        targets.dedup_by_key(|target| ptr::from_ref::<Value>(target));
        targets
    }

    /// Recursion is safe: the depth of a schema was bounded before.
    fn read(&mut self, value: &'a Value, mut resource: usize) {
        match value {
            Value::Object(map) => {
                let text = |key: &str| map.get(key).and_then(Value::as_str);
                if let Some(id) = text("$id").or_else(|| text("id")) {
                    match id.strip_prefix('#') {
                        Some(name) => self.anchor(name, resource, value),
                        None if ptr::eq(value, self.resources[0].1) => self.resources[0].0 = id,
                        None => {
                            resource = self.resources.len();
                            self.resources.push((id, value));
                        }
                    }
                }
                for name in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text) {
                    self.anchor(name, resource, value);
                }
                if map.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
                    self.recursive.push(value);
                }
                self.inside.insert(ptr::from_ref(value), resource);
                map.values().for_each(|value| self.read(value, resource));
            }
            Value::Array(list) => list.iter().for_each(|value| self.read(value, resource)),
            _ => {}
        }
    }

    fn anchor(&mut self, name: &'a str, resource: usize, value: &'a Value) {
        self.anchors.entry(name).or_default().push((resource, value));
    }
}

/// The last path segment of a URI, which identifies relative ones.
fn last_segment(address: &str) -> &str {
    let address = address.split('#').next().unwrap_or(address);
    address.rsplit(['/', ':']).next().unwrap_or(address)
}

/// Whether the compiler can resolve an external URI: it has the meta-schemas,
/// and fetches nothing.
pub(super) fn is_meta_schema(reference: &str) -> bool {
    ["http://json-schema.org/", "https://json-schema.org/"]
        .iter()
        .any(|known| reference.starts_with(known))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| char::from(*tail.get(at)?).to_digit(16);
        let (byte, after) = match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => ((high * 16 + low) as u8, &tail[2..]),
            _ => (*first, tail),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
