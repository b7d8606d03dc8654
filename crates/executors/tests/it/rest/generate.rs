//! Generates valid arguments for a tool's schema: minimal or maximal.

use std::cell::RefCell;
use std::collections::HashMap;

use jsonschema::Validator;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

/// How much is said.
#[derive(Clone, Copy, PartialEq)]
enum Amount {
    Least,
    Most,
}

/// Arguments for a schema, few and many; none where they are not found.
pub(crate) fn arguments(schema: &Value) -> [Option<Value>; 2] {
    let Some(validator) = validator(schema) else { return [None, None] };
    // Which of several alternatives is taken is tried out.
    [Amount::Least, Amount::Most].map(|amount| {
        (0..8)
            .filter_map(|choice| Generator { root: schema, amount, choice }.value(schema, 0))
            .find(|given| validator.is_valid(given))
    })
}

fn validator(schema: &Value) -> Option<Validator> {
    jsonschema::options().offline().should_validate_formats(true).build(schema).ok()
}

struct Generator<'s> {
    root: &'s Value,
    amount: Amount,
    choice: usize,
}

impl Generator<'_> {
    /// A value; none where there is none that is small enough.
    fn value(&self, schema: &Value, depth: usize) -> Option<Value> {
        if depth > 24 {
            return None;
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let target = self.root.pointer(reference.strip_prefix('#')?)?;
            return self.value(target, depth + 1);
        }
        if let Some(value) = schema.get("const") {
            return Some(value.clone());
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let kind = schema.get("type").and_then(Value::as_str);
            let fits = |value: &&Value| match kind {
                Some("number" | "integer") => value.is_number(),
                Some("string") => value.is_string(),
                _ => true,
            };
            return values.iter().find(fits).or(values.first()).cloned();
        }
        if let Some(all) = schema.get("allOf").and_then(Value::as_array) {
            let mut merged = Map::new();
            let own = self.plain(schema, depth);
            let parts = all.iter().map(|one| self.value(one, depth + 1)).chain([own]);
            let mut last = None;
            for part in parts.flatten() {
                match part {
                    Value::Object(map) => merged.extend(map),
                    other => last = last.or(Some(other)),
                }
            }
            return last.filter(|_| merged.is_empty()).or(Some(Value::Object(merged)));
        }
        if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
            for at in 0..any.len() {
                let alternative = &any[(at + self.choice) % any.len()];
                let own = self.plain(schema, depth);
                match (own, self.value(alternative, depth + 1)) {
                    (Some(Value::Object(mut own)), Some(Value::Object(other))) => {
                        for (name, value) in other {
                            // What the whole says of a property is more than that it is there.
                            let known =
                                schema.pointer("/properties").and_then(|all| all.get(&name));
                            let said =
                                alternative.pointer("/properties").and_then(|all| all.get(&name));
                            let value = match (known, said) {
                                (Some(known), None) => self.value(known, depth + 1)?,
                                _ => value,
                            };
                            own.insert(name, value);
                        }
                        apart(schema, alternative, &mut own);
                        return Some(Value::Object(own));
                    }
                    (_, Some(value)) => return Some(value),
                    _ => {}
                }
            }
            return None;
        }
        self.plain(schema, depth)
    }

    fn plain(&self, schema: &Value, depth: usize) -> Option<Value> {
        if schema.pointer("/properties/base64").is_some() {
            return Some(json!({"text": "any"}));
        }
        let kind = match schema.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => kinds
                .iter()
                .filter_map(Value::as_str)
                .find(|kind| *kind != "null")
                .unwrap_or("null"),
            _ if schema.get("properties").is_some() || schema.get("required").is_some() => "object",
            _ => "any",
        };
        Some(match kind {
            "object" => Value::Object(self.object(schema, depth)?),
            "array" => self.array(schema, depth)?,
            "string" => json!(text(schema)),
            "integer" => number(schema, true),
            "number" => number(schema, false),
            "boolean" => json!(true),
            "null" => Value::Null,
            _ => json!("any"),
        })
    }

    fn object(&self, schema: &Value, depth: usize) -> Option<Map<String, Value>> {
        let mut object = Map::new();
        let most = schema.get("maxProperties").and_then(Value::as_u64);
        let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (name, property) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let needed = required.contains(&name.as_str());
            // A form cannot say that an object is empty.
            let first = depth > 0 && depth < 8 && object.is_empty() && required.is_empty();
            let wanted = self.amount == Amount::Most && depth < 3 || first;
            let wanted = wanted && object.len() < most;
            if !needed && !wanted {
                continue;
            }
            match self.value(property, depth + 1) {
                Some(value) => drop(object.insert(name.clone(), value)),
                None if needed => return None,
                None => {}
            }
        }
        for name in required {
            object.entry(name).or_insert_with(|| json!("any"));
        }
        let least = schema.get("minProperties").and_then(Value::as_u64).unwrap_or(0);
        let more = schema.get("additionalProperties").filter(|more| more.is_object());
        for (name, property) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            if (object.len() as u64) < least && !object.contains_key(name) {
                object.insert(name.clone(), self.value(property, depth + 1)?);
            }
        }
        while (object.len() as u64) < least {
            let value = more.map_or(Some(json!("any")), |more| self.value(more, depth + 1))?;
            object.insert(format!("key{}", object.len()), value);
        }
        Some(object)
    }

    fn array(&self, schema: &Value, depth: usize) -> Option<Value> {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        let most = schema.get("maxItems").and_then(Value::as_u64).unwrap_or(u64::MAX);
        // Nor that a list is.
        let count = if depth < 8 { least.max(1).min(most) } else { least };
        let any = json!({});
        let items = schema.get("items").unwrap_or(&any);
        let one = self.value(items, depth + 1);
        if count == 0 || one.is_none() && least == 0 {
            return Some(json!([]));
        }
        let one = one?;
        if schema.get("uniqueItems") == Some(&json!(true)) && count > 1 {
            let different = items.get("enum").and_then(Value::as_array).cloned();
            let different = different.unwrap_or_else(|| {
                (0..count)
                    .map(|n| if one.is_number() { json!(n) } else { json!(format!("any{n}")) })
                    .collect()
            });
            return Some(Value::Array(
                different.into_iter().take(usize::try_from(count).ok()?).collect(),
            ));
        }
        Some(Value::Array(vec![one; usize::try_from(count).ok()?]))
    }
}

/// Takes away what may not be said together (`not: {required: […]}`), but not
/// what an alternative wants.
fn apart(schema: &Value, alternative: &Value, object: &mut Map<String, Value>) {
    let names = |value: Option<&Value>| -> Vec<String> {
        let names = value.and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (not, kept) = (names(schema.pointer("/not/required")), names(alternative.get("required")));
    if !not.is_empty() && not.iter().all(|name| object.contains_key(name)) {
        let goes = not.iter().find(|name| !kept.contains(name));
        goes.map(|name| object.shift_remove(name));
    }
}

fn text(schema: &Value) -> String {
    let number =
        |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let formatted = match schema.get("format").and_then(Value::as_str) {
        Some("date") => "2026-01-31",
        Some("date-time") => "2026-01-31T08:00:00Z",
        Some("time") => "08:00:00Z",
        Some("email") => "ada@example.com",
        Some("uri") => "https://example.com/a",
        Some("uuid") => "018f3c1e-7a80-7000-8000-000000000000",
        Some("ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        Some("hostname") => "example.com",
        _ => "any",
    };
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        thread_local! {
            // Documents say the same of many texts.
            static FOUND: RefCell<HashMap<String, Option<String>>> = RefCell::default();
        }
        let mut said = schema.clone();
        said.as_object_mut().map(|said| said.shift_remove("description"));
        let found = FOUND.with_borrow_mut(|found| {
            let found = found.entry(said.to_string());
            found.or_insert_with(|| matching(pattern, &said, formatted)).clone()
        });
        if let Some(found) = found {
            return found;
        }
    }
    let mut text = formatted.to_owned();
    while text.chars().count() < number("minLength").unwrap_or(0) {
        text.push('a');
    }
    match number("maxLength") {
        Some(most) => text.chars().take(most).collect(),
        None => text,
    }
}

/// A text that fits a pattern, and everything else that is said of it.
fn matching(pattern: &str, schema: &Value, formatted: &str) -> Option<String> {
    let validator = validator(schema)?;
    let fits = |text: &String| {
        let plain =
            !text.is_empty() && text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'\\');
        plain && validator.is_valid(&json!(text))
    };
    let known = [
        formatted,
        "any",
        "abc123",
        "1",
        "1234567890",
        "2026-01-31",
        "a@b.co",
        "#ffffff",
        "/a/b",
        "https://example.com",
        "12:00",
        "+15551234567",
        "v1.0.0",
        "en-US",
        "USD",
        "0x1",
        "10.0.0.0/8",
        "urn:a:b",
        "A",
        "true",
        "018f3c1e-7a80-7000-8000-000000000000",
    ];
    if let Some(text) = known.iter().map(|text| (*text).to_owned()).find(fits) {
        return Some(text);
    }
    let bare = pattern.replace("\\d", "[0-9]").replace("\\w", "[a-z]").replace("\\S", "[a-z]");
    let bare = bare.replace(['^', '$'], "").replace("(?:{[", "(?:\\{[").replace("[]", "[^]");
    let strategy = proptest::string::string_regex(&bare).ok()?;
    let mut runner = TestRunner::deterministic();
    (0..200).filter_map(|_| Some(strategy.new_tree(&mut runner).ok()?.current())).find(fits)
}

fn number(schema: &Value, whole: bool) -> Value {
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    let step = limit("multipleOf").unwrap_or(1.0);
    let low = limit("minimum").or(limit("exclusiveMinimum").map(|low| low + 1.0));
    let high = limit("maximum").or(limit("exclusiveMaximum").map(|high| high - 1.0));
    let mut value = match (low, high) {
        (Some(low), _) => (low / step).ceil() * step,
        (None, Some(high)) => (high / step).floor() * step,
        (None, None) => step,
    };
    let above = limit("exclusiveMinimum");
    let below = limit("maximum").or(limit("exclusiveMaximum"));
    if let (false, None, Some(low), Some(high)) = (whole, limit("multipleOf"), above, below) {
        value = f64::midpoint(low, high);
    }
    if whole || value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
}
