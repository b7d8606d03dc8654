//! Lints: definitions that are valid but could be better, for `windlass check`.

use serde_json::Value;

use super::Definition;
use super::node::Position;
use super::reader;
use crate::tool::{Behaviour, Category, FilledBy};
use crate::value::text::Lang;

/// Shorter descriptions do not tell a model when to choose the tool.
const SHORT_DESCRIPTION: usize = 12;
/// Longer descriptions cost more in every prompt than they are worth, and
/// OpenAI refuses them.
const LONG_DESCRIPTION: usize = 1_024;
/// Models rarely fill more parameters than this correctly.
const MANY_PARAMETERS: usize = 30;

/// A suggestion for a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// What could be better.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

impl Lint {
    pub(super) fn new(at: Position, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let Position { line, column } = at;
        Self { line, column, message: message.into(), hint: hint.into() }
    }
}

/// Returns all suggestions for a definition.
pub fn lint(definition: &Definition) -> Vec<Lint> {
    let mut lints = Lints { found: definition.notes.clone() };
    lint_tool(definition, &mut lints);
    lint_parameters(definition, &mut lints);
    lints.found.sort_by_key(|lint| (lint.line, lint.column));
    lints.found
}

struct Lints {
    found: Vec<Lint>,
}

impl Lints {
    fn add(&mut self, at: Position, message: impl Into<String>, hint: impl Into<String>) {
        self.found.push(Lint::new(at, message, hint));
    }
}

fn lint_tool(definition: &Definition, lints: &mut Lints) {
    let (spec, at) = (&definition.spec, definition.at());
    let name = spec.name.as_str();
    let words = spec.description.get(Lang::En).trim();
    if words.is_empty() {
        lints.add(
            at,
            format!("`{name}` has no description"),
            "say what it does and when to use it",
        );
    } else if words.len() < SHORT_DESCRIPTION {
        lints.add(
            at,
            format!("the description of `{name}` is very short"),
            "say what it does and when to use it",
        );
    }
    if words.chars().count() > LONG_DESCRIPTION {
        lints.add(
            at,
            format!("the description of `{name}` is longer than {LONG_DESCRIPTION} characters"),
            "some model APIs refuse it; move details to the parameters",
        );
    }
    if spec.name.wire() != name {
        lints.add(
            at,
            format!("the name `{name}` does not fit model APIs"),
            format!("models will see `{}`; use at most 64 of A-Z a-z 0-9 _ -", spec.name.wire()),
        );
    }
    let category = spec.category.as_str();
    if !Category::KNOWN.contains(&category) {
        let hint = match reader::nearest(category, &Category::KNOWN) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the known ones are {}", Category::KNOWN.join(", ")),
        };
        lints.add(at, format!("unknown category `{category}`"), hint);
    }
    if spec.behaviour == Behaviour::default() {
        lints.add(
            at,
            format!("`{name}` does not declare its behaviour"),
            "without `behaviour: {read_only: true}` it runs alone in a batch",
        );
    }
    let repeatable = spec.behaviour.may_be_repeated();
    if spec.retry.is_some_and(|retry| retry.attempts > 1) && !repeatable {
        lints.add(
            at,
            format!("`{name}` is tried again although it may change something twice"),
            "write `behaviour: {idempotent: true}` if that does no harm, else `retry: 1`",
        );
    }
    if spec.kind.is_remote() && spec.timeout.is_none() {
        lints.add(
            at,
            format!("`{name}` is a {} tool without a timeout", spec.kind),
            "write `timeout: 30s`",
        );
    }
}

fn lint_parameters(definition: &Definition, lints: &mut Lints) {
    let spec = &definition.spec;
    let Some(properties) = spec.input.get("properties").and_then(Value::as_object) else { return };
    if properties.len() > MANY_PARAMETERS {
        lints.add(
            definition.at(),
            format!("`{}` has {} parameters", spec.name, properties.len()),
            "models fill long lists badly; split the tool or use presets",
        );
    }
    let required = spec.input.get("required").and_then(Value::as_array);
    for (name, schema) in properties {
        let at = definition.place_of(name);
        let filled_by = spec.parameters.get(name).map_or(FilledBy::Model, |known| known.filled_by);
        let described = schema["description"].as_str().is_some_and(|text| !text.trim().is_empty());
        if filled_by == FilledBy::Model && !described && schema.get("$ref").is_none() {
            lints.add(
                at,
                format!("the parameter `{name}` has no description"),
                "say what it means, with an example",
            );
        }
        let is_required =
            required.is_some_and(|names| names.iter().any(|known| known == name.as_str()));
        if is_required && schema.get("default").is_some() {
            lints.add(
                at,
                format!("the parameter `{name}` is required, so its default is never used"),
                "drop one of the two",
            );
        }
        lint_keywords(schema, name, at, lints);
    }
}

/// Finds misspelt keywords, which JSON Schema ignores silently.
fn lint_keywords(schema: &Value, parameter: &str, at: Position, lints: &mut Lints) {
    const KEYWORDS: [&str; 34] = [
        "type",
        "description",
        "title",
        "default",
        "enum",
        "const",
        "format",
        "pattern",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "minProperties",
        "maxProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "examples",
        "example",
        "nullable",
    ];
    for key in schema.as_object().into_iter().flat_map(|map| map.keys()) {
        if key.starts_with(['$', 'x', '_']) || KEYWORDS.contains(&key.as_str()) {
            continue;
        }
        if let Some(near) = reader::nearest(key, &KEYWORDS)
            && (near.eq_ignore_ascii_case(&key.replace('_', ""))
                || strsim::damerau_levenshtein(near, key) <= 2)
        {
            lints.add(
                at,
                format!("`{key}` of the parameter `{parameter}` means nothing to JSON Schema"),
                format!("did you mean `{near}`?"),
            );
        }
    }
}
