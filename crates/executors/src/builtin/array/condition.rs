//! `filter`: the items for which a comparison holds.
//!
//! A comparison is compiled once for the wanted value and then applied to every item, so
//! that a long list of wanted values is not searched linearly each time.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::Value;
use windlass::{Error, Output};

use super::super::arguments::{Arguments, invalid};
use super::super::value;
use super::{Key, items, list};

/// A compiled comparison.
type Test<'a> = Box<dyn Fn(&Value) -> bool + 'a>;

/// Compiles a comparison for the wanted value.
type Comparison = for<'a> fn(&'a Value) -> Test<'a>;

pub(in super::super) const COMPARISONS: &[(&str, Comparison)] = &[
    ("eq", |wanted| Box::new(|found| value::equal(found, wanted))),
    ("ne", |wanted| Box::new(|found| !value::equal(found, wanted))),
    ("gt", |wanted| ordered(wanted, Ordering::is_gt)),
    ("gte", |wanted| ordered(wanted, Ordering::is_ge)),
    ("lt", |wanted| ordered(wanted, Ordering::is_lt)),
    ("lte", |wanted| ordered(wanted, Ordering::is_le)),
    ("in", |wanted| listed(wanted, true)),
    ("not_in", |wanted| listed(wanted, false)),
    ("contains", |wanted| Box::new(|found| holds(found, wanted))),
    ("starts_with", |wanted| texts(wanted, |found, wanted| found.starts_with(wanted))),
    ("ends_with", |wanted| texts(wanted, |found, wanted| found.ends_with(wanted))),
    ("exists", |_| Box::new(|found| !found.is_null())),
    ("missing", |_| Box::new(Value::is_null)),
];

/// Operators without a value.
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
    let test = comparison(wanted);
    let kept = items(arguments)?.iter().filter(|item| test(key.or_null(item)));
    list(kept.cloned().collect())
}

/// Values of different types are not ordered.
fn ordered(wanted: &Value, holds: fn(Ordering) -> bool) -> Test<'_> {
    let kind = std::mem::discriminant(wanted);
    Box::new(move |found| {
        std::mem::discriminant(found) == kind && holds(value::compare(found, wanted))
    })
}

/// Whether an array or text contains the item's value.
fn listed(wanted: &Value, inside: bool) -> Test<'_> {
    match wanted {
        Value::Array(items) => {
            let known: HashSet<String> = items.iter().map(value::identity).collect();
            Box::new(move |found| known.contains(&value::identity(found)) == inside)
        }
        container => Box::new(move |found| holds(container, found) == inside),
    }
}

/// A text contains a substring, an array an item, an object a key.
fn holds(container: &Value, wanted: &Value) -> bool {
    match (container, wanted) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(items), wanted) => items.iter().any(|item| value::equal(item, wanted)),
        (Value::Object(map), Value::String(key)) => map.contains_key(key),
        _ => false,
    }
}

fn texts(wanted: &Value, holds: fn(&str, &str) -> bool) -> Test<'_> {
    Box::new(move |found| match (found, wanted) {
        (Value::String(found), Value::String(wanted)) => holds(found, wanted),
        _ => false,
    })
}
