//! Translates older drafts of JSON Schema to the newest.
//!
//! Many schemas do not state their draft, and are read as 2020-12. Draft 4's
//! `exclusiveMinimum: true`, draft 3's `required: true` and lists under `items`
//! of all drafts before 2020-12 are unambiguous but invalid there. Only schemas
//! that do not compile are translated, and only for validation: models see them
//! as written.

use serde_json::{Map, Value};

/// Keywords whose value is one schema.
const ONE: [&str; 10] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is schemas by name.
pub(super) const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// The translated schema; `None` if nothing had to be translated.
pub(super) fn translated(schema: &Value) -> Option<Value> {
    let mut new = schema.clone();
    // For an unknown draft, the keywords are still mostly known.
    let draft = new.get("$schema").and_then(Value::as_str).unwrap_or_default();
    if !["draft-04", "draft-06", "draft-07", "2019-09", "2020-12"].iter().any(|d| draft.contains(d))
        && let Some(map) = new.as_object_mut()
    {
        map.shift_remove("$schema");
    }
    translate(&mut new);
    (new != *schema).then_some(new)
}

fn translate(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    exclusive(map, "exclusiveMinimum", "minimum");
    exclusive(map, "exclusiveMaximum", "maximum");
    if let Some(Value::Array(items)) = map.get("items") {
        let items = Value::Array(items.clone());
        map.insert("prefixItems".to_owned(), items);
        match map.shift_remove("additionalItems") {
            Some(rest) => map.insert("items".to_owned(), rest),
            None => map.shift_remove("items"),
        };
    }
    if let Some(factor) = map.shift_remove("divisibleBy") {
        map.insert("multipleOf".to_owned(), factor);
    }
    if map.get("type") == Some(&Value::from("any")) {
        map.shift_remove("type");
    }
    lift_required(map);
    for (key, value) in map.iter_mut() {
        let key = key.as_str();
        if NAMED.contains(&key) {
            value.as_object_mut().into_iter().flatten().for_each(|(_, schema)| translate(schema));
        } else if LISTS.contains(&key) {
            value.as_array_mut().into_iter().flatten().for_each(translate);
        } else if ONE.contains(&key) {
            translate(value);
        }
    }
}

/// Draft 4: `minimum: 0, exclusiveMinimum: true`.
fn exclusive(map: &mut Map<String, Value>, flag: &str, bound: &str) {
    let Some(Value::Bool(is_exclusive)) = map.get(flag).cloned() else { return };
    map.shift_remove(flag);
    if is_exclusive && let Some(limit) = map.shift_remove(bound) {
        map.insert(flag.to_owned(), limit);
    }
}

/// Draft 3: a property says of itself that it is required.
fn lift_required(map: &mut Map<String, Value>) {
    let mut lifted = Vec::new();
    for (name, property) in
        map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
    {
        let Some(property) = property.as_object_mut() else { continue };
        if let Some(Value::Bool(is_required)) = property.get("required").cloned() {
            property.shift_remove("required");
            lifted.extend(is_required.then(|| Value::from(name.as_str())));
        }
    }
    if matches!(map.get("required"), Some(Value::Bool(_))) {
        map.shift_remove("required");
    }
    if lifted.is_empty() {
        return;
    }
    match map.get_mut("required") {
        Some(Value::Array(names)) => {
            lifted.retain(|name| !names.contains(name));
            names.append(&mut lifted);
        }
        _ => {
            map.insert("required".to_owned(), Value::Array(lifted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn older_words_become_new_ones_and_data_stays() {
        let old = json!({
            "properties": {
                "n": {"minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false},
                "pair": {"items": [{"type": "string"}, {"divisibleBy": 2}], "additionalItems": false},
                "exclusiveMinimum": {"type": "any", "required": true},
                "data": {"enum": [{"exclusiveMinimum": true}], "default": {"required": true}},
            },
            "anyOf": [{"properties": {"a": {"required": false}}}],
        });
        assert_eq!(
            translated(&old),
            Some(json!({
                "properties": {
                    "n": {"exclusiveMinimum": 0, "maximum": 9},
                    "pair": {"prefixItems": [{"type": "string"}, {"multipleOf": 2}], "items": false},
                    "exclusiveMinimum": {},
                    "data": {"enum": [{"exclusiveMinimum": true}], "default": {"required": true}},
                },
                "required": ["exclusiveMinimum"],
                "anyOf": [{"properties": {"a": {}}}],
            }))
        );
        assert_eq!(
            translated(&json!({"type": "object", "properties": {"n": {"minimum": 1}}})),
            None
        );
    }
}
