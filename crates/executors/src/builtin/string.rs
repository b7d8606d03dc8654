//! `string`: operations on text. Positions and lengths are counted in characters, from 0;
//! a negative position counts from the end.

mod encoding;
mod pattern;
mod shape;

use serde_json::{Value, json};
use windlass::{Error, Output};

use super::arguments::{Arguments, Operation, dispatch};
use super::{bounds, value};

pub(super) fn run(arguments: &Arguments<'_>) -> Result<Output, Error> {
    dispatch(OPERATIONS, arguments)
}

pub(super) const OPERATIONS: &[(&str, Operation)] = &[
    ("length", length),
    ("upper", |arguments| Ok(Output::text(text(arguments)?.to_uppercase()))),
    ("lower", |arguments| Ok(Output::text(text(arguments)?.to_lowercase()))),
    ("title", shape::title),
    ("capitalize", shape::capitalize),
    ("trim", shape::trim),
    ("pad", shape::pad),
    ("truncate", shape::truncate),
    ("repeat", shape::repeat),
    ("reverse", shape::reverse),
    ("substring", shape::substring),
    ("slug", shape::slug),
    ("split", pattern::split),
    ("lines", |arguments| listed(text(arguments)?.lines())),
    ("words", |arguments| listed(text(arguments)?.split_whitespace())),
    ("join", join),
    ("contains", pattern::contains),
    ("starts_with", pattern::starts_with),
    ("ends_with", pattern::ends_with),
    ("find", pattern::find),
    ("count", pattern::count),
    ("replace", pattern::replace),
    ("match", pattern::first_match),
    ("extract", pattern::extract),
    ("base64_encode", encoding::base64_encode),
    ("base64_decode", encoding::base64_decode),
    ("url_encode", encoding::url_encode),
    ("url_decode", encoding::url_decode),
];

fn text<'a>(arguments: &Arguments<'a>) -> Result<&'a str, Error> {
    bounds::text(arguments.text("text")?)
}

/// A JSON array of texts.
fn listed<'a>(parts: impl Iterator<Item = &'a str>) -> Result<Output, Error> {
    let parts: Vec<Value> = parts.take(bounds::MAX_ITEMS + 1).map(Value::from).collect();
    bounds::items(&parts)?;
    Ok(Output::json(parts))
}

fn length(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let text = text(arguments)?;
    Ok(Output::json(json!({
        "characters": text.chars().count(),
        "bytes": text.len(),
        "words": text.split_whitespace().count(),
        "lines": text.lines().count(),
    })))
}

fn join(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let items = bounds::items(arguments.list("items")?)?;
    let separator = arguments.text_or("separator", "")?;
    Ok(Output::text(bounds::join(items.iter().map(value::plain), separator)?))
}

#[cfg(test)]
mod tests;
