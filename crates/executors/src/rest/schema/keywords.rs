//! Translates single schema keywords.

use std::collections::HashSet;

use serde_json::{Map, Number, Value, json};

use super::{Direction, Shaper};
use crate::rest::document::At;
use crate::rest::media::{self, Form};

/// Formats that are validated; others are documentation only.
const FORMATS: [&str; 9] =
    ["date", "date-time", "time", "email", "uri", "uuid", "ipv4", "ipv6", "hostname"];
/// An enum with more values is dropped; no model would choose from it.
const MAX_ENUM: usize = 1_000;

/// Whether null is allowed, by OpenAPI 3.0 and older.
pub(super) fn nullable(map: &Map<String, Value>) -> bool {
    ["nullable", "x-nullable"].iter().any(|key| map.get(*key) == Some(&Value::Bool(true)))
}

impl<'d> Shaper<'d> {
    /// All keywords except `allOf`, `oneOf` and `anyOf`.
    pub(super) fn keywords(
        &mut self,
        at: At<'d>,
        map: &'d Map<String, Value>,
    ) -> Map<String, Value> {
        if is_file(map) {
            return self.file(map);
        }
        let mut out = Map::new();
        if let Some(types) = self.types(map) {
            out.insert("type".to_owned(), types);
        }
        if let Some(Value::String(text)) =
            map.get("description").or_else(|| map.get("title")).filter(|text| text.is_string())
        {
            let text = text.trim();
            if !text.is_empty() {
                out.insert("description".to_owned(), json!(text));
            }
        }
        if map.get("deprecated") == Some(&Value::Bool(true)) {
            let text = out.get("description").and_then(Value::as_str).unwrap_or_default();
            let text = format!("Deprecated. {text}");
            out.insert("description".to_owned(), json!(text.trim_end()));
        }
        self.values(map, &mut out);
        self.bounds(map, &mut out);
        self.parts(at, map, &mut out);
        default(map, &mut out);
        out
    }

    fn types(&mut self, map: &Map<String, Value>) -> Option<Value> {
        let one = |name: &str| match name.to_ascii_lowercase().as_str() {
            name @ ("string" | "number" | "integer" | "boolean" | "array" | "object" | "null") => {
                Some(name.to_owned())
            }
            "int" | "int32" | "int64" | "long" => Some("integer".to_owned()),
            "float" | "double" | "decimal" => Some("number".to_owned()),
            "bool" => Some("boolean".to_owned()),
            "list" => Some("array".to_owned()),
            "dict" | "map" => Some("object".to_owned()),
            "str" | "text" | "date" | "datetime" | "date-time" | "uuid" | "enum" => {
                Some("string".to_owned())
            }
            _ => None,
        };
        match map.get("type") {
            Some(Value::String(name)) => match one(name) {
                Some(name) => Some(json!(name)),
                None => {
                    if !matches!(name.as_str(), "any" | "") {
                        self.note(format!("the type `{}` is not known", super::shorten(name)));
                    }
                    None
                }
            },
            Some(Value::Array(names)) => {
                let mut known: Vec<String> = Vec::new();
                for name in names.iter().filter_map(Value::as_str).filter_map(one) {
                    if !known.contains(&name) {
                        known.push(name);
                    }
                }
                match known.len() {
                    0 => None,
                    1 => Some(json!(known[0])),
                    _ => Some(json!(known)),
                }
            }
            _ if map.get("properties").is_some_and(Value::is_object)
                || map.get("additionalProperties").is_some_and(Value::is_object) =>
            {
                Some(json!("object"))
            }
            _ if map.get("items").is_some_and(Value::is_object) => Some(json!("array")),
            _ => None,
        }
    }

    fn values(&mut self, map: &Map<String, Value>, out: &mut Map<String, Value>) {
        if let Some(Value::Array(values)) = map.get("enum").filter(|_| !map.contains_key("const")) {
            let mut kept: Vec<Value> = Vec::new();
            let few = values.iter().take(MAX_ENUM).map(|value| as_type(value, out.get("type")));
            for value in few {
                if !kept.contains(&value) {
                    kept.push(value);
                }
            }
            if values.len() > MAX_ENUM {
                let count = values.len();
                self.note(format!("a choice of {count} values is described, not checked"));
            } else if !kept.is_empty() {
                out.insert("enum".to_owned(), Value::Array(kept));
            }
        }
        if let Some(value) = map.get("const") {
            out.insert("const".to_owned(), value.clone());
        }
        if let Some(Value::String(format)) = map.get("format")
            && FORMATS.contains(&format.as_str())
        {
            out.insert("format".to_owned(), json!(format));
        }
        if let Some(Value::String(pattern)) = map.get("pattern") {
            if self.usable(pattern) {
                out.insert("pattern".to_owned(), json!(pattern));
            } else {
                self.note("a pattern that cannot be checked here is left out");
            }
        }
    }

    fn bounds(&mut self, map: &Map<String, Value>, out: &mut Map<String, Value>) {
        for word in [
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "minContains",
            "maxContains",
        ] {
            if let Some(count) = map.get(word).and_then(count) {
                out.insert(word.to_owned(), Value::Number(count));
            }
        }
        for (word, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")]
        {
            let limit = map.get(word).filter(|limit| limit.is_number());
            match (map.get(exclusive), limit) {
                // As in OpenAPI 3.0 and draft 4.
                (Some(Value::Bool(true)), Some(limit)) => {
                    out.insert(exclusive.to_owned(), limit.clone());
                }
                (Some(Value::Number(limit)), _) => {
                    out.insert(exclusive.to_owned(), Value::Number(limit.clone()));
                }
                (_, Some(limit)) => drop(out.insert(word.to_owned(), limit.clone())),
                _ => {}
            }
        }
        // Fractions are inexact in floating point, so only integers are kept.
        if let Some(step) = map.get("multipleOf").and_then(Value::as_u64).filter(|step| *step > 1) {
            out.insert("multipleOf".to_owned(), json!(step));
        }
        if map.get("uniqueItems") == Some(&Value::Bool(true)) {
            out.insert("uniqueItems".to_owned(), json!(true));
        }
    }

    fn parts(&mut self, at: At<'d>, map: &'d Map<String, Value>, out: &mut Map<String, Value>) {
        let mut gone: Vec<&str> = Vec::new();
        if map.get("properties").is_some_and(Value::is_object) {
            let mut properties = Map::new();
            let all = map["properties"].as_object().into_iter().flatten();
            for (name, value) in all {
                let part = At { value, ..at };
                if self.left_out(part) {
                    gone.push(name);
                } else {
                    properties.insert(name.clone(), self.any(part));
                }
            }
            out.insert("properties".to_owned(), Value::Object(properties));
        }
        if let Some(Value::Array(names)) = map.get("required") {
            let mut known: HashSet<&str> = gone.into_iter().collect();
            let names = names.iter().filter_map(Value::as_str);
            let kept: Vec<&str> =
                names.filter(|name| known.insert(name) && !impossible(map, name)).collect();
            if !kept.is_empty() {
                out.insert("required".to_owned(), json!(kept));
            }
        }
        match map.get("additionalProperties") {
            Some(Value::Bool(false)) => {
                out.insert("additionalProperties".to_owned(), json!(false));
            }
            // An empty schema says nothing.
            Some(Value::Object(inner)) if !inner.is_empty() => {
                let shaped = self.any(At { value: &map["additionalProperties"], ..at });
                out.insert("additionalProperties".to_owned(), shaped);
            }
            _ => {}
        }
        for word in ["items", "contains", "propertyNames", "not", "if", "then", "else"] {
            // In a response these only restrict; an array of `items` is draft 4's.
            let wanted = word == "items" || self.direction != Direction::Response;
            if let Some(part) = at.get(word).filter(|part| wanted && !part.value.is_array()) {
                let shaped = self.any(part);
                out.insert(word.to_owned(), shaped);
            }
        }
        let first: Vec<Value> = at.list("prefixItems").map(|part| self.any(part)).collect();
        if !first.is_empty() {
            out.insert("prefixItems".to_owned(), Value::Array(first));
        }
        for word in ["patternProperties", "dependentSchemas"] {
            let mut shaped = Map::new();
            for (name, part) in at.map(word) {
                if word == "dependentSchemas" || self.usable(name) {
                    shaped.insert(name.to_owned(), self.any(part));
                }
            }
            if !shaped.is_empty() {
                out.insert(word.to_owned(), Value::Object(shaped));
            }
        }
        if let Some(names) = map.get("dependentRequired").filter(|names| names.is_object()) {
            out.insert("dependentRequired".to_owned(), names.clone());
        }
    }

    /// Binary data: as text or base64, so that a model can write either.
    fn file(&mut self, map: &Map<String, Value>) -> Map<String, Value> {
        let text = map.get("description").and_then(Value::as_str).map(str::trim);
        let text = text.filter(|text| !text.is_empty()).unwrap_or("A file.");
        let file = match self.direction {
            Direction::Form => file_schema(text),
            Direction::Request | Direction::Response => {
                json!({"type": "string", "description": text})
            }
        };
        match file {
            Value::Object(file) => file,
            _ => Map::new(),
        }
    }
}

/// The schema of a file argument.
pub(crate) fn file_schema(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "properties": {
            "text": {"type": "string", "description": "The content, if it is text"},
            "base64": {"type": "string", "description": "The content in base64, if it is not"},
            "filename": {"type": "string"},
            "content_type": {"type": "string"},
        },
        "anyOf": [{"required": ["text"]}, {"required": ["base64"]}],
        "additionalProperties": false,
    })
}

/// Whether a schema describes binary data.
pub(super) fn is_file(map: &Map<String, Value>) -> bool {
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    text("type") == Some("file")
        || text("type") == Some("string") && text("format") == Some("binary")
        // OpenAPI 3.1: raw bytes, for instance `image/png`. Text is text, and encoded
        // content is encoded by the caller.
        || text("contentMediaType")
            .is_some_and(|kind| matches!(media::form(kind), Form::Bytes))
            && text("contentEncoding").is_none_or(|encoding| encoding == "binary")
            && text("type").is_none_or(|kind| kind == "string")
}

/// Converts a value to its declared type: `enum: [1, 2]` for a string means strings.
fn as_type(value: &Value, types: Option<&Value>) -> Value {
    match (types.and_then(Value::as_str), value) {
        (Some("string"), Value::Number(number)) => json!(number.to_string()),
        (Some("string"), Value::Bool(flag)) => json!(flag.to_string()),
        (Some("integer" | "number"), Value::String(text)) => {
            text.parse::<Number>().map_or_else(|_| value.clone(), Value::Number)
        }
        (Some("boolean"), Value::String(text)) => match text.as_str() {
            "true" => json!(true),
            "false" => json!(false),
            _ => value.clone(),
        },
        _ => value.clone(),
    }
}

/// Keeps a valid default, which tells the model what the API assumes. An invalid one
/// would mislead it.
fn default(map: &Map<String, Value>, out: &mut Map<String, Value>) {
    let Some(value) = map.get("default") else { return };
    let value = as_type(value, out.get("type"));
    let fits = match out.get("type").and_then(Value::as_str) {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        _ => false,
    };
    let listed =
        out.get("enum").is_none_or(|all| all.as_array().is_some_and(|all| all.contains(&value)));
    let plain = ![
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minLength",
        "maxLength",
        "multipleOf",
    ]
    .iter()
    .any(|word| out.contains_key(*word));
    let bounded = || {
        let mut schema = out.clone();
        schema.shift_remove("description");
        windlass::definition::accepts(&Value::Object(schema), &value)
    };
    if fits && listed && (plain || bounded()) {
        out.insert("default".to_owned(), value);
    }
}

/// Whether a schema requires a property that it does not allow.
fn impossible(map: &Map<String, Value>, name: &str) -> bool {
    let alone = !["allOf", "anyOf", "oneOf", "patternProperties"]
        .iter()
        .any(|word| map.contains_key(*word));
    let known = map.get("properties").is_some_and(|all| all.get(name).is_some());
    alone && !known && map.get("additionalProperties") == Some(&Value::Bool(false))
}

/// A count. Some documents write `1.0` or `"1"`.
fn count(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) => number
            .as_u64()
            .or_else(|| {
                number
                    .as_f64()
                    .filter(|n| n.fract() == 0.0 && (0.0..1e15).contains(n))
                    .map(|n| n as u64)
            })
            .map(Number::from),
        Value::String(text) => text.parse::<u64>().ok().map(Number::from),
        _ => None,
    }
}
