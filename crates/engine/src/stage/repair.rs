//! Repairs arguments of the wrong type where the meaning is unambiguous: `"5"`
//! for a number, `"false"` for a boolean, a JSON string for an array or object,
//! `null` for an absent optional. Nothing else.

use std::collections::HashSet;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::{Number, Value};

use crate::tool::Schema;
use crate::value::pointer;

/// Maximum rounds: a repaired object may need further repair inside.
const ROUNDS: usize = 8;
/// Maximum number of values with alternatives that are tried per call.
const MAX_TRIED: usize = 32;

/// Repairs in place. Returns whether the value is valid now.
pub(super) fn repair(schema: &Schema, value: &mut Value) -> bool {
    let mut tried = 0;
    for _ in 0..ROUNDS {
        let faults: Vec<TypeMismatch> =
            schema.errors(value).filter_map(|error| TypeMismatch::of(&error)).collect();
        let mut changed = false;
        let mut nulls = Vec::new();
        for fault in faults {
            match (value.pointer(&fault.path), &fault.wanted) {
                (Some(Value::Null), _) => nulls.extend(take_null(value, &fault.path)),
                (Some(Value::String(text)), Some(wanted)) => {
                    if let Some(meant) = read(text, |kind| wanted.contains(&kind)) {
                        changed |= put(value, &fault.path, meant).is_some();
                    }
                }
                (Some(Value::String(text)), None) if tried < MAX_TRIED => {
                    tried += 1;
                    if let Some(meant) = read(text, |_| true) {
                        changed |= try_out(schema, value, &fault.path, meant);
                    }
                }
                _ => {}
            }
        }
        let taken = nulls.len();
        changed |= put_back_required(schema, value, nulls) < taken;
        if schema.accepts(value) {
            return true;
        }
        if !changed {
            return false;
        }
    }
    false
}

/// A value of the wrong type.
struct TypeMismatch {
    path: String,
    /// The accepted types; `None` if the schema has alternatives.
    wanted: Option<Vec<JsonType>>,
}

impl TypeMismatch {
    fn of(error: &ValidationError<'_>) -> Option<Self> {
        let wanted = match error.kind() {
            ValidationErrorKind::Type { kind: TypeKind::Single(one) } => Some(vec![*one]),
            ValidationErrorKind::Type { kind: TypeKind::Multiple(many) } => {
                Some(many.iter().collect())
            }
            ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. } => None,
            _ => return None,
        };
        let path = error.instance_path().as_str().to_owned();
        (!path.is_empty()).then_some(Self { path, wanted })
    }
}

/// Interprets a string as one of the wanted types.
fn read(text: &str, wants: impl Fn(JsonType) -> bool) -> Option<Value> {
    let text = text.trim();
    match text.as_bytes().first()? {
        b'{' if wants(JsonType::Object) => serde_json::from_str(text).ok(),
        b'[' if wants(JsonType::Array) => serde_json::from_str(text).ok(),
        b'-' | b'0'..=b'9' if wants(JsonType::Integer) || wants(JsonType::Number) => {
            let number: Number = serde_json::from_str(text).ok()?;
            let whole = number.as_f64().is_some_and(|float| float.fract() == 0.0);
            (whole || wants(JsonType::Number)).then_some(Value::Number(number))
        }
        _ if !wants(JsonType::Boolean) => None,
        _ if text.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
        _ if text.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
        _ => None,
    }
}

/// Replaces a value, and returns the previous one.
fn put(root: &mut Value, path: &str, value: Value) -> Option<Value> {
    root.pointer_mut(path).map(|slot| std::mem::replace(slot, value))
}

/// Replaces a value, and undoes that if the schema still rejects it.
fn try_out(schema: &Schema, root: &mut Value, path: &str, value: Value) -> bool {
    let Some(before) = put(root, path, value) else { return false };
    let still_wrong = schema
        .errors(root)
        .filter_map(|error| TypeMismatch::of(&error))
        .any(|fault| fault.path == path);
    if still_wrong {
        put(root, path, before);
    }
    !still_wrong
}

/// A `null` that was removed from an object.
struct RemovedNull {
    parent: String,
    key: String,
    position: usize,
}

fn take_null(root: &mut Value, path: &str) -> Option<RemovedNull> {
    let (parent, key) = path.rsplit_once('/')?;
    let key = pointer::unescape(key);
    let map = root.pointer_mut(parent)?.as_object_mut()?;
    let position = map.keys().position(|own| *own == key)?;
    map.shift_remove(&key);
    Some(RemovedNull { parent: parent.to_owned(), key, position })
}

/// Restores the nulls that the schema requires, so that they are reported as
/// such. Returns how many.
fn put_back_required(schema: &Schema, root: &mut Value, nulls: Vec<RemovedNull>) -> usize {
    if nulls.is_empty() {
        return 0;
    }
    let required: HashSet<(String, String)> = schema
        .errors(root)
        .filter_map(|error| match error.kind() {
            ValidationErrorKind::Required { property: Value::String(key) } => {
                Some((error.instance_path().as_str().to_owned(), key.clone()))
            }
            _ => None,
        })
        .collect();
    let mut back = 0;
    // Restored in reverse order, so that positions are right.
    for RemovedNull { parent, key, position } in nulls.into_iter().rev() {
        if required.contains(&(parent.clone(), key.clone()))
            && let Some(Value::Object(map)) = root.pointer_mut(&parent)
        {
            map.shift_insert(position.min(map.len()), key, Value::Null);
            back += 1;
        }
    }
    back
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn repaired(schema: &Value, mut value: Value) -> Option<Value> {
        let schema = Schema::compile(schema).unwrap();
        repair(&schema, &mut value).then_some(value)
    }

    #[test]
    fn plain_meanings_are_repaired() {
        let schema = json!({
            "type": "object",
            "properties": {
                "n": {"type": "integer"}, "x": {"type": "number"}, "b": {"type": "boolean"},
                "list": {"type": "array", "items": {"type": "integer"}},
                "o": {"type": "object", "properties": {"k": {"type": "integer"}}},
                "s": {"type": "string"},
                "any": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
        });
        for (before, after) in [
            (json!({"n": "5"}), json!({"n": 5})),
            (json!({"n": " 5 "}), json!({"n": 5})),
            (json!({"x": "-1.5e3"}), json!({"x": -1500.0})),
            (json!({"b": "False"}), json!({"b": false})),
            (json!({"list": "[1, 2]"}), json!({"list": [1, 2]})),
            (json!({"list": "[\"1\"]"}), json!({"list": [1]})),
            (json!({"list": ["1", 2]}), json!({"list": [1, 2]})),
            (json!({"o": "{\"k\": \"7\"}"}), json!({"o": {"k": 7}})),
            (json!({"n": null, "s": "a"}), json!({"s": "a"})),
            (json!({"any": "3"}), json!({"any": 3})),
            (
                json!({"list": (0..500).map(|n| n.to_string()).collect::<Vec<_>>()}),
                json!({"list": (0..500).collect::<Vec<_>>()}),
            ),
        ] {
            assert_eq!(repaired(&schema, before.clone()), Some(after), "{before}");
        }
        for hopeless in [
            json!({"n": "five"}),
            json!({"n": "5.5"}),
            json!({"n": ""}),
            json!({"b": "yes"}),
            json!({"b": 1}),
            json!({"s": 5}),
            json!({"list": "1,2"}),
            json!({"o": "[]"}),
            json!({"n": "0x10"}),
            json!({"n": "1_000"}),
        ] {
            assert_eq!(repaired(&schema, hopeless.clone()), None, "{hopeless}");
        }
    }

    #[test]
    fn a_required_null_stays_and_is_reported() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "required": ["a"],
        });
        let compiled = Schema::compile(&schema).unwrap();
        let mut value = json!({"a": null});
        assert!(!repair(&compiled, &mut value));
        assert_eq!(value, json!({"a": null}));
    }
}
