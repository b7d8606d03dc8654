//! `filter`: the items for which a comparison holds.

use std::cmp::Ordering;

use serde_json::Value;
use windlass::{Error, Output};

use super::super::arguments::{Arguments, invalid};
use super::super::value;
use super::{Key, items, list};

/// Whether a comparison holds between what an item has and what is wanted.
pub(in super::super) type Comparison = fn(found: &Value, wanted: &Value) -> bool;

pub(in super::super) const COMPARISONS: &[(&str, Comparison)] = &[
    ("eq", value::equal),
    ("ne", |found, wanted| !value::equal(found, wanted)),
    ("gt", |found, wanted| ordered(found, wanted).is_some_and(Ordering::is_gt)),
    ("gte", |found, wanted| ordered(found, wanted).is_some_and(Ordering::is_ge)),
    ("lt", |found, wanted| ordered(found, wanted).is_some_and(Ordering::is_lt)),
    ("lte", |found, wanted| ordered(found, wanted).is_some_and(Ordering::is_le)),
    ("in", |found, wanted| holds(wanted, found)),
    ("not_in", |found, wanted| !holds(wanted, found)),
    ("contains", holds),
    ("starts_with", |found, wanted| texts(found, wanted).is_some_and(|(f, w)| f.starts_with(w))),
    ("ends_with", |found, wanted| texts(found, wanted).is_some_and(|(f, w)| f.ends_with(w))),
    ("exists", |found, _| !found.is_null()),
    ("missing", |found, _| found.is_null()),
];

/// These ask only whether there is a value.
const WITHOUT_VALUE: [&str; 2] = ["exists", "missing"];

pub(super) fn filter(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let key = Key::optional(arguments)?;
    let name = arguments.text_or("comparison", "eq")?;
    let Some((_, comparison)) = COMPARISONS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = COMPARISONS.iter().map(|(name, _)| *name).collect();
        return Err(invalid(format!("unknown comparison `{name}`; known: {}", known.join(", "))));
    };
    let wanted =
        if WITHOUT_VALUE.contains(&name) { &Value::Null } else { arguments.any("value")? };
    let kept = items(arguments)?.iter().filter(|item| comparison(key.or_null(item), wanted));
    list(kept.cloned().collect())
}

/// Values of different types have no order.
fn ordered(found: &Value, wanted: &Value) -> Option<Ordering> {
    let same = std::mem::discriminant(found) == std::mem::discriminant(wanted);
    same.then(|| value::compare(found, wanted))
}

/// A text holds a text, a list an item, an object a key.
fn holds(container: &Value, wanted: &Value) -> bool {
    match (container, wanted) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(items), wanted) => items.iter().any(|item| value::equal(item, wanted)),
        (Value::Object(map), Value::String(key)) => map.contains_key(key),
        _ => false,
    }
}

fn texts<'a>(found: &'a Value, wanted: &'a Value) -> Option<(&'a str, &'a str)> {
    found.as_str().zip(wanted.as_str())
}
