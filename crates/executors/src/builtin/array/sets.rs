//! Set operations on arrays. The order of first appearance is kept.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use windlass::{Error, Output};

use super::super::arguments::Arguments;
use super::super::value::{equal, identity};
use super::{Key, items, list, other};

/// Keeps the first of several items that are equal, or that have equal keys.
pub(super) fn unique(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let key = Key::optional(arguments)?;
    list(distinct(items(arguments)?.iter(), &key))
}

pub(super) fn union(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let key = Key::optional(arguments)?;
    list(distinct(items(arguments)?.iter().chain(other(arguments)?), &key))
}

pub(super) fn intersection(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let key = Key::optional(arguments)?;
    let there = identities(other(arguments)?, &key);
    let both = |item: &&Value| there.contains(&identity(key.or_null(item)));
    list(distinct(items(arguments)?.iter().filter(both), &key))
}

pub(super) fn difference(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let key = Key::optional(arguments)?;
    let there = identities(other(arguments)?, &key);
    let only_here = |item: &&Value| !there.contains(&identity(key.or_null(item)));
    list(distinct(items(arguments)?.iter().filter(only_here), &key))
}

/// Counts `value`, or the occurrences of each value.
pub(super) fn count(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let key = Key::optional(arguments)?;
    let found = items(arguments)?.iter().map(|item| key.or_null(item));
    if let Ok(wanted) = arguments.any("value") {
        return Ok(Output::json(found.filter(|found| equal(found, wanted)).count()));
    }
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut counts: Vec<(&Value, usize)> = Vec::new();
    for value in found {
        let place = *places.entry(identity(value)).or_insert(counts.len());
        match counts.get_mut(place) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    list(counts.iter().map(|(value, count)| json!({"value": value, "count": count})).collect())
}

fn distinct<'a>(items: impl Iterator<Item = &'a Value>, key: &Key) -> Vec<Value> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(identity(key.or_null(item)))).cloned().collect()
}

fn identities(items: &[Value], key: &Key) -> HashSet<String> {
    items.iter().map(|item| identity(key.or_null(item))).collect()
}
