//! Converts JSON Schema to Gemini's subset of OpenAPI schemas.
//!
//! Unknown keywords are dropped, references are inlined, and some keywords are
//! expressed differently: `const` as an enum, a type with `null` as `nullable`,
//! `oneOf` as `anyOf`. The engine still validates arguments against the whole
//! schema.

use serde_json::{Map, Value, json};

/// Maximum depth of inlined references; a recursive type ends here as an
/// unrestricted object.
const MAX_DEPTH: usize = 12;
/// Maximum number of subschemas of a tool after inlining.
const MAX_SCHEMAS: usize = 2_000;

/// Keywords that are copied unchanged.
const KEPT: [&str; 14] = [
    "title",
    "description",
    "format",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "default",
];

/// Converts the schema of a tool's arguments.
pub(super) fn convert(schema: &Value) -> Value {
    let mut converter = Converter { root: schema, left: MAX_SCHEMAS };
    let mut converted = converter.schema(schema, 0);
    if let Some(map) = converted.as_object_mut() {
        map.insert("type".to_owned(), "object".into());
    }
    converted
}

struct Converter<'s> {
    root: &'s Value,
    left: usize,
}

impl Converter<'_> {
    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        let Some(map) = schema.as_object() else { return json!({}) };
        if depth >= MAX_DEPTH || self.left == 0 {
            return json!({"type": "object"});
        }
        self.left -= 1;
        let mut out = Map::new();
        if let Some(target) = map.get("$ref").and_then(Value::as_str).and_then(|at| self.find(at)) {
            let target = target.clone();
            if let Value::Object(resolved) = self.schema(&target, depth + 1) {
                out = resolved;
            }
        }
        for part in map.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            if let Value::Object(part) = self.schema(part, depth + 1) {
                merge(&mut out, part);
            }
        }
        for (key, value) in map {
            self.keyword(key, value, &mut out, depth);
        }
        finish(&mut out);
        Value::Object(out)
    }

    fn keyword(&mut self, key: &str, value: &Value, out: &mut Map<String, Value>, depth: usize) {
        match (key, value) {
            ("type", _) => set_type(value, out),
            ("properties", Value::Object(properties)) => {
                let converted: Map<String, Value> = properties
                    .iter()
                    .map(|(name, schema)| (name.clone(), self.schema(schema, depth + 1)))
                    .collect();
                merge(out, Map::from_iter([("properties".to_owned(), Value::Object(converted))]));
            }
            ("items", Value::Object(_)) => {
                out.insert("items".to_owned(), self.schema(value, depth + 1));
            }
            ("anyOf" | "oneOf", Value::Array(choices)) => {
                let (nulls, others): (Vec<&Value>, Vec<&Value>) =
                    choices.iter().partition(|choice| choice["type"] == "null");
                if !nulls.is_empty() {
                    out.insert("nullable".to_owned(), true.into());
                }
                let converted: Vec<Value> =
                    others.into_iter().map(|choice| self.schema(choice, depth + 1)).collect();
                match <[Value; 1]>::try_from(converted) {
                    Ok([Value::Object(only)]) => merge(out, only),
                    Ok(_) => {}
                    Err(many) => {
                        out.insert("anyOf".to_owned(), Value::Array(many));
                    }
                }
            }
            ("enum", Value::Array(values)) => set_enum(values, out),
            ("const", value) => set_enum(std::slice::from_ref(value), out),
            ("exclusiveMinimum", Value::Number(_)) => {
                out.entry("minimum").or_insert_with(|| value.clone());
            }
            ("exclusiveMaximum", Value::Number(_)) => {
                out.entry("maximum").or_insert_with(|| value.clone());
            }
            ("nullable", Value::Bool(true)) => {
                out.insert("nullable".to_owned(), true.into());
            }
            (key, value) if KEPT.contains(&key) => {
                out.insert(key.to_owned(), value.clone());
            }
            _ => {}
        }
    }

    /// Resolves a reference within this document.
    fn find(&self, reference: &str) -> Option<&Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }
}

/// Maps a type with `null` to `nullable`, and a list of types to `anyOf`.
fn set_type(value: &Value, out: &mut Map<String, Value>) {
    let Value::Array(names) = value else {
        out.insert("type".to_owned(), value.clone());
        return;
    };
    let others: Vec<&Value> = names.iter().filter(|name| **name != "null").collect();
    if others.len() < names.len() {
        out.insert("nullable".to_owned(), true.into());
    }
    match others.as_slice() {
        [] => {}
        [only] => {
            out.insert("type".to_owned(), (*only).clone());
        }
        many => {
            let choices = many.iter().map(|name| json!({"type": name})).collect();
            out.insert("anyOf".to_owned(), choices);
        }
    }
}

/// Copies an enum of strings; Gemini takes no other values.
fn set_enum(values: &[Value], out: &mut Map<String, Value>) {
    if values.contains(&Value::Null) {
        out.insert("nullable".to_owned(), true.into());
    }
    let texts: Vec<Value> = values.iter().filter(|value| !value.is_null()).cloned().collect();
    if !texts.is_empty() && texts.iter().all(Value::is_string) {
        out.insert("type".to_owned(), "string".into());
        out.insert("enum".to_owned(), Value::Array(texts));
    }
}

/// Merges a schema into another: properties and required names are combined.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(more)) if key == "properties" => {
                known.extend(more);
            }
            (Some(Value::Array(known)), Value::Array(more)) if key == "required" => {
                let new: Vec<Value> =
                    more.into_iter().filter(|name| !known.contains(name)).collect();
                known.extend(new);
            }
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// Repairs what Gemini refuses: required names without a property, arrays
/// without items.
fn finish(schema: &mut Map<String, Value>) {
    let names: Vec<String> = schema
        .get("properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default();
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| names.iter().any(|known| name == known.as_str()));
        if required.is_empty() {
            schema.remove("required");
        }
    }
    if schema.get("type").is_some_and(|kind| kind == "array") {
        schema.entry("items").or_insert_with(|| json!({}));
    }
}
