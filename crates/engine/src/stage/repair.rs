//! Repairs arguments that the schema rejects, where their meaning is plain:
//! `"5"` for a number, `"false"` for a boolean, a JSON string for an array or
//! object, `null` for an absent optional. Nothing else.

use jsonschema::JsonType;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use crate::tool::Schema;

/// A repaired object may need repair inside, and so on; this many times.
const ROUNDS: usize = 4;

/// Repairs in place. Returns whether the schema accepts the value now.
pub(super) fn repair(schema: &Schema, value: &mut Value) -> bool {
    for _ in 0..ROUNDS {
        let faults: Vec<Fault> =
            schema.errors(value).filter_map(|error| Fault::of(&error)).collect();
        let mut changed = false;
        for fault in faults {
            changed |= fault.mend(schema, value);
        }
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
struct Fault {
    path: String,
    /// The types that would do; none where the schema has alternatives.
    wanted: Option<Vec<JsonType>>,
}

impl Fault {
    fn of(error: &jsonschema::ValidationError<'_>) -> Option<Self> {
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

    fn mend(&self, schema: &Schema, root: &mut Value) -> bool {
        match root.pointer(&self.path) {
            Some(Value::Null) => self.drop_null(schema, root),
            Some(Value::String(text)) => match self.read(text) {
                Some(value) => self.replace(schema, root, value),
                None => false,
            },
            _ => false,
        }
    }

    /// Takes a `null` away, unless the key is required.
    fn drop_null(&self, schema: &Schema, root: &mut Value) -> bool {
        let Some((parent, key)) = self.path.rsplit_once('/') else { return false };
        let key = key.replace("~1", "/").replace("~0", "~");
        let Some(Value::Object(map)) = root.pointer_mut(parent) else { return false };
        let Some(position) = map.keys().position(|own| *own == key) else { return false };
        map.shift_remove(&key);
        let required = schema.errors(root).any(|error| {
            let missing = matches!(
                error.kind(),
                ValidationErrorKind::Required { property } if *property == key.as_str()
            );
            missing && error.instance_path().as_str() == parent
        });
        if required && let Some(Value::Object(map)) = root.pointer_mut(parent) {
            map.shift_insert(position, key, Value::Null);
        }
        !required
    }

    /// What a string plainly means, as one of the wanted types.
    fn read(&self, text: &str) -> Option<Value> {
        let text = text.trim();
        let wants = |wanted: JsonType| self.wanted.as_ref().is_none_or(|all| all.contains(&wanted));
        let value = match text.as_bytes().first()? {
            b'{' if wants(JsonType::Object) => serde_json::from_str(text).ok()?,
            b'[' if wants(JsonType::Array) => serde_json::from_str(text).ok()?,
            b'-' | b'0'..=b'9' if wants(JsonType::Integer) || wants(JsonType::Number) => {
                Value::Number(serde_json::from_str(text).ok()?)
            }
            _ if wants(JsonType::Boolean) && text.eq_ignore_ascii_case("true") => Value::Bool(true),
            _ if wants(JsonType::Boolean) && text.eq_ignore_ascii_case("false") => {
                Value::Bool(false)
            }
            _ => return None,
        };
        Some(value)
    }

    /// Puts a value in, and back out if the schema still minds it there.
    fn replace(&self, schema: &Schema, root: &mut Value, value: Value) -> bool {
        let Some(slot) = root.pointer_mut(&self.path) else { return false };
        let before = std::mem::replace(slot, value);
        let still_wrong = schema
            .errors(root)
            .filter_map(|error| Self::of(&error))
            .any(|fault| fault.path == self.path);
        if still_wrong && let Some(slot) = root.pointer_mut(&self.path) {
            *slot = before;
        }
        !still_wrong
    }
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
