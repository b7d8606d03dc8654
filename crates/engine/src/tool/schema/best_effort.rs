//! Foreign schemas that do not compile: what can be checked is checked, and the
//! rest is left to the upstream.

use serde_json::{Map, Value, json};

use super::older_drafts::{self, NAMED};
use super::{Fill, Schema, SchemaError};
use crate::value::pointer;

/// Maximum number of parts that are removed before giving up.
const MAX_TAKEN_OUT: usize = 64;
/// Maximum number of them that are reported.
const MAX_TOLD: usize = 3;

/// Compiles the strictest schema that is valid, and reports what it does not
/// check.
pub(super) fn compile(
    schema: &Value,
    fill: &Fill<'_>,
    SchemaError { why, .. }: SchemaError,
) -> Result<(Schema, String), SchemaError> {
    let mut rest = older_drafts::translated(schema).unwrap_or_else(|| schema.clone());
    drop_foreign(&mut rest);
    let mut taken = Vec::new();
    for _ in 0..MAX_TAKEN_OUT {
        let refused = match Schema::build(&rest, fill) {
            Ok(schema) => return Ok((schema, told(&taken, &why))),
            Err(refused) => refused,
        };
        let Some(place) = refused.place.filter(|place| take_out(&mut rest, place)) else { break };
        taken.push(place);
    }
    let schema = Schema::build(&outline(schema), &Fill::Nothing)
        .or_else(|_| Schema::build(&json!({"type": "object"}), &Fill::Nothing))?;
    Ok((schema, format!("only the names of arguments are checked: {why}")))
}

fn told(taken: &[String], why: &str) -> String {
    let mut places: Vec<&str> = taken.iter().take(MAX_TOLD).map(String::as_str).collect();
    if taken.len() > MAX_TOLD {
        places.push("…");
    }
    match places.is_empty() {
        true => format!("a part of the schema is not checked: {why}"),
        false => format!("{} is not checked: {why}", places.join(", ")),
    }
}

/// Removes references that cannot be resolved: external documents are never
/// fetched.
fn drop_foreign(schema: &mut Value) {
    let whole = schema.clone();
    drop_references(schema, &whole);
}

fn drop_references(schema: &mut Value, whole: &Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref")
                && !leads_somewhere(reference, whole)
            {
                map.shift_remove("$ref");
            }
            map.values_mut().for_each(|value| drop_references(value, whole));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_references(item, whole)),
        _ => {}
    }
}

/// Anchors are not looked up: compiling finds out whether they exist.
fn leads_somewhere(reference: &str, whole: &Value) -> bool {
    match reference.strip_prefix('#') {
        Some(place) if place.is_empty() || place.starts_with('/') => whole.pointer(place).is_some(),
        Some(_) => true,
        None => false,
    }
}

/// Removes the keyword at, or around, a location.
fn take_out(schema: &mut Value, place: &str) -> bool {
    let mut place = place;
    while let Some((around, key)) = place.rsplit_once('/') {
        let name = around.rsplit('/').next().unwrap_or_default();
        if let Some(Value::Object(map)) = schema.pointer_mut(around) {
            let key = pointer::unescape(key);
            // A property that cannot be checked is still a known one.
            return match NAMED.contains(&name) && map.get(&key) != Some(&json!({})) {
                true => map.insert(key, json!({})).is_some(),
                false => map.shift_remove(&key).is_some(),
            };
        }
        place = around;
    }
    false
}

/// Keeps only the names of properties.
fn outline(schema: &Value) -> Value {
    let names = |key: &str| -> Vec<&str> {
        schema
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    let mut required = names("required");
    required.sort_unstable();
    required.dedup();
    let properties: Map<String, Value> = crate::tool::object(schema, "properties")
        .into_iter()
        .flat_map(Map::keys)
        .map(|name| (name.clone(), json!({})))
        .collect();
    let mut outline = json!({"type": "object", "properties": properties, "required": required});
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        outline["additionalProperties"] = json!(false);
    }
    outline
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best_effort(schema: &Value) -> (Schema, String) {
        let (schema, unchecked) = Schema::of_others(schema, &Fill::Nothing).unwrap();
        (schema, unchecked.unwrap_or_default())
    }

    #[test]
    fn what_can_be_checked_is_checked() {
        let (schema, unchecked) = best_effort(&json!({
            "type": "object",
            "properties": {
                "a": {"type": "strng"},
                "b": {"type": "integer", "pattern": "("},
                "c": "nonsense",
                "d": {"$ref": "https://example.com/schema.json"},
                "e": {"type": "string", "enum": "x"},
                "f": {"type": "boolean"},
            },
            "required": ["f"],
            "additionalProperties": false,
        }));
        assert!(unchecked.contains("is not checked"), "{unchecked}");
        assert!(schema.accepts(&json!({"a": 1, "b": 2, "c": 3, "d": 4, "e": "5", "f": true})));
        for wrong in [
            json!({"f": 1}),
            json!({}),
            json!({"f": true, "b": "x"}),
            json!({"f": true, "e": 5}),
            json!({"f": true, "z": 1}),
        ] {
            assert!(!schema.accepts(&wrong), "{wrong}");
        }
    }

    #[test]
    fn of_a_bomb_the_names_are_checked() {
        let mut bomb = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n0"}},
            "required": ["a", "a"], "additionalProperties": false, "$defs": {}});
        for n in 0..30 {
            let next = json!({"$ref": format!("#/$defs/n{}", n + 1)});
            bomb["$defs"][format!("n{n}")] = json!({"allOf": [next, next]});
        }
        bomb["$defs"]["n30"] = json!({});
        let (schema, unchecked) = best_effort(&bomb);
        assert!(unchecked.contains("only the names"), "{unchecked}");
        assert!(schema.accepts(&json!({"a": 1})));
        assert!(!schema.accepts(&json!({})) && !schema.accepts(&json!({"a": 1, "b": 2})));
    }

    #[test]
    fn older_drafts_are_checked_in_full() {
        let old = json!({"properties": {"n": {"minimum": 0, "exclusiveMinimum": true}}});
        let (schema, unchecked) = best_effort(&old);
        assert_eq!(unchecked, "");
        assert!(schema.accepts(&json!({"n": 1})) && !schema.accepts(&json!({"n": 0})));
        assert!(Schema::compile(&old).is_ok());
    }
}
