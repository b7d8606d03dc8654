//! Merges the members of `allOf` into one schema.
//!
//! Models read one object with all its properties better than a list of partial ones.
//! What one schema cannot express stays an `allOf`.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::NUMBER;

/// A schema equivalent to both.
pub(super) fn both(first: Value, second: Value) -> Value {
    let (Value::Object(first), Value::Object(second)) = (first, second) else { return json!({}) };
    if first.is_empty() {
        return Value::Object(second);
    }
    if second.is_empty() {
        return Value::Object(first);
    }
    if first.contains_key(NUMBER) || second.contains_key(NUMBER) {
        return separate(first, second);
    }
    let clash = |key: &str| first.get(key).zip(second.get(key)).is_some_and(|(a, b)| a != b);
    // Two sets of alternatives, or of conditions, cannot be merged.
    if [
        "anyOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "pattern",
        "patternProperties",
        "contains",
        "prefixItems",
        "propertyNames",
        "dependentSchemas",
    ]
    .into_iter()
    .any(clash)
    {
        return separate(first, second);
    }
    let Ok(types) = types(first.get("type"), second.get("type")) else {
        return separate(first, second);
    };
    let mut out = first;
    if let Some(types) = types {
        out.insert("type".to_owned(), types);
    }
    for (key, value) in second {
        match out.get_mut(&key) {
            None => drop(out.insert(key, value)),
            Some(known) => *known = keyword(&key, known.take(), value),
        }
    }
    // Each side counts only its own properties; together they would reject each other's.
    if out.get("additionalProperties") == Some(&Value::Bool(false)) && out.contains_key("anyOf") {
        out.shift_remove("additionalProperties");
    }
    Value::Object(out)
}

fn keyword(key: &str, first: Value, second: Value) -> Value {
    match (key, first, second) {
        (_, first, second) if first == second => first,
        ("properties", Value::Object(mut first), Value::Object(second)) => {
            for (name, value) in second {
                match first.get_mut(&name) {
                    Some(known) => *known = both(known.take(), value),
                    None => drop(first.insert(name, value)),
                }
            }
            Value::Object(first)
        }
        ("required", Value::Array(mut first), Value::Array(second)) => {
            let known: HashSet<String> =
                first.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            let is_new = |name: &Value| name.as_str().is_some_and(|name| !known.contains(name));
            first.extend(second.into_iter().filter(is_new));
            Value::Array(first)
        }
        ("enum", Value::Array(first), Value::Array(second)) => {
            let shared: Vec<Value> =
                first.iter().filter(|value| second.contains(value)).cloned().collect();
            // An empty intersection is a mistake in the document.
            Value::Array(if shared.is_empty() { second } else { shared })
        }
        ("items", first, second) => both(first, second),
        // The types were merged before.
        ("type", first, _) => first,
        ("additionalProperties", Value::Bool(false), other)
        | ("additionalProperties", other, Value::Bool(false)) => {
            if other.is_object() {
                other
            } else {
                Value::Bool(false)
            }
        }
        ("minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties", a, b) => {
            if a.as_f64() >= b.as_f64() { a } else { b }
        }
        ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties", a, b) => {
            if a.as_f64() <= b.as_f64() { a } else { b }
        }
        // The outer keyword takes precedence.
        (_, first, _) => first,
    }
}

/// Two schemas without a common type.
struct Disjoint;

/// The types that both allow; `None` if neither has a `type`.
fn types(first: Option<&Value>, second: Option<&Value>) -> Result<Option<Value>, Disjoint> {
    let (Some(first), Some(second)) = (first, second) else {
        return Ok(first.or(second).cloned());
    };
    let list = |types: &Value| match types {
        Value::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    let (first, second) = (list(first), list(second));
    let number = json!("number");
    let shared: Vec<Value> = first
        .iter()
        .filter(|one| second.contains(one) || **one == "integer" && second.contains(&number))
        .cloned()
        .collect();
    match shared.len() {
        0 => Err(Disjoint),
        1 => Ok(Some(shared[0].clone())),
        _ => Ok(Some(Value::Array(shared))),
    }
}

fn separate(first: Map<String, Value>, second: Map<String, Value>) -> Value {
    let mut all = Vec::new();
    let mut out = Map::new();
    for mut one in [first, second] {
        // A description of the whole stays in front.
        if let Some(text) = one.shift_remove("description") {
            out.entry("description").or_insert(text);
        }
        match one.len() {
            0 => {}
            1 if one.get("allOf").is_some_and(Value::is_array) => {
                if let Some(Value::Array(inner)) = one.shift_remove("allOf") {
                    all.extend(inner);
                }
            }
            _ => all.push(Value::Object(one)),
        }
    }
    match all.len() {
        1 => {
            if let Some(Value::Object(one)) = all.pop() {
                out.extend(one);
            }
        }
        _ => drop(out.insert("allOf".to_owned(), Value::Array(all))),
    }
    Value::Object(out)
}
