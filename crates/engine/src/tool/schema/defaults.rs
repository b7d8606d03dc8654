//! Defaults in a schema, and which of them are filled in.
//!
//! The code behind our own tools counts on defaults. Defaults of an HTTP API or
//! an MCP server describe what the upstream assumes if nothing is sent, and
//! sending them would change what the caller left out; there, only what the
//! upstream requires is filled in.
//!
//! A default that violates its own schema (`default: null` beside `type:
//! string`) is shown to the model and never filled in.

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::cost::{CheckCost, EXPLAIN};
use crate::tool::object;
use crate::value::pointer;

/// Which defaults of a schema are filled.
pub(crate) enum Fill<'a> {
    /// None: the schema does not describe arguments.
    Nothing,
    /// All of them.
    Everything,
    /// Those of required properties, constants included, and of these
    /// parameters.
    Required(&'a [&'a str]),
}

/// Values for absent properties.
#[derive(Default)]
pub(super) struct Defaults {
    values: Vec<(String, Value)>,
    inside: Vec<(String, Defaults)>,
    items: Option<Box<Defaults>>,
}

impl Defaults {
    pub(super) fn of(schema: &Value, fill: &Fill<'_>) -> Self {
        match fill {
            Fill::Nothing => Self::default(),
            Fill::Everything => Self::collect(schema, &|_, _, property| property.get("default")),
            Fill::Required(also) => {
                let mut defaults = Self::collect(schema, &|schema, name, property| {
                    is_required(schema, name).then(|| demanded(property)).flatten()
                });
                for (name, property) in object(schema, "properties").into_iter().flatten() {
                    if let Some(default) = property.get("default")
                        && !is_required(schema, name)
                        && also.contains(&name.as_str())
                    {
                        defaults.values.push((name.clone(), default.clone()));
                    }
                }
                defaults
            }
        }
    }

    fn collect(
        schema: &Value,
        chosen: &dyn for<'v> Fn(&Value, &str, &'v Value) -> Option<&'v Value>,
    ) -> Self {
        let mut defaults = Self::default();
        for (name, property) in object(schema, "properties").into_iter().flatten() {
            if let Some(default) = chosen(schema, name, property) {
                defaults.values.push((name.clone(), default.clone()));
            }
            let inside = Self::collect(property, chosen);
            if !inside.is_empty() {
                defaults.inside.push((name.clone(), inside));
            }
        }
        let items = schema.get("items").map(|items| Self::collect(items, chosen));
        defaults.items = items.filter(|items| !items.is_empty()).map(Box::new);
        defaults
    }

    /// Removes defaults that the schema itself rejects.
    pub(super) fn keep_fitting(&mut self, validator: &Validator, cost: &CheckCost) {
        if self.is_empty() {
            return;
        }
        let filled = self.sample();
        if !cost.affords(&filled, &EXPLAIN) || validator.is_valid(&filled) {
            return;
        }
        let wrong: Vec<String> = validator
            .iter_errors(&filled)
            .map(|error| error.instance_path().as_str().to_owned())
            .collect();
        for path in wrong {
            let keys: Vec<String> = path.split('/').skip(1).map(pointer::unescape).collect();
            self.forget(&keys);
        }
    }

    /// A value with all the defaults and nothing else.
    fn sample(&self) -> Value {
        if let Some(items) = &self.items {
            return Value::Array(vec![items.sample()]);
        }
        let mut map: Map<String, Value> =
            self.inside.iter().map(|(name, inside)| (name.clone(), inside.sample())).collect();
        map.extend(self.values.iter().cloned());
        Value::Object(map)
    }

    /// Removes the innermost default on a path.
    fn forget(&mut self, keys: &[String]) -> bool {
        let Some((key, rest)) = keys.split_first() else { return false };
        if let Some(items) = &mut self.items {
            return items.forget(rest);
        }
        let inside = self.inside.iter_mut().find(|(name, _)| name == key);
        if inside.is_some_and(|(_, inside)| inside.forget(rest)) {
            return true;
        }
        let before = self.values.len();
        self.values.retain(|(name, _)| name != key);
        self.values.len() < before
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.inside.is_empty() && self.items.is_none()
    }

    pub(super) fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, default) in &self.values {
                    if !map.contains_key(name) {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (name, inside) in &self.inside {
                    if let Some(value) = map.get_mut(name) {
                        inside.fill(value);
                    }
                }
            }
            Value::Array(array) => {
                if let Some(items) = &self.items {
                    array.iter_mut().for_each(|value| items.fill(value));
                }
            }
            _ => {}
        }
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|all| all.iter().any(|one| one == name))
}

/// The value of an absent required property: its default, else its only
/// possible value.
fn demanded(property: &Value) -> Option<&Value> {
    let only = || match property.get("enum")?.as_array()?.as_slice() {
        [one] => Some(one),
        _ => None,
    };
    property.get("default").or_else(|| property.get("const")).or_else(only)
}

/// The value at a JSON pointer; for an absent one, the value that the schema
/// says is assumed.
pub(crate) fn assumed<'a>(
    schema: &'a Value,
    arguments: &'a Value,
    place: &str,
) -> Option<&'a Value> {
    let (mut schema, mut value) = (Some(schema), Some(arguments));
    for key in place.split('/').skip(1).map(pointer::unescape) {
        schema = schema.and_then(|schema| object(schema, "properties")?.get(&key));
        let given = match value {
            Some(Value::Array(items)) => key.parse().ok().and_then(|at: usize| items.get(at)),
            Some(value) => value.get(&key),
            None => None,
        };
        value = given.or_else(|| schema?.get("default"));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::super::Schema;
    use super::*;
    use serde_json::json;

    fn filled(schema: &Value, fill: &Fill<'_>, mut value: Value) -> Value {
        Schema::of_arguments(schema, fill).unwrap().fill_defaults(&mut value);
        value
    }

    #[test]
    fn nested_defaults_are_filled() {
        let schema = json!({
            "properties": {
                "limit": {"type": "integer", "default": 5},
                "sort": {"type": "object", "properties": {"by": {"default": "date"}}},
                "rows": {"items": {"properties": {"n": {"default": 1}}}},
            }
        });
        let sent = json!({"sort": {}, "rows": [{}, {"n": 2}]});
        let all = json!({"sort": {"by": "date"}, "rows": [{"n": 1}, {"n": 2}], "limit": 5});
        assert_eq!(filled(&schema, &Fill::Everything, sent.clone()), all);
        assert_eq!(filled(&schema, &Fill::Required(&[]), sent.clone()), sent);
        assert_eq!(filled(&schema, &Fill::Nothing, sent.clone()), sent);
    }

    #[test]
    fn what_is_required_is_filled_with_its_default_or_its_only_value() {
        let schema = json!({
            "properties": {
                "version": {"const": "v2"},
                "kind": {"enum": ["issue"]},
                "page": {"type": "integer", "default": 1},
                "color": {"enum": ["red", "blue"]},
                "note": {"default": "hi"},
                "zone": {"default": "UTC"},
                "to": {
                    "type": "object",
                    "properties": {"country": {"default": "DE"}, "street": {"default": "-"}},
                    "required": ["country"],
                },
            },
            "required": ["version", "kind", "page", "color"],
        });
        let required = Fill::Required(&["zone"]);
        assert_eq!(
            filled(&schema, &required, json!({"to": {}})),
            json!({
                "to": {"country": "DE"}, "version": "v2", "kind": "issue", "page": 1, "zone": "UTC",
            }),
        );
    }

    #[test]
    fn a_default_that_does_not_fit_is_not_filled() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": "string", "default": null},
                "b": {"type": ["string", "null"], "default": null},
                "c": {"$ref": "#/$defs/unit", "default": "kelvin"},
                "d": {"type": "integer", "minimum": 1, "default": 0},
                "e": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null},
                "f": {"type": "object", "properties": {
                    "g": {"type": "boolean", "default": "yes"}, "h": {"default": 1},
                }},
                "i": {"items": {"properties": {"j": {"type": "string", "default": 7}}}},
                "k": {"type": "object", "default": {"l": 1}, "properties": {"l": {"type": "string"}}},
            },
            "required": ["z"],
            "$defs": {"unit": {"enum": ["c", "f"]}},
        });
        assert_eq!(
            filled(&schema, &Fill::Everything, json!({"f": {}, "i": [{}]})),
            json!({"f": {"h": 1}, "i": [{}], "b": null, "e": null}),
        );
    }

    #[test]
    fn what_is_absent_is_what_the_schema_assumes() {
        let schema = json!({"properties": {
            "currency": {"default": "EUR"},
            "to": {"default": {"name": "ada"}, "properties": {"zip": {"default": "1"}}},
        }});
        for (arguments, place, value) in [
            (json!({}), "/currency", Some(json!("EUR"))),
            (json!({"currency": "USD"}), "/currency", Some(json!("USD"))),
            (json!({}), "/to/name", Some(json!("ada"))),
            (json!({"to": {}}), "/to/zip", Some(json!("1"))),
            (json!({"to": {}}), "/to/name", None),
            (json!({"list": [1, 2]}), "/list/1", Some(json!(2))),
            (json!({}), "/other", None),
        ] {
            assert_eq!(assumed(&schema, &arguments, place), value.as_ref(), "{arguments} {place}");
        }
    }
}
