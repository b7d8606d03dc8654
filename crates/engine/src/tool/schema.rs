//! JSON Schemas of tools: bounded when they are read, compiled on first use.
//!
//! Bounds protect against schemas as an attack: the size as written
//! ([`budget`]), the size after expansion and, for each value, the number of
//! checks ([`cost`]). Nothing is validated against a schema that exceeds them.
//!
//! A server holds thousands of tools, most of which are never called. So a tool
//! has a [`LazySchema`]: checked at registration, compiled by its first call,
//! and evicted when other schemas need the memory ([`clock_cache`]). Regular
//! expressions ([`pattern`]) are compiled separately.

mod best_effort;
mod budget;
mod clock_cache;
mod cost;
mod defaults;
mod explain;
mod graph;
mod older_drafts;
mod pattern;
mod reference;

use std::sync::Arc;

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use self::budget::SchemaSize;
pub(crate) use self::clock_cache::CacheGuard;
use self::clock_cache::{CacheSlot, ClockCache};
use self::cost::{ACCEPT, CheckCost, EXPLAIN};
use self::defaults::Defaults;
pub(crate) use self::defaults::{Fill, assumed};
use self::explain::{describe, shorten};
use crate::error::phrase::{self, Phrase};
use crate::error::{Error, ErrorKind, MAX_VIOLATIONS, Violation};

/// Maximum compiled size of one pattern. [`pattern`] refuses earlier, by its
/// own estimate.
const MAX_PATTERN_BYTES: usize = 2 * 1024 * 1024;
const MAX_BACKTRACKS: usize = 100_000;
/// Maximum number of errors considered for repair.
const MAX_ERRORS: usize = 10_000;
/// Estimated memory per value of a compiled schema, with its part of the cost
/// graph.
const BYTES_PER_VALUE: usize = 512;

/// Process-wide cache of compiled schemas, without their patterns.
static COMPILED: ClockCache<Schema> = ClockCache::new(128 * 1024 * 1024);

/// A schema that is compiled on first use. The default is one that was checked
/// before.
#[derive(Default)]
pub(crate) struct LazySchema {
    slot: Arc<CacheSlot<Schema>>,
}

impl LazySchema {
    /// Checks a schema as far as possible without compiling it.
    pub(crate) fn check(schema: &Value) -> Result<Self, Error> {
        in_any_draft(schema, Schema::check)?;
        Ok(Self::default())
    }

    /// The compiled schema, compiled now if necessary.
    pub(crate) fn get(
        &self,
        make: impl FnOnce() -> Result<Schema, Error>,
    ) -> Result<CacheGuard<Schema>, Error> {
        COMPILED.get(&self.slot, || {
            let schema = make()?;
            let bytes = schema.bytes;
            Ok((schema, bytes))
        })
    }
}

/// Why a schema is refused.
struct SchemaError {
    why: String,
    /// Location as a JSON pointer; `None` if it is too large.
    place: Option<String>,
}

impl SchemaError {
    fn too_large(why: String) -> Self {
        Self { why, place: None }
    }

    fn at(error: &ValidationError<'_>) -> Self {
        let place = error.instance_path().as_str();
        let shown = if place.is_empty() { "the schema" } else { place };
        let why = format!("the schema is not valid at {shown}: {error}");
        Self { why, place: Some(place.to_owned()) }
    }
}

impl From<SchemaError> for Error {
    fn from(refused: SchemaError) -> Self {
        Self::new(ErrorKind::InvalidDefinition, refused.why)
    }
}

/// A compiled schema.
pub(crate) struct Schema {
    validator: Validator,
    cost: CheckCost,
    defaults: Defaults,
    /// Estimated size in bytes, without patterns.
    bytes: usize,
}

impl Schema {
    /// Checks whether a schema can be used. Patterns are parsed; nothing is
    /// compiled.
    fn check(schema: &Value) -> Result<(), SchemaError> {
        budget::check(schema).map_err(SchemaError::too_large)?;
        CheckCost::of(schema).map_err(SchemaError::too_large)?;
        pattern::check(schema)?;
        jsonschema::meta::validate(schema).map_err(|error| SchemaError::at(&error))
    }

    /// Checks the bounds of a schema and compiles it. Remote references are
    /// never fetched.
    pub(crate) fn compile(schema: &Value) -> Result<Self, Error> {
        Self::of_arguments(schema, &Fill::Nothing)
    }

    /// Compiles the schema of arguments, with the defaults to fill.
    pub(crate) fn of_arguments(schema: &Value, fill: &Fill<'_>) -> Result<Self, Error> {
        Ok(in_any_draft(schema, |schema| Self::build(schema, fill))?)
    }

    /// Whether a schema is within bounds and its references resolve.
    pub(crate) fn is_bounded(schema: &Value) -> bool {
        budget::check(schema).is_ok() && CheckCost::of(schema).is_ok()
    }

    /// Compiles a foreign schema as far as possible; returns what is not
    /// checked.
    pub(crate) fn of_others(
        schema: &Value,
        fill: &Fill<'_>,
    ) -> Result<(Self, Option<String>), Error> {
        match in_any_draft(schema, |schema| Self::build(schema, fill)) {
            Ok(schema) => Ok((schema, None)),
            Err(refused) => {
                let (schema, unchecked) = best_effort::compile(schema, fill, refused)?;
                Ok((schema, Some(unchecked)))
            }
        }
    }

    /// What is not checked of a foreign schema.
    pub(crate) fn unchecked_of(schema: &Value) -> Result<Option<String>, Error> {
        Self::of_others(schema, &Fill::Nothing).map(|(_, unchecked)| unchecked)
    }

    fn build(schema: &Value, fill: &Fill<'_>) -> Result<Self, SchemaError> {
        let SchemaSize { values, pattern_bytes } =
            budget::check(schema).map_err(SchemaError::too_large)?;
        let cost = CheckCost::of(schema).map_err(SchemaError::too_large)?;
        pattern::check(schema)?;
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .with_pattern_options(pattern_options())
            .with_keyword("pattern", pattern::keyword)
            .offline()
            .build(schema)
            .map_err(|error| SchemaError::at(&error))?;
        let mut defaults = Defaults::of(schema, fill);
        defaults.keep_fitting(&validator, &cost);
        let bytes = values * BYTES_PER_VALUE + pattern_bytes;
        Ok(Self { validator, cost, defaults, bytes })
    }

    /// Whether a value is valid. A value that would take too many checks is
    /// not.
    pub(crate) fn accepts(&self, value: &Value) -> bool {
        self.cost.affords(value, &ACCEPT) && self.validator.is_valid(value)
    }

    /// All violations of a value.
    pub(crate) fn violations(&self, value: &Value) -> Vec<Violation> {
        let whole = |expected: &Phrase| {
            let (expected, got) = (expected.text(), shorten(value));
            vec![Violation { path: String::new(), expected, got }]
        };
        if !self.cost.affords(value, &ACCEPT) {
            return whole(&phrase::TOO_COSTLY);
        }
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        if !self.cost.affords(value, &EXPLAIN) {
            return whole(&phrase::TOO_COMPLEX);
        }
        self.errors(value).flat_map(|error| describe(&error)).take(MAX_VIOLATIONS).collect()
    }

    /// The raw errors, for repair; none if finding them would take too long.
    pub(crate) fn errors<'a>(
        &'a self,
        value: &'a Value,
    ) -> impl Iterator<Item = ValidationError<'a>> {
        // Checked first: the validator collects all errors, including those of
        // every alternative, before it yields the first one.
        let worth_it = self.cost.affords(value, &EXPLAIN) && !self.validator.is_valid(value);
        let errors = worth_it.then(|| self.validator.iter_errors(value));
        errors.into_iter().flatten().take(MAX_ERRORS)
    }

    /// Whether there are defaults to fill in.
    pub(crate) fn has_defaults(&self) -> bool {
        !self.defaults.is_empty()
    }

    /// Fills in defaults of absent values.
    pub(crate) fn fill_defaults(&self, value: &mut Value) {
        self.defaults.fill(value);
    }
}

/// Tries a schema, and if necessary its translation from older drafts.
fn in_any_draft<T>(
    schema: &Value,
    run: impl Fn(&Value) -> Result<T, SchemaError>,
) -> Result<T, SchemaError> {
    let refused = match run(schema) {
        Err(refused) if refused.place.is_some() => refused,
        outcome => return outcome,
    };
    match older_drafts::translated(schema) {
        Some(newer) => run(&newer),
        None => Err(refused),
    }
}

fn pattern_options() -> PatternOptions<jsonschema::FancyRegex> {
    PatternOptions::fancy_regex()
        .backtrack_limit(MAX_BACKTRACKS)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn violations(schema: &Value, value: &Value) -> Vec<String> {
        Schema::compile(schema).unwrap().violations(value).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_violations_are_reported_at_once() {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "minLength": 2},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
                "unit": {"enum": ["c", "f"]},
            },
            "required": ["city", "days"],
            "additionalProperties": false,
        });
        assert_eq!(
            violations(&schema, &json!({"days": 99, "unit": "k", "x/y": 1})),
            [
                "/city: expected a required value, got nothing",
                "/days: expected at most 14, got 99",
                "/unit: expected one of \"c\", \"f\", got \"k\"",
                "/x~1y: expected no such key, got 1",
            ]
        );
    }

    #[test]
    fn bombs_are_refused() {
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        let wide: Map<String, Value> = (0..30_000).map(|n| (n.to_string(), json!({}))).collect();
        for (schema, why) in [
            (deep, "levels deep"),
            (json!({"properties": wide}), "more than 20000 values"),
            (json!({"type": "string", "pattern": r"(\w{100}){100}{100}"}), "not valid"),
            (json!({"type": "string", "pattern": "x".repeat(3000)}), "longer than"),
            (json!({"type": "string", "pattern": "("}), "not valid"),
            (json!({"$ref": "http://example.com/schema.json"}), "not valid"),
            (json!({"type": "strng"}), "not valid"),
        ] {
            let error = Schema::compile(&schema).err().unwrap();
            assert!(error.message().contains(why), "{error}");
        }
    }
}
