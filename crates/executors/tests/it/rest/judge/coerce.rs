//! Types in schemas, and conversion of text to them.

use serde_json::{Value, json};

use super::Judge;
use super::document::Spot;

impl Judge {
    pub(super) fn is_type(&self, schema: Spot<'_>, kind: &str) -> bool {
        let schema = self.follow(schema);
        let own = match schema.value.get("type") {
            Some(Value::Array(kinds)) => kinds.contains(&json!(kind)),
            Some(own) => own == kind,
            None => {
                kind == "object" && schema.get("properties").is_some()
                    || kind == "array" && schema.get("items").is_some()
            }
        };
        own || ["allOf", "oneOf", "anyOf"]
            .iter()
            .any(|word| schema.items(word).into_iter().any(|one| self.is_type(one, kind)))
    }

    pub(super) fn has_property(&self, schema: Option<Spot<'_>>, name: &str) -> bool {
        let Some(schema) = schema.map(|schema| self.follow(schema)) else { return false };
        schema.get("properties").is_some_and(|all| all.get(name).is_some())
            || schema.value.get("additionalProperties").is_some_and(|more| *more != json!(false))
            || ["allOf", "oneOf", "anyOf"].iter().any(|word| {
                schema.items(word).into_iter().any(|one| self.has_property(Some(one), name))
            })
    }

    pub(super) fn property<'j>(
        &'j self,
        schema: Spot<'j>,
        name: &str,
        depth: usize,
    ) -> Option<Spot<'j>> {
        let schema = self.follow(schema);
        let own = schema.get("properties").and_then(|all| all.get(name));
        let own = own
            .or_else(|| schema.get("additionalProperties").filter(|more| more.value.is_object()));
        own.or_else(|| {
            if depth > 6 {
                return None;
            }
            ["allOf", "oneOf", "anyOf"]
                .iter()
                .flat_map(|word| schema.items(word))
                .find_map(|one| self.property(one, name, depth + 1))
        })
    }

    /// A text as the type that the schema wants.
    pub(super) fn coerce(&self, schema: Spot<'_>, value: Value, depth: usize) -> Value {
        let schema = self.follow(schema);
        if depth > 12 {
            return value;
        }
        match value {
            Value::String(text) => {
                let number =
                    || serde_json::from_str::<Value>(&text).ok().filter(|value| !value.is_string());
                let is = |kind| self.is_type(schema, kind);
                if is("string") && !(is("integer") || is("number") || is("boolean")) {
                    return json!(text);
                }
                if is("integer") || is("number") || is("boolean") || is("object") || is("array") {
                    return number().unwrap_or(json!(text));
                }
                if is("string") { json!(text) } else { number().unwrap_or(json!(text)) }
            }
            Value::Array(items) => {
                let inner = schema.get("items").or_else(|| {
                    ["allOf", "oneOf", "anyOf"]
                        .iter()
                        .flat_map(|word| schema.items(word))
                        .find_map(|one| self.follow(one).get("items"))
                });
                items
                    .into_iter()
                    .map(|item| match inner {
                        Some(inner) => self.coerce(inner, item, depth + 1),
                        None => item,
                    })
                    .collect()
            }
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .map(|(name, value)| {
                        let inner = self.property(schema, &name, 0);
                        let value = match inner {
                            Some(inner) => self.coerce(inner, value, depth + 1),
                            None => value,
                        };
                        (name, value)
                    })
                    .collect(),
            ),
            other => other,
        }
    }
}
