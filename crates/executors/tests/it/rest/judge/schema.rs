//! Converts a schema of the document for a JSON Schema validator.

use std::collections::BTreeMap;
use std::rc::Rc;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::Judge;
use super::document::Spot;

/// What references lead to, by where it stands; none while it is written.
type Defs = BTreeMap<String, Option<Value>>;

impl Judge {
    /// Why a value does not fit a schema of the document.
    pub(super) fn reject(&self, schema: Spot<'_>, value: &Value) -> Option<String> {
        let validator = self.validator(schema);
        if validator.is_valid(value) {
            return None;
        }
        let error = validator.iter_errors(value).next()?;
        Some(format!("{error} at {}", error.instance_path()))
    }

    fn validator(&self, schema: Spot<'_>) -> Rc<Validator> {
        let place = std::ptr::from_ref(schema.value).addr();
        if let Some(known) = self.validators.borrow().get(&place) {
            return Rc::clone(known);
        }
        let mut defs = Defs::new();
        let mut whole = self.plain(schema, &mut defs, 0);
        if let Value::Object(whole) = &mut whole {
            let defs = defs.into_iter().map(|(key, value)| (key, value.unwrap_or(json!({}))));
            whole.insert("$defs".into(), Value::Object(defs.collect()));
        }
        let built = jsonschema::options().offline().build(&whole);
        let built = built.unwrap_or_else(|error| panic!("the judge cannot read {whole}: {error}"));
        let validator = Rc::new(built);
        self.validators.borrow_mut().insert(place, Rc::clone(&validator));
        validator
    }

    /// A schema in the words of JSON Schema, with what it refers to in `$defs`.
    fn plain(&self, spot: Spot<'_>, defs: &mut Defs, depth: usize) -> Value {
        let Value::Object(map) = spot.value else {
            return if spot.value.is_boolean() { spot.value.clone() } else { json!({}) };
        };
        if depth > 60 {
            return json!({});
        }
        if map.get("$ref").is_some_and(Value::is_string) {
            return self.reference(spot, map, defs, depth);
        }
        let binary = spot.text("type") == Some("file")
            || spot.text("format") == Some("binary")
            || spot.text("contentMediaType") == Some("application/octet-stream");
        if binary {
            return json!({});
        }
        let mut out = Map::new();
        let mut both: Vec<Value> = Vec::new();
        for (key, value) in map {
            let inner = Spot { value, ..spot };
            match key.as_str() {
                "properties" | "patternProperties" => {
                    out.insert(key.clone(), self.properties(inner, defs, depth));
                }
                "prefixItems" => {
                    let items = self.list(inner, defs, depth);
                    out.insert(key.clone(), Value::Array(items));
                }
                "allOf" => both.extend(self.list(inner, defs, depth)),
                "oneOf" | "anyOf" => {
                    let any = self.list(inner, defs, depth);
                    both.extend((!any.is_empty()).then(|| json!({"anyOf": any})));
                }
                "items" | "additionalProperties" | "not" | "contains"
                    if value.is_object() || value.is_boolean() =>
                {
                    out.insert(key.clone(), self.plain(inner, defs, depth + 1));
                }
                "pattern" if value.as_str().is_some_and(|pattern| self.is_pattern(pattern)) => {
                    out.insert(key.clone(), value.clone());
                }
                _ => out.extend(keyword(key, value, map)),
            }
        }
        if !both.is_empty() {
            out.insert("allOf".into(), Value::Array(both));
        }
        if let Some(Value::Array(names)) = map.get("required") {
            let stays =
                |name: &&Value| !name.as_str().is_none_or(|name| self.is_hidden(spot, name));
            out.insert("required".into(), names.iter().filter(stays).cloned().collect());
        }
        Value::Object(out)
    }

    fn reference(
        &self,
        spot: Spot<'_>,
        map: &Map<String, Value>,
        defs: &mut Defs,
        depth: usize,
    ) -> Value {
        let target = self.follow(spot);
        if target.text("$ref").is_some() {
            return json!({});
        }
        let key = format!("{:x}", std::ptr::from_ref(target.value).addr());
        if !defs.contains_key(&key) {
            defs.insert(key.clone(), None);
            let made = self.plain(target, defs, depth + 1);
            defs.insert(key.clone(), Some(made));
        }
        let reference = json!({"$ref": format!("#/$defs/{key}")});
        if is_nullable(map) { json!({"anyOf": [reference, {"type": "null"}]}) } else { reference }
    }

    fn list(&self, spot: Spot<'_>, defs: &mut Defs, depth: usize) -> Vec<Value> {
        let items = spot.value.as_array().into_iter().flatten();
        items.map(|value| self.plain(Spot { value, ..spot }, defs, depth + 1)).collect()
    }

    /// Properties, but for those that only the API sets.
    fn properties(&self, spot: Spot<'_>, defs: &mut Defs, depth: usize) -> Value {
        let all = spot.value.as_object().into_iter().flatten();
        let all = all.map(|(name, value)| (name, Spot { value, ..spot }));
        let kept = all.filter(|(_, one)| !self.is_read_only(*one));
        let made = kept.map(|(name, one)| (name.clone(), self.plain(one, defs, depth + 1)));
        Value::Object(made.collect())
    }

    fn is_hidden(&self, schema: Spot<'_>, name: &str) -> bool {
        let property = schema.get("properties").and_then(|all| all.get(name));
        property.is_some_and(|property| self.is_read_only(property))
    }

    fn is_read_only(&self, property: Spot<'_>) -> bool {
        let said = |spot: Spot<'_>| spot.value.get("readOnly") == Some(&json!(true));
        said(property) || said(self.follow(property))
    }

    /// Whether the validator can read a pattern.
    fn is_pattern(&self, pattern: &str) -> bool {
        if let Some(known) = self.patterns.borrow().get(pattern) {
            return *known;
        }
        let can = jsonschema::options().build(&json!({"pattern": pattern})).is_ok();
        self.patterns.borrow_mut().insert(pattern.to_owned(), can);
        can
    }
}

fn is_nullable(map: &Map<String, Value>) -> bool {
    ["nullable", "x-nullable"].iter().any(|key| map.get(*key) == Some(&json!(true)))
}

/// A keyword without schemas inside, where it is written as it should be.
fn keyword(key: &str, value: &Value, map: &Map<String, Value>) -> Option<(String, Value)> {
    let kept = |key: &str| Some((key.to_owned(), value.clone()));
    match key {
        "minimum" | "maximum" if value.is_number() => {
            let exclusive = if key == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" };
            kept(if map.get(exclusive) == Some(&json!(true)) { exclusive } else { key })
        }
        "exclusiveMinimum" | "exclusiveMaximum" if value.is_number() => kept(key),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
            if value.is_u64() =>
        {
            kept(key)
        }
        "const" => kept(key),
        "uniqueItems" if value.is_boolean() => kept(key),
        "type" => Some((key.to_owned(), types(value, is_nullable(map))?)),
        "enum" => Some((key.to_owned(), values(value, map)?)),
        _ => None,
    }
}

fn types(value: &Value, null: bool) -> Option<Value> {
    const KNOWN: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];
    let mut kinds: Vec<&str> = match value {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        Value::String(kind) => vec![kind],
        _ => vec![],
    };
    if kinds.is_empty() || !kinds.iter().all(|kind| KNOWN.contains(kind)) {
        return None;
    }
    if null && !kinds.contains(&"null") {
        kinds.push("null");
    }
    Some(json!(kinds))
}

/// The values of an enum; those of a string are texts, however they are written.
fn values(value: &Value, map: &Map<String, Value>) -> Option<Value> {
    let text = map.get("type") == Some(&json!("string"));
    let mut values: Vec<Value> = value
        .as_array()?
        .iter()
        .map(|value| match value {
            Value::String(_) | Value::Null => value.clone(),
            other if text => json!(other.to_string()),
            other => other.clone(),
        })
        .collect();
    if is_nullable(map) {
        values.push(Value::Null);
    }
    (!values.is_empty()).then_some(Value::Array(values))
}
