//! The size of a schema as it is written: values, nesting, patterns.
//!
//! What its references expand to is the matter of [`super::cost`].

use serde_json::{Map, Value};

use super::pattern::{self, Weight};

/// A schema with more values than this is a bomb, not a description.
const MAX_NODES: usize = 20_000;
const MAX_DEPTH: usize = 64;
const MAX_PATTERNS: usize = 500;
const MAX_PATTERN_CHARS: usize = 2_000;

/// What all patterns of a schema may take once they are compiled. It also bounds
/// the time of the call that compiles them.
const MAX_PATTERN_BYTES: usize = 16 * 1024 * 1024;

/// How large a schema is.
#[derive(Debug)]
pub(super) struct SchemaSize {
    pub(super) values: usize,
    /// What the patterns take that are compiled with it.
    pub(super) pattern_bytes: usize,
}

/// Says why a schema is too large to compile, or how large it is.
pub(super) fn check(schema: &Value) -> Result<SchemaSize, String> {
    let mut budget = SizeBudget::default();
    budget.spend(schema, 0)?;
    Ok(SchemaSize { values: budget.nodes, pattern_bytes: budget.pattern_bytes })
}

/// What is spent on one schema so far.
#[derive(Default)]
struct SizeBudget {
    nodes: usize,
    patterns: usize,
    /// Of patterns that are compiled with the schema.
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

    /// What it takes once it is compiled.
    fn pattern(&mut self, pattern: &str) -> Result<usize, String> {
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS {
            return Err(format!("the schema has more than {MAX_PATTERNS} patterns"));
        }
        if pattern.chars().count() > MAX_PATTERN_CHARS {
            return Err(format!("a pattern is longer than {MAX_PATTERN_CHARS} characters"));
        }
        // Whether it can be used at all is the matter of [`pattern::check`].
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
