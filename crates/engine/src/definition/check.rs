//! Consistency checks: do the keywords of a schema agree with each other and
//! with the values beside them?

use serde_json::{Map, Value, json};

use super::node::{MapEntry, Node, Position};
use super::reader::{self, FaultReport};
use super::schema::{Dialect, long_name};
use crate::error::Violation;
use crate::tool::Schema;

/// Cost of checking one pattern, in values.
const PATTERN_COST: usize = 200;

const BOUNDS: [(&str, &str); 4] = [
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
];

/// Checks that the minimum is not above the maximum.
pub(super) fn bounds(
    entries: &[&MapEntry],
    dialect: Dialect,
    schema: &Map<String, Value>,
    report: &mut FaultReport<'_>,
) {
    let place = |name: &str| {
        entries.iter().find(|entry| long_name(&entry.key, dialect) == Some(name)).map(|e| e.at)
    };
    for (low, high) in BOUNDS {
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        if let (Some(least), Some(most)) = (bound(low), bound(high))
            && least > most
            && let Some(at) = place(high).or_else(|| place(low))
        {
            report.add(at, format!("the smallest allowed, {least}, is above the largest, {most}"));
        }
    }
}

/// Checks that every required name is a property.
pub(super) fn required(schema: &Map<String, Value>, at: Position, report: &mut FaultReport<'_>) {
    let Some(names) = schema.get("required").and_then(Value::as_array) else { return };
    let properties = schema.get("properties").and_then(Value::as_object);
    for name in names.iter().filter_map(Value::as_str) {
        let known = properties.is_some_and(|properties| properties.contains_key(name));
        if known || report.is_full() {
            continue;
        }
        let names: Vec<&str> =
            properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let message = format!("`{name}` is required, but is not in `properties`");
        match reader::nearest(name, &names) {
            Some(near) => report.hinted(at, message, format!("did you mean `{near}`?")),
            None => report.add(at, message),
        }
    }
}

/// Why a default or preset does not match the schema of its parameter.
pub(super) fn misfit(schema: &Value, node: &Node, report: &mut FaultReport<'_>) -> Option<Misfit> {
    if !report.afford(node.at, cost(schema)) {
        return None;
    }
    // A reference may point outside this part, or expand too far: then nothing
    // is checked here, and the whole schema is compiled or refused later.
    let violations = Schema::compile(schema).ok()?.violations(&node.to_json());
    let Violation { path, expected, got } = violations.into_iter().next()?;
    let place = if path.is_empty() { String::new() } else { format!(" at {path}") };
    Some(Misfit {
        place: format!("does not fit{place}"),
        got,
        expected: format!("expected {expected}"),
    })
}

/// A value that does not match its schema.
pub(super) struct Misfit {
    /// Where it does not match: `does not fit at /0`.
    pub(super) place: String,
    /// The value, for messages that may show it.
    pub(super) got: String,
    /// What to write instead.
    pub(super) expected: String,
}

/// Reports a default or preset that does not match its schema.
pub(super) fn value(schema: &Value, node: &Node, what: &str, report: &mut FaultReport<'_>) {
    if let Some(Misfit { place, got, expected }) = misfit(schema, node, report) {
        report.hinted(node.at, format!("{what} {place}: got {got}"), expected);
    }
}

/// Checks that a regular expression compiles. Returns whether it is kept: in a
/// foreign schema, one that does not compile is still shown to the model.
pub(super) fn pattern(
    pattern: &str,
    at: Position,
    dialect: Dialect,
    report: &mut FaultReport<'_>,
) -> bool {
    if !report.afford(at, PATTERN_COST) {
        return false;
    }
    let Err(error) = Schema::compile(&json!({"pattern": pattern})) else { return true };
    let shown: String = pattern.chars().take(60).collect();
    let message = format!("the pattern `{shown}` does not compile");
    let why = error.message().to_owned();
    match dialect {
        Dialect::Short => report.hinted(at, message, why),
        Dialect::JsonSchema => report.note(at, format!("{message}, and is not checked"), why),
    }
    dialect == Dialect::JsonSchema
}

/// Cost of compiling a schema: its values, and much more for each pattern.
fn cost(schema: &Value) -> usize {
    match schema {
        Value::Object(map) => {
            let patterns = if map.contains_key("pattern") { PATTERN_COST } else { 0 };
            map.values().map(cost).sum::<usize>() + patterns + 1
        }
        Value::Array(items) => items.iter().map(cost).sum::<usize>() + 1,
        _ => 1,
    }
}

/// Reports constraints that do not apply to the type beside them.
pub(super) fn applies(
    entries: &[&MapEntry],
    schema: &Map<String, Value>,
    report: &mut FaultReport<'_>,
) {
    let Some(Value::String(kind)) = schema.get("type") else { return };
    for entry in entries {
        let name = long_name(&entry.key, Dialect::Short).unwrap_or_default();
        let (kinds, instead): (&[&str], _) = match name {
            "minLength" | "maxLength" | "pattern" | "format" => (&["string"], "`min` and `max`"),
            "minimum" | "maximum" | "multipleOf" => {
                (&["number", "integer"], "`min_length` and `max_length`")
            }
            "items" | "minItems" | "maxItems" | "uniqueItems" => (&["array"], ""),
            "properties" | "required" | "additionalProperties" => (&["object"], ""),
            _ => continue,
        };
        if kinds.contains(&kind.as_str()) {
            continue;
        }
        let message = format!("`{}` does not apply to the type {kind}", entry.key);
        let other_way = matches!(
            (kind.as_str(), kinds[0]),
            ("string", "number") | ("number" | "integer", "string")
        );
        if other_way && !matches!(name, "pattern" | "format") {
            report.hinted(entry.at, message, format!("use {instead}"));
        } else {
            report.add(entry.at, message);
        }
    }
}
