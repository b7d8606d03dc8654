//! Squeezes a schema that is too large even with only its required properties.
//!
//! Its largest parts keep their type and description, and lose the rest; the names of the
//! arguments stay. Only if those alone are too many, descriptions are dropped, and then
//! the last optional arguments.

use std::collections::BTreeSet;
use std::io;

use serde::Serialize;
use serde_json::{Map, Value};

use super::emit::brief;
use super::required_of;

/// Maximum length of the description of a squeezed part.
const DESCRIBED: usize = 100;
/// Maximum number of names in a warning.
const NAMED: usize = 5;

/// Size of a value as JSON.
pub(super) fn written(value: &(impl Serialize + ?Sized)) -> usize {
    let mut count = Count(0);
    // Counting never fails, and a JSON value has only string keys.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// A writer that counts bytes.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stub of a schema: its type, and a description.
pub(super) fn stub(schema: &Value, place: &Value) -> Value {
    let mut left = Map::new();
    if let Some(kind) = schema.get("type") {
        left.insert("type".to_owned(), kind.clone());
    }
    let said = place.get("description").or_else(|| schema.get("description"));
    let text = brief(said.and_then(Value::as_str).unwrap_or_default(), DESCRIBED);
    if !text.is_empty() {
        left.insert("description".to_owned(), Value::String(text));
    }
    Value::Object(left)
}

/// The schema squeezed to at most this many bytes, and what was done. Required parts
/// stay, even if the limit is exceeded.
pub(super) fn squeeze(mut schema: Value, most: usize) -> (Value, Vec<String>) {
    let (mut cut, mut gone) = (BTreeSet::new(), Vec::new());
    loop {
        prune(&mut schema);
        let mut parts = Vec::new();
        let over = measure(&schema, &mut String::new(), &mut parts).saturating_sub(most);
        if over == 0 {
            break;
        }
        let chosen = choose(parts, over);
        if chosen.is_empty() {
            if undescribe(&mut schema, over) {
                continue;
            }
            let names = leave_out(&mut schema, over);
            if names.is_empty() {
                break;
            }
            gone.extend(names);
        }
        for part in chosen {
            cut.insert(part.shown());
            if let Some(place) = schema.pointer_mut(&part.pointer) {
                *place = stub(place, place);
            }
        }
    }
    let cut: Vec<String> = cut.into_iter().collect();
    let cut = note("what is inside of these is not described", &cut);
    let gone = note("arguments that nobody has to set were left out", &gone);
    (schema, cut.into_iter().chain(gone).collect())
}

fn note(what: &str, names: &[String]) -> Option<String> {
    let shown: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!("the schema is large; {what}: {}{more}", shown.join(", "));
    (!names.is_empty()).then_some(text)
}

/// A part of a schema that can be squeezed.
struct Part {
    pointer: String,
    saves: usize,
}

impl Part {
    /// The argument or definition that it belongs to, for messages.
    fn shown(&self) -> String {
        let name = self.pointer.split('/').nth(2).unwrap_or_default();
        name.replace("~1", "/").replace("~0", "~")
    }
}

/// Which parts to squeeze: the smallest that suffices alone, else the largest ones.
fn choose(mut parts: Vec<Part>, over: usize) -> Vec<Part> {
    let enough = parts.iter().enumerate().filter(|(_, part)| part.saves >= over);
    if let Some((at, _)) = enough.min_by_key(|(_, part)| part.saves) {
        return vec![parts.swap_remove(at)];
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.saves));
    let (mut chosen, mut saved): (Vec<Part>, usize) = (Vec::new(), 0);
    for part in parts {
        let inside = |one: &Part| {
            part.pointer.strip_prefix(&one.pointer).is_some_and(|rest| rest.starts_with('/'))
        };
        if saved < over && !chosen.iter().any(inside) {
            saved += part.saves;
            chosen.push(part);
        }
    }
    chosen
}

/// The size of a schema, and all its parts that accept more values when they say less.
/// Under `not` and `if` they would accept fewer.
fn measure(schema: &Value, pointer: &mut String, found: &mut Vec<Part>) -> usize {
    let Value::Object(map) = schema else { return written(schema) };
    let mut bytes = 2 + map.len().saturating_sub(1);
    for (key, inner) in map {
        bytes += written(key) + 1;
        bytes += match (key.as_str(), inner) {
            (
                "properties" | "$defs" | "patternProperties" | "dependentSchemas",
                Value::Object(all),
            ) => {
                let each = all
                    .iter()
                    .map(|(name, one)| written(name) + 1 + part(one, &[key, name], pointer, found));
                2 + all.len().saturating_sub(1) + each.sum::<usize>()
            }
            ("anyOf" | "allOf" | "prefixItems", Value::Array(all)) => {
                let each = all.iter().enumerate();
                let each = each.map(|(at, one)| part(one, &[key, &at.to_string()], pointer, found));
                2 + all.len().saturating_sub(1) + each.sum::<usize>()
            }
            ("items" | "additionalProperties" | "then" | "else", Value::Object(_)) => {
                part(inner, &[key], pointer, found)
            }
            (_, inner) => written(inner),
        };
    }
    bytes
}

fn part(schema: &Value, keys: &[&str], pointer: &mut String, found: &mut Vec<Part>) -> usize {
    let length = pointer.len();
    for key in keys {
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
    }
    let bytes = measure(schema, pointer, found);
    let saves = bytes.saturating_sub(written(&stub(schema, schema)));
    if saves > 0 && schema.is_object() {
        found.push(Part { pointer: pointer.clone(), saves });
    }
    pointer.truncate(length);
    bytes
}

/// Drops descriptions of arguments, last first, until enough is saved; returns whether
/// there were any.
fn undescribe(schema: &mut Value, over: usize) -> bool {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return false };
    let mut saved = 0;
    for property in properties.values_mut().rev().filter_map(Value::as_object_mut) {
        if saved >= over {
            break;
        }
        let gone = property.shift_remove("description");
        saved += gone.map_or(0, |text| written(&text) + 16);
    }
    saved > 0
}

/// Drops optional arguments, last first, until enough is saved; returns their names.
fn leave_out(schema: &mut Value, over: usize) -> Vec<String> {
    let required: BTreeSet<String> = required_of(schema).into_iter().map(str::to_owned).collect();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return Vec::new() };
    let (mut gone, mut saved) = (Vec::new(), 0);
    let optional = properties.iter().rev().filter(|(name, _)| !required.contains(*name));
    for (name, property) in optional {
        if saved >= over {
            break;
        }
        saved += written(name) + written(property) + 2;
        gone.push(name.clone());
    }
    properties.retain(|name, _| !gone.contains(name));
    gone
}

/// Removes definitions without references.
fn prune(schema: &mut Value) {
    let Some(Value::Object(defs)) = schema.get("$defs") else { return };
    let mut used = BTreeSet::new();
    let mut open: Vec<&Value> = Vec::new();
    let root = schema.as_object().into_iter().flatten();
    open.extend(root.filter(|(key, _)| *key != "$defs").map(|(_, inner)| inner));
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(map) => open.extend(map.values()),
            Value::String(text) => {
                if let Some((name, target)) =
                    text.strip_prefix("#/$defs/").and_then(|name| defs.get_key_value(name))
                    && used.insert(name.clone())
                {
                    open.push(target);
                }
            }
            _ => {}
        }
    }
    if let Some(Value::Object(defs)) = schema.get_mut("$defs") {
        defs.retain(|name, _| used.contains(name));
        if defs.is_empty()
            && let Value::Object(map) = schema
        {
            map.shift_remove("$defs");
        }
    }
}
