//! Rewrites JSON Schemas into the forms that client generators support.
//!
//! JSON Schema has several ways to say the same thing, and generators know one of
//! them: a choice of strings is an `enum` and not a list of `const`, any value is
//! `{}` and not `true`, an array has `items`, and optional fields have no `default`,
//! which some generators take for a promise that the field is present. What
//! validators accept does not change.

use serde_json::{Map, Value, json};

const ONE: [&str; 8] =
    ["items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"];
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const MAPS: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];

/// Rewrites every schema of the operations.
pub(super) fn paths(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                match key.as_str() {
                    "schema" => schema(inner),
                    "example" | "examples" => {}
                    _ => paths(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(paths),
        _ => {}
    }
}

/// Rewrites one schema and all that it is made of.
pub(super) fn schema(value: &mut Value) {
    match value {
        Value::Bool(true) => *value = json!({}),
        Value::Bool(false) => *value = json!({"not": {}}),
        Value::Object(map) => object(map),
        _ => {}
    }
}

fn object(map: &mut Map<String, Value>) {
    if map.get("default").is_some_and(Value::is_null) {
        map.shift_remove("default");
    }
    for key in ["oneOf", "anyOf"] {
        choice(map, key);
    }
    let is_list = |kind: &Value| {
        kind == "array" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("array")))
    };
    if map.get("type").is_some_and(is_list) && !map.contains_key("prefixItems") {
        map.entry("items").or_insert_with(|| json!({}));
    }
    optional(map);
    for key in ONE {
        if let Some(inner) = map.get_mut(key) {
            // Whether there may be others is said with a boolean everywhere.
            if !(key == "additionalProperties" && inner.is_boolean()) {
                schema(inner);
            }
        }
    }
    for key in LISTS {
        let inner = map.get_mut(key).and_then(Value::as_array_mut);
        inner.into_iter().flatten().for_each(schema);
    }
    for key in MAPS {
        let inner = map.get_mut(key).and_then(Value::as_object_mut);
        inner.into_iter().flat_map(Map::values_mut).for_each(schema);
    }
}

/// Tells the defaults of properties that need not be there in words.
fn optional(map: &mut Map<String, Value>) {
    let required = map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, property) in properties {
        let Some(property) = property.as_object_mut() else { continue };
        if required.iter().any(|own| own == name.as_str()) {
            continue;
        }
        let Some(default) = property.shift_remove("default") else { continue };
        let says_nothing = match &default {
            Value::Null | Value::Bool(false) => true,
            Value::Object(map) => map.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        if !says_nothing {
            let own = property.get("description").and_then(Value::as_str).unwrap_or_default();
            let text = format!("{own}\n\nDefault: `{default}`");
            property.insert("description".to_owned(), text.trim().into());
        }
    }
}

/// Makes a list of constants one `enum`, and tells what each means in words.
fn choice(map: &mut Map<String, Value>, key: &str) {
    let Some(all) = map.get(key).and_then(Value::as_array) else { return };
    let words = |one: &Value| -> Option<Vec<Value>> {
        let is_text = one.get("type").is_none_or(|kind| kind == "string");
        let said = match (one.get("const"), one.get("enum").and_then(Value::as_array)) {
            (Some(word), _) => vec![word.clone()],
            (None, Some(words)) => words.clone(),
            (None, None) => return None,
        };
        (is_text && said.iter().all(Value::is_string)).then_some(said)
    };
    let Some(choices) = all.iter().map(words).collect::<Option<Vec<_>>>() else { return };
    let told = all.iter().zip(&choices).filter_map(|(one, words)| {
        let about = one.get("description")?.as_str()?;
        Some(format!("- `{}`: {about}", words.first()?.as_str()?))
    });
    let told: Vec<String> = told.collect();
    let choices: Vec<Value> = choices.into_iter().flatten().collect();
    if choices.is_empty() {
        return;
    }
    if !told.is_empty() {
        let own = map.get("description").and_then(Value::as_str).unwrap_or_default();
        let text = format!("{own}\n\n{}", told.join("\n"));
        map.insert("description".to_owned(), text.trim().into());
    }
    map.shift_remove(key);
    map.insert("type".to_owned(), "string".into());
    map.insert("enum".to_owned(), choices.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_written_the_way_that_generators_know() {
        let mut written = json!({
            "type": "object",
            "properties": {
                "any": true,
                "kind": {"oneOf": [
                    {"type": "string", "const": "a", "description": "The first."},
                    {"type": "string", "enum": ["b", "c"]},
                ]},
                "list": {"type": ["array", "null"], "default": null},
                "either": {"anyOf": [{"const": 1}, {"type": "null"}]},
                "limit": {"type": "integer", "default": 50, "description": "How many."},
                "named": {"type": "string", "default": "x"},
            },
            "required": ["named"],
            "additionalProperties": false,
        });
        schema(&mut written);
        assert_eq!(
            written,
            json!({
                "type": "object",
                "properties": {
                    "any": {},
                    "kind": {"type": "string", "enum": ["a", "b", "c"],
                        "description": "- `a`: The first."},
                    "list": {"type": ["array", "null"], "items": {}},
                    "either": {"anyOf": [{"const": 1}, {"type": "null"}]},
                    "limit": {"type": "integer", "description": "How many.\n\nDefault: `50`"},
                    "named": {"type": "string", "default": "x"},
                },
                "required": ["named"],
                "additionalProperties": false,
            })
        );
    }
}
