//! The size of a schema as it is written: values, nesting, patterns.
//!
//! What its references expand to is the matter of [`super::cost`].

use serde_json::{Map, Value};

/// A schema with more values than this is a bomb, not a description.
const MAX_NODES: usize = 20_000;
const MAX_DEPTH: usize = 64;
const MAX_PATTERNS: usize = 500;
const MAX_PATTERN_CHARS: usize = 2_000;

/// Says why a schema is too large to compile.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    Budget::default().spend(schema, 0)
}

/// What is spent on one schema so far.
#[derive(Default)]
struct Budget {
    nodes: usize,
    patterns: usize,
}

impl Budget {
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
                    self.pattern(pattern)?;
                }
                map.values().try_for_each(|value| self.spend(value, depth + 1))
            }
            Value::Array(array) => array.iter().try_for_each(|value| self.spend(value, depth + 1)),
            _ => Ok(()),
        }
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), String> {
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS {
            return Err(format!("the schema has more than {MAX_PATTERNS} patterns"));
        }
        if pattern.chars().count() > MAX_PATTERN_CHARS {
            return Err(format!("a pattern is longer than {MAX_PATTERN_CHARS} characters"));
        }
        Ok(())
    }
}
