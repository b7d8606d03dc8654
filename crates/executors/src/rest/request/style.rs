//! Parameter serialization styles for path, query, headers and cookies.

use serde_json::Value;

use super::encode;
use crate::rest::plan::{Location, ParameterPlan, Style};

/// One value as text. Nested arrays and objects have no style and are written as JSON.
pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // JSON has only one number type; `5.0` for an integer is 5.
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
                format!("{float:.0}")
            }
            _ => number.to_string(),
        },
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// All scalars in a value, as text.
pub(super) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().map(scalar).collect(),
        Value::Object(map) => {
            map.iter().flat_map(|(key, value)| [key.clone(), scalar(value)]).collect()
        }
        other => vec![scalar(other)],
    }
}

/// A value in a path, after the template's literal text.
pub(super) fn path(
    place: &ParameterPlan,
    value: &Value,
    encode: impl Fn(&str) -> String,
) -> String {
    if place.json {
        return encode(&value.to_string());
    }
    let explode = place.explode();
    let items = |separator: &str| -> String {
        let all: Vec<String> = match value {
            Value::Array(items) => items.iter().map(|item| encode(&scalar(item))).collect(),
            Value::Object(map) => map
                .iter()
                .map(|(key, item)| {
                    let sign = if explode { "=" } else { "," };
                    format!("{}{sign}{}", encode(key), encode(&scalar(item)))
                })
                .collect(),
            other => vec![encode(&scalar(other))],
        };
        all.join(separator)
    };
    match place.style() {
        Style::Label => format!(".{}", items(if explode { "." } else { "," })),
        Style::Matrix => {
            let name = encode(&place.name);
            match value {
                Value::Array(all) if explode => {
                    all.iter().map(|item| format!(";{name}={}", encode(&scalar(item)))).collect()
                }
                Value::Object(_) if explode => format!(";{}", items(";")),
                _ => format!(";{name}={}", items(",")),
            }
        }
        _ => match value {
            Value::Array(_) | Value::Object(_) => items(","),
            one => encode(&scalar(one)),
        },
    }
}

/// A header value, which is not percent-encoded.
pub(super) fn text(place: &ParameterPlan, value: &Value) -> String {
    if place.json {
        return value.to_string();
    }
    path(&ParameterPlan { style: Some(Style::Simple), ..place.clone() }, value, str::to_owned)
}

/// Query or cookie pairs: zero or more encoded `name=value`.
pub(super) fn pairs(place: &ParameterPlan, value: &Value) -> Vec<String> {
    if place.json {
        return vec![format!(
            "{}={}",
            encode(&place.name, false),
            encode(&value.to_string(), false)
        )];
    }
    let (style, explode) = (place.style(), place.explode());
    let allow_reserved = place.allow_reserved && place.location == Location::Query;
    if !value.is_array() && !value.is_object() {
        let (name, text) = (encode(&place.name, false), encode(&scalar(value), allow_reserved));
        return vec![format!("{name}={text}")];
    }
    form_pairs(&place.name, value, style, explode)
        .into_iter()
        .map(|(name, text)| {
            let values: Vec<String> = text.iter().map(|one| encode(one, allow_reserved)).collect();
            format!("{}={}", encode(&name, false), values.join(separator(style)))
        })
        .collect()
}

/// A value as unencoded pairs of name and texts; the style decides how several texts
/// under one name are separated.
pub(super) fn form_pairs(
    name: &str,
    value: &Value,
    style: Style,
    explode: bool,
) -> Vec<(String, Vec<String>)> {
    match value {
        Value::Array(items) if style == Style::DeepObject => {
            let mut pairs = Vec::new();
            deep(name, &Value::Array(items.clone()), &mut pairs);
            pairs
        }
        Value::Array(items) if explode => {
            items.iter().map(|item| (name.to_owned(), vec![scalar(item)])).collect()
        }
        Value::Array(items) if items.is_empty() => vec![(name.to_owned(), vec![String::new()])],
        Value::Array(items) => vec![(name.to_owned(), items.iter().map(scalar).collect())],
        Value::Object(_) if style == Style::DeepObject => {
            let mut pairs = Vec::new();
            deep(name, value, &mut pairs);
            pairs
        }
        Value::Object(map) if explode => {
            map.iter().map(|(key, value)| (key.clone(), vec![scalar(value)])).collect()
        }
        Value::Object(_) => vec![(name.to_owned(), texts(value))],
        other => vec![(name.to_owned(), vec![scalar(other)])],
    }
}

/// `deepObject`: `name[key][inner]=value`.
fn deep(name: &str, value: &Value, pairs: &mut Vec<(String, Vec<String>)>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| deep(&format!("{name}[{key}]"), value, pairs));
        }
        Value::Array(items) => {
            let nested = items.iter().any(|item| item.is_object() || item.is_array());
            for (at, item) in items.iter().enumerate() {
                // Objects in an array need their index; scalars do not.
                let name = if nested { format!("{name}[{at}]") } else { format!("{name}[]") };
                deep(&name, item, pairs);
            }
        }
        Value::Null => {}
        other => pairs.push((name.to_owned(), vec![scalar(other)])),
    }
}

/// The encoded separator between texts under one name.
pub(super) fn separator(style: Style) -> &'static str {
    match style {
        Style::SpaceDelimited => "%20",
        Style::PipeDelimited => "%7C",
        Style::TabDelimited => "%09",
        _ => ",",
    }
}
