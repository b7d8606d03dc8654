//! A JSON Schema, bounded, compiled once, with the defaults that it names.
//!
//! Bounds come first: how much is written ([`budget`]), how much that expands
//! to, and, for each value, how many checks it would take ([`cost`]). Nothing
//! is validated that has not passed them.

mod budget;
mod cost;
mod graph;
mod reference;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use self::cost::{ACCEPT, Cost, EXPLAIN};
use crate::error::{Error, ErrorKind, MAX_VIOLATIONS, Violation};
use crate::pointer;

/// Compiled size of one pattern; a plain one takes a few kilobytes.
const MAX_PATTERN_BYTES: usize = 512 * 1024;
const MAX_BACKTRACKS: usize = 100_000;
/// What came in place of a required value.
pub(crate) const MISSING: &str = "nothing";
/// How many errors are looked at for repair.
const MAX_ERRORS: usize = 10_000;

/// A compiled schema.
pub(crate) struct Schema {
    validator: Validator,
    cost: Cost,
    defaults: Defaults,
}

impl Schema {
    /// Checks the bounds of a schema and compiles it. Remote references are
    /// never fetched.
    pub(crate) fn compile(schema: &Value) -> Result<Self, Error> {
        let invalid = |why: String| Error::new(ErrorKind::InvalidDefinition, why);
        budget::check(schema).map_err(invalid)?;
        let cost = Cost::of(schema).map_err(invalid)?;
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .with_pattern_options(
                PatternOptions::fancy_regex()
                    .backtrack_limit(MAX_BACKTRACKS)
                    .size_limit(MAX_PATTERN_BYTES)
                    .dfa_size_limit(MAX_PATTERN_BYTES),
            )
            .offline()
            .build(schema)
            .map_err(|error| {
                let place = error.instance_path().as_str();
                let place = if place.is_empty() { "the schema" } else { place };
                invalid(format!("the schema is not valid at {place}: {error}"))
            })?;
        Ok(Self { validator, cost, defaults: Defaults::of(schema) })
    }

    /// Whether a value fits. A value that would take too many checks does not.
    pub(crate) fn accepts(&self, value: &Value) -> bool {
        self.cost.affords(value, &ACCEPT) && self.validator.is_valid(value)
    }

    /// Everything that is wrong with a value.
    pub(crate) fn violations(&self, value: &Value) -> Vec<Violation> {
        let whole = |expected: &str| {
            let (expected, got) = (expected.to_owned(), shorten(value));
            vec![Violation { path: String::new(), expected, got }]
        };
        if !self.cost.affords(value, &ACCEPT) {
            return whole("a smaller or less deeply nested value, this one takes too many checks");
        }
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        if !self.cost.affords(value, &EXPLAIN) {
            return whole("a value that fits the schema, it is too complex to say where it fails");
        }
        self.errors(value).flat_map(|error| describe(&error)).take(MAX_VIOLATIONS).collect()
    }

    /// The raw errors, for repair; none where finding them takes too long.
    pub(crate) fn errors<'a>(
        &'a self,
        value: &'a Value,
    ) -> impl Iterator<Item = ValidationError<'a>> {
        // The validator collects all errors before it gives the first one,
        // with those of every alternative, so the bound has to come before.
        let worth_it = self.cost.affords(value, &EXPLAIN) && !self.validator.is_valid(value);
        let errors = worth_it.then(|| self.validator.iter_errors(value));
        errors.into_iter().flatten().take(MAX_ERRORS)
    }

    /// Puts defaults where a value is absent.
    pub(crate) fn fill_defaults(&self, value: &mut Value) {
        self.defaults.fill(value);
    }
}

/// The defaults in a schema, by the place where they belong.
#[derive(Default)]
struct Defaults {
    values: Vec<(String, Value)>,
    inside: Vec<(String, Defaults)>,
    items: Option<Box<Defaults>>,
}

impl Defaults {
    fn of(schema: &Value) -> Self {
        let mut defaults = Self::default();
        for (name, property) in super::object(schema, "properties").into_iter().flatten() {
            if let Some(default) = property.get("default") {
                defaults.values.push((name.clone(), default.clone()));
            }
            let inside = Self::of(property);
            if !inside.is_empty() {
                defaults.inside.push((name.clone(), inside));
            }
        }
        if let Some(items) = schema.get("items").map(Self::of).filter(|items| !items.is_empty()) {
            defaults.items = Some(Box::new(items));
        }
        defaults
    }

    fn is_empty(&self) -> bool {
        self.values.is_empty() && self.inside.is_empty() && self.items.is_none()
    }

    fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, default) in &self.values {
                    if !map.contains_key(name) {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (name, inside) in &self.inside {
                    if let Some(value) = map.get_mut(name) {
                        inside.fill(value);
                    }
                }
            }
            Value::Array(array) => {
                if let Some(items) = &self.items {
                    array.iter_mut().for_each(|value| items.fill(value));
                }
            }
            _ => {}
        }
    }
}

/// Says what a validation error means. A missing or unexpected key is reported
/// at the key's own place.
fn describe(error: &ValidationError<'_>) -> Vec<Violation> {
    use ValidationErrorKind as Kind;
    let path = error.instance_path().as_str();
    let at = |key: &str| format!("{path}/{}", pointer::escape(key));
    let one = |expected: String| {
        vec![Violation { path: path.to_owned(), expected, got: shorten(error.instance()) }]
    };
    match error.kind() {
        Kind::Required { property } => {
            let key = property.as_str().unwrap_or_default();
            let expected = "a value, it is required".to_owned();
            vec![Violation { path: at(key), expected, got: MISSING.to_owned() }]
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unexpected
                .iter()
                .map(|key| Violation {
                    path: at(key),
                    expected: "no such key".to_owned(),
                    got: error.instance().get(key).map(shorten).unwrap_or_default(),
                })
                .collect()
        }
        Kind::Type { kind } => one(match kind {
            TypeKind::Single(one) => with_article(&one.to_string()),
            TypeKind::Multiple(many) => many
                .iter()
                .map(|one| with_article(&one.to_string()))
                .collect::<Vec<_>>()
                .join(" or "),
        }),
        Kind::Enum { options } => one(format!("one of {}", list(options))),
        Kind::Constant { expected_value } => one(format!("exactly {expected_value}")),
        Kind::Minimum { limit } => one(format!("at least {limit}")),
        Kind::Maximum { limit } => one(format!("at most {limit}")),
        Kind::ExclusiveMinimum { limit } => one(format!("more than {limit}")),
        Kind::ExclusiveMaximum { limit } => one(format!("less than {limit}")),
        Kind::MinLength { limit } => one(format!("at least {limit} characters")),
        Kind::MaxLength { limit } => one(format!("at most {limit} characters")),
        Kind::MinItems { limit } => one(format!("at least {limit} items")),
        Kind::MaxItems { limit } => one(format!("at most {limit} items")),
        Kind::MinProperties { limit } => one(format!("at least {limit} keys")),
        Kind::MaxProperties { limit } => one(format!("at most {limit} keys")),
        Kind::MultipleOf { multiple_of } => one(format!("a multiple of {multiple_of}")),
        Kind::UniqueItems => one("items that are all different".to_owned()),
        Kind::Pattern { pattern } => one(format!("text that matches {pattern}")),
        Kind::Format { format } => one(format!("text in the format {format}")),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            one("a value that fits one of the alternatives".to_owned())
        }
        Kind::OneOfMultipleValid { .. } => {
            one("a value that fits exactly one of the alternatives".to_owned())
        }
        _ => one(error.masked().to_string()),
    }
}

fn with_article(noun: &str) -> String {
    match noun {
        "null" => "null".to_owned(),
        "integer" | "object" | "array" => format!("an {noun}"),
        _ => format!("a {noun}"),
    }
}

fn list(options: &Value) -> String {
    const SHOWN: usize = 20;
    let Value::Array(options) = options else { return options.to_string() };
    let mut shown: Vec<String> = options.iter().take(SHOWN).map(Value::to_string).collect();
    if options.len() > SHOWN {
        shown.push(format!("… ({} in all)", options.len()));
    }
    shown.join(", ")
}

/// A value in a few words.
fn shorten(value: &Value) -> String {
    const SHOWN: usize = 60;
    match value {
        Value::Array(items) if items.len() > 3 => format!("an array of {} items", items.len()),
        Value::Object(map) if map.len() > 3 => format!("an object of {} keys", map.len()),
        value => {
            let text = value.to_string();
            if text.chars().count() <= SHOWN {
                return text;
            }
            let start: String = text.chars().take(SHOWN).collect();
            format!("{start}…")
        }
    }
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
                "/city: expected a value, it is required, got nothing",
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

    #[test]
    fn nested_defaults_are_filled() {
        let schema = Schema::compile(&json!({
            "properties": {
                "limit": {"type": "integer", "default": 5},
                "sort": {"type": "object", "properties": {"by": {"default": "date"}}},
                "rows": {"items": {"properties": {"n": {"default": 1}}}},
            }
        }))
        .unwrap();
        let mut value = json!({"sort": {}, "rows": [{}, {"n": 2}]});
        schema.fill_defaults(&mut value);
        let filled = json!({"sort": {"by": "date"}, "rows": [{"n": 1}, {"n": 2}], "limit": 5});
        assert_eq!(value, filled);
    }
}
