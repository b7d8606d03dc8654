//! Reads the schemas inside definitions into JSON Schema, and checks them with
//! their positions.
//!
//! Two dialects share one reader. In the *short* dialect, a type name may stand
//! for a schema (`status_code: integer`), constraints are written `min_length`,
//! and unknown keys are errors. *JSON Schema* is what other systems export: any
//! keyword passes, and the type names of Gemini (`STRING`) and Python (`dict`,
//! `float`) are mapped to those of JSON Schema.

use serde_json::{Map, Value, json};

use super::check;
use super::node::{MapEntry, Node, NodeValue, Position};
use super::reader::{self, FaultReport};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Short,
    JsonSchema,
}

/// Types of the short dialect: those of JSON Schema, and `any`.
pub(super) const TYPES: [&str; 7] =
    ["string", "number", "integer", "boolean", "array", "object", "any"];

/// Short names of keywords.
const SHORT_NAMES: [(&str, &str); 8] = [
    ("min_length", "minLength"),
    ("max_length", "maxLength"),
    ("min", "minimum"),
    ("max", "maximum"),
    ("min_items", "minItems"),
    ("max_items", "maxItems"),
    ("unique_items", "uniqueItems"),
    ("multiple_of", "multipleOf"),
];

/// Keywords that the short dialect takes unchanged.
const PLAIN_NAMES: [&str; 20] = [
    "type",
    "pattern",
    "enum",
    "items",
    "properties",
    "required",
    "format",
    "description",
    "default",
    "title",
    "examples",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "multipleOf",
    "additionalProperties",
];

/// Reads a schema.
pub(super) fn read(node: &Node, dialect: Dialect, report: &mut FaultReport<'_>) -> Value {
    match (&node.data, dialect) {
        (NodeValue::Map(entries), _) => {
            let entries: Vec<&MapEntry> = entries.iter().collect();
            let mut schema = Map::new();
            keywords(&entries, dialect, &mut schema, report);
            let mut schema = Value::Object(schema);
            if let Some(default) = entries.iter().find(|entry| entry.key == "default") {
                check_default(&mut schema, &default.value, dialect, report);
            }
            schema
        }
        (NodeValue::Text(_), Dialect::Short) => {
            let mut schema = Map::new();
            schema.extend(read_type(node, dialect, report).map(|name| ("type".to_owned(), name)));
            Value::Object(schema)
        }
        (NodeValue::Bool(flag), Dialect::JsonSchema) => Value::Bool(*flag),
        _ => {
            report.hinted(
                node.at,
                format!("expected a schema, found {}", node.kind_name()),
                "write a type such as `string`, or a mapping with `type`",
            );
            json!({})
        }
    }
}

/// Reads the keywords of one schema and checks that they agree.
pub(super) fn keywords(
    entries: &[&MapEntry],
    dialect: Dialect,
    schema: &mut Map<String, Value>,
    report: &mut FaultReport<'_>,
) {
    let mut nullable = false;
    for entry in entries {
        match long_name(&entry.key, dialect) {
            Some("nullable") if dialect == Dialect::JsonSchema => {
                nullable = matches!(entry.value.data, NodeValue::Bool(true));
            }
            Some(name) => keyword(name, entry, dialect, schema, report),
            None => {
                let short = SHORT_NAMES.iter().map(|(name, _)| *name);
                let known: Vec<&str> = short.chain(PLAIN_NAMES.into_iter().take(9)).collect();
                let what = format!("limit `{}`", entry.key);
                reader::unknown(entry.at, &what, &entry.key, &known, report);
            }
        }
    }
    if nullable {
        allow_null(schema);
    }
    check::bounds(entries, dialect, schema, report);
    if dialect == Dialect::Short {
        check::applies(entries, schema, report);
        if let Some(entry) = entries.iter().find(|entry| entry.key == "required") {
            check::required(schema, entry.at, report);
        }
    }
}

/// Checks the default against the schema. In our own format a mismatch is an
/// error. In foreign schemas it is common and harmless to the author's engine;
/// here it would break every call that omits the value, so it is dropped.
fn check_default(schema: &mut Value, node: &Node, dialect: Dialect, report: &mut FaultReport<'_>) {
    if dialect == Dialect::Short {
        return check::value(schema, node, "the default", report);
    }
    if let Some(misfit) = check::misfit(schema, node, report) {
        let message = format!("the default {}: got {}, and is left out", misfit.place, misfit.got);
        report.note(node.at, message, misfit.expected);
        if let Some(schema) = schema.as_object_mut() {
            schema.shift_remove("default");
        }
    }
}

/// The JSON Schema type for a word of either dialect.
pub(super) fn type_named(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    Some(match word.as_str() {
        "string" | "str" | "text" => "string",
        "number" | "float" | "double" | "decimal" => "number",
        "integer" | "int" | "long" => "integer",
        "boolean" | "bool" => "boolean",
        "array" | "list" | "tuple" => "array",
        "object" | "dict" | "map" | "hashmap" => "object",
        "any" | "type_unspecified" => "any",
        "null" => "null",
        _ => return None,
    })
}

/// The JSON Schema keyword for a key; `None` if the dialect does not know it.
pub(super) fn long_name(key: &str, dialect: Dialect) -> Option<&str> {
    if dialect == Dialect::JsonSchema {
        return Some(key);
    }
    let long = SHORT_NAMES.iter().find(|(short, _)| *short == key).map(|(_, long)| *long);
    long.or_else(|| PLAIN_NAMES.into_iter().find(|name| *name == key))
}

fn keyword(
    name: &str,
    MapEntry { at, value, key }: &MapEntry,
    dialect: Dialect,
    schema: &mut Map<String, Value>,
    report: &mut FaultReport<'_>,
) {
    let read_value = match name {
        "type" => read_type(value, dialect, report),
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            read_each(name, value, dialect, report)
        }
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => match &value.data {
            NodeValue::List(items) => {
                Some(items.iter().map(|item| read(item, dialect, report)).collect())
            }
            _ => wrong(value, key, "a list of schemas", report),
        },
        "items" if matches!(value.data, NodeValue::List(_)) => Some(value.to_json()),
        "items" | "not" | "if" | "then" | "else" | "contains" | "propertyNames" => {
            Some(read(value, dialect, report))
        }
        "additionalProperties" | "unevaluatedProperties" | "unevaluatedItems" => match value.data {
            NodeValue::Bool(flag) => Some(Value::Bool(flag)),
            _ => Some(read(value, dialect, report)),
        },
        "pattern" => read_pattern(value, dialect, report),
        "enum" => match &value.data {
            NodeValue::List(items) if items.is_empty() => {
                report.add(value.at, "`enum` is empty: no value would be allowed");
                None
            }
            NodeValue::List(_) => Some(value.to_json()),
            _ => wrong(value, key, "a list of values", report),
        },
        "required" => read_required(value, report),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            read_count(key, value, dialect, report)
        }
        "minimum" | "maximum" | "multipleOf" => match &value.data {
            NodeValue::Number(number, _) => Some(Value::Number(number.clone())),
            _ => wrong(value, key, "a number", report),
        },
        "description" if dialect == Dialect::Short => {
            reader::i18n(value, key, report).map(|text| Value::String(text.to_string()))
        }
        _ => Some(value.to_json()),
    };
    if let Some(read_value) = read_value
        && schema.insert(name.to_owned(), read_value).is_some()
    {
        report.add(*at, format!("`{key}` is given twice"));
    }
}

/// Reads a type or a list of types; `None` for `any`.
fn read_type(node: &Node, dialect: Dialect, report: &mut FaultReport<'_>) -> Option<Value> {
    if let NodeValue::List(items) = &node.data {
        let names: Vec<Value> =
            items.iter().filter_map(|item| read_type(item, dialect, report)).collect();
        return (names.len() == items.len() && !names.is_empty()).then_some(Value::Array(names));
    }
    // An unquoted `null` arrives as the null value.
    let word = match &node.data {
        NodeValue::Null => "null".to_owned(),
        _ => reader::text(node, "type", report)?,
    };
    let exact = TYPES.into_iter().chain(["null"]).find(|name| *name == word);
    let meant = type_named(&word);
    let found = if dialect == Dialect::Short { exact } else { exact.or(meant) };
    match found {
        Some("any") => None,
        Some(name) => Some(name.into()),
        None => {
            unknown_type(node.at, &word, &TYPES, report);
            None
        }
    }
}

/// Reports an unknown type with the most similar known one.
pub(super) fn unknown_type(at: Position, word: &str, known: &[&str], report: &mut FaultReport<'_>) {
    let message = format!("type `{word}`");
    match type_named(word).filter(|meant| known.contains(meant)) {
        Some(meant) => {
            report.hinted(at, format!("unknown {message}"), format!("did you mean `{meant}`?"));
        }
        None => reader::unknown(at, &message, word, known, report),
    }
}

fn read_each(
    name: &str,
    node: &Node,
    dialect: Dialect,
    report: &mut FaultReport<'_>,
) -> Option<Value> {
    let NodeValue::Map(entries) = &node.data else {
        return wrong(node, name, "a mapping of schemas", report);
    };
    let mut schemas = Map::new();
    for entry in entries {
        schemas.insert(entry.key.clone(), read(&entry.value, dialect, report));
    }
    Some(Value::Object(schemas))
}

fn read_pattern(node: &Node, dialect: Dialect, report: &mut FaultReport<'_>) -> Option<Value> {
    let NodeValue::Text(pattern) = &node.data else {
        return wrong(node, "pattern", "a regular expression", report);
    };
    check::pattern(pattern, node.at, dialect, report).then(|| Value::String(pattern.clone()))
}

fn read_required(node: &Node, report: &mut FaultReport<'_>) -> Option<Value> {
    if matches!(node.data, NodeValue::Bool(_)) {
        report.hinted(
            node.at,
            "`required` inside a schema is a list of property names",
            "list the name in the `required` of the object around it",
        );
        return None;
    }
    let mut names = reader::texts(node, "required", report)?;
    let count = names.len();
    names.sort();
    names.dedup();
    if names.len() < count {
        report.add(node.at, "`required` lists a name twice");
    }
    Some(node.to_json())
}

/// Reads a numeric constraint; Gemini writes 64-bit numbers as strings.
fn read_count(
    key: &str,
    node: &Node,
    dialect: Dialect,
    report: &mut FaultReport<'_>,
) -> Option<Value> {
    if let (NodeValue::Text(text), Dialect::JsonSchema) = (&node.data, dialect)
        && let Ok(number) = text.parse::<u64>()
    {
        return Some(number.into());
    }
    reader::count(node, key, report).map(Value::from)
}

fn allow_null(schema: &mut Map<String, Value>) {
    if let Some(name @ Value::String(_)) = schema.get("type").cloned() {
        schema.insert("type".to_owned(), json!([name, "null"]));
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

fn wrong<T>(node: &Node, key: &str, expected: &str, report: &mut FaultReport<'_>) -> Option<T> {
    report.add(node.at, format!("`{key}` is {expected}, found {}", node.kind_name()));
    None
}
