//! Size limits of a schema as written: values, nesting, patterns.
//!
//! The expansion of references is bounded by [`super::cost`].

use serde_json::{Map, Value};

use super::pattern::{self, Weight};

/// Maximum number of values; a larger schema is a bomb, not a description.
const MAX_NODES: usize = 20_000;
const MAX_DEPTH: usize = 64;
const MAX_PATTERNS: usize = 500;
const MAX_PATTERN_CHARS: usize = 2_000;

/// Maximum compiled size of all patterns of a schema. It also bounds the time
/// of the call that compiles them.
const MAX_PATTERN_BYTES: usize = 16 * 1024 * 1024;

/// Size of a schema.
#[derive(Debug)]
pub(super) struct SchemaSize {
    pub(super) values: usize,
    /// Estimated size of the patterns that are compiled with it.
    pub(super) pattern_bytes: usize,
}

/// The size of a schema, or why it is too large.
pub(super) fn check(schema: &Value) -> Result<SchemaSize, String> {
    let mut budget = SizeBudget::default();
    budget.spend(schema, 0)?;
    Ok(SchemaSize { values: budget.nodes, pattern_bytes: budget.pattern_bytes })
}

/// Budget spent so far.
#[derive(Default)]
struct SizeBudget {
    nodes: usize,
    patterns: usize,
    /// Size of the patterns.
    pattern_bytes: usize,
    all_pattern_bytes: usize,
}

impl SizeBudget {
    fn spend(&mut self, schema: &Value, depth: usize) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(format!("the schema has more than {MAX_NODES} values"));
        }
        if depth > MAX_DEPTH {
            return Err(format!("the schema is nested more than {MAX_DEPTH} levels deep"));
        }
        match schema {
            Value::Object(map) => {
                if let Some(Value::String(pattern)) = map.get("pattern") {
                    self.pattern(pattern)?;
                }
                let patterns = map.get("patternProperties").and_then(Value::as_object);
                for pattern in patterns.into_iter().flat_map(Map::keys) {
                    self.pattern_bytes += self.pattern(pattern)?;
                }
                map.values().try_for_each(|value| self.spend(value, depth + 1))
            }
            Value::Array(array) => array.iter().try_for_each(|value| self.spend(value, depth + 1)),
            _ => Ok(()),
        }
    }

    /// Estimated compiled size of a pattern.
    fn pattern(&mut self, pattern: &str) -> Result<usize, String> {
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS {
            return Err(format!("the schema has more than {MAX_PATTERNS} patterns"));
        }
        if pattern.chars().count() > MAX_PATTERN_CHARS {
            return Err(format!("a pattern is longer than {MAX_PATTERN_CHARS} characters"));
        }
        // Whether it is valid at all is checked by [`pattern::check`].
        let bytes = match pattern::weigh(pattern) {
            Weight::Bytes(bytes) => bytes,
            Weight::TooLarge | Weight::Unreadable => 0,
        };
        self.all_pattern_bytes += bytes;
        if self.all_pattern_bytes > MAX_PATTERN_BYTES {
            return Err("the patterns of the schema are too large together".to_owned());
        }
        Ok(bytes)
    }
}
