//! Parses parameters of a request by their styles.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::Judge;
use super::document::{Spot, decode};

/// Where a list is put that stands in brackets.
const LIST: &str = "\u{1}list";

impl Judge {
    /// What the query says of a parameter; it is taken out of the list.
    pub(super) fn query_value(
        &self,
        parameter: Spot<'_>,
        name: &str,
        query: &mut Vec<(String, String)>,
    ) -> Option<Vec<String>> {
        let style = parameter.text("style").unwrap_or("form");
        let explode = parameter
            .value
            .get("explode")
            .and_then(Value::as_bool)
            .unwrap_or(style == "form" || style == "deepObject");
        let schema = self.schema_of(parameter);
        let object = schema.is_some_and(|schema| self.is_type(schema, "object"))
            && parameter.get("content").is_none();
        let wanted = |own: &str| {
            if style == "deepObject" {
                own == name || own.starts_with(&format!("{name}["))
            } else if object && explode && style == "form" {
                // The names of the properties stand for themselves.
                own == name || self.has_property(schema, own)
            } else {
                own == name
            }
        };
        let found: Vec<(String, String)> =
            query.iter().filter(|(own, _)| wanted(own)).cloned().collect();
        query.retain(|(own, _)| !wanted(own));
        if found.is_empty() {
            return None;
        }
        Some(if object || style == "deepObject" {
            found.into_iter().flat_map(|(name, value)| [format!("\u{1}{name}"), value]).collect()
        } else {
            found.into_iter().map(|(_, value)| value).collect()
        })
    }

    pub(super) fn schema_of<'j>(&'j self, parameter: Spot<'j>) -> Option<Spot<'j>> {
        let content = || {
            let (_, media) = parameter.value.get("content")?.as_object()?.iter().next()?;
            Spot { file: parameter.file, value: media }.get("schema")
        };
        parameter.get("schema").or_else(content).or_else(|| self.is_swagger().then_some(parameter))
    }

    /// What is wrong with the value of a parameter.
    pub(super) fn check(&self, parameter: Spot<'_>, place: &str, raw: &[String]) -> Option<String> {
        let schema = self.schema_of(parameter)?;
        if parameter.get("content").is_some() {
            let value = serde_json::from_str(&decode(raw.first()?)).ok()?;
            return self.reject(schema, &value);
        }
        let style = parameter.text("style").unwrap_or(match place {
            "query" => "form",
            _ => "simple",
        });
        let explode =
            parameter.value.get("explode").and_then(Value::as_bool).unwrap_or(style == "form");
        let separator = match parameter.text("collectionFormat") {
            Some("ssv") => "%20",
            Some("tsv") => "%09",
            Some("pipes") => "%7C",
            _ => match style {
                "spaceDelimited" => "%20",
                "pipeDelimited" => "%7C",
                "label" if explode => ".",
                "matrix" if explode => ";",
                _ => ",",
            },
        };
        let first = raw.first()?.as_str();
        let name = parameter.text("name").unwrap_or_default();
        let first = match style {
            "label" => first.strip_prefix('.')?,
            "matrix" => first.strip_prefix(';')?,
            _ => first,
        };
        let first = if style == "matrix" && !explode
            || style == "matrix"
                && !self.is_type(schema, "array")
                && !self.is_type(schema, "object")
        {
            first.strip_prefix(&format!("{name}="))?
        } else {
            first
        };
        let decoded = |text: &str| if place == "header" { text.to_owned() } else { decode(text) };
        let mut candidates = vec![];
        if first.starts_with('\u{1}') {
            let whole = object_of(name, raw, first, separator, explode, &decoded);
            // A plain value stands behind the name itself.
            let plain = (raw.len() == 2).then(|| json!(decoded(&raw[1])));
            candidates.extend(whole.get(LIST).cloned());
            candidates.extend(plain);
            candidates.push(whole);
        }
        if self.is_type(schema, "array") {
            let parts: Vec<String> = if raw.len() > 1 {
                raw.iter().map(|one| decoded(one)).collect()
            } else {
                let strip = |part: &str| {
                    if style == "matrix" && explode {
                        part.strip_prefix(&format!("{name}=")).unwrap_or(part).to_owned()
                    } else {
                        part.to_owned()
                    }
                };
                first.split(separator).map(|part| decoded(&strip(part))).collect()
            };
            candidates.push(json!(parts));
            if first.is_empty() {
                candidates.push(json!([]));
            }
        }
        if self.is_type(schema, "object") {
            candidates.push(object_of(name, raw, first, separator, explode, &decoded));
        }
        candidates.push(json!(raw.iter().map(|one| decoded(one)).collect::<Vec<_>>().join("&")));
        candidates.push(json!(decoded(first)));
        let mut why = None;
        for candidate in candidates {
            let value = self.coerce(schema, candidate, 0);
            match self.reject(schema, &value) {
                None => return None,
                Some(reason) => why = why.or(Some(format!("{reason} in {value}"))),
            }
        }
        why
    }
}

/// Headers that OpenAPI itself does not take as parameters, and those that
/// Windlass does not let arguments set.
pub(super) fn is_ignored(place: &str, name: &str) -> bool {
    place == "header"
        && [
            "accept",
            "content-type",
            "authorization",
            "host",
            "content-length",
            "content-encoding",
            "cookie",
            "via",
            "expect",
        ]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own))
}

/// The raw texts in a path, by the names in its template.
pub(super) fn path_values<'t>(template: &'t str, path: &str) -> HashMap<&'t str, String> {
    let mut values = HashMap::new();
    let templates: Vec<&str> = template.split('/').collect();
    let given: Vec<&str> = path.split('/').collect();
    // What stands before is the base.
    for (wanted, given) in templates.iter().rev().zip(given.iter().rev()) {
        let mut rest = *given;
        let mut wanted = *wanted;
        while let Some((before, after)) = wanted.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { break };
            rest = rest.strip_prefix(before).unwrap_or(rest);
            let literal = after.split('{').next().unwrap_or_default();
            let end = if literal.is_empty() {
                rest.len()
            } else {
                rest.find(literal).unwrap_or(rest.len())
            };
            values.insert(name, rest[..end].to_owned());
            rest = &rest[end..];
            wanted = after;
        }
    }
    values
}

/// An object from what a style made of it.
fn object_of(
    name: &str,
    raw: &[String],
    first: &str,
    separator: &str,
    explode: bool,
    decoded: &dyn Fn(&str) -> String,
) -> Value {
    let mut object = Value::Object(Map::new());
    if raw.first().is_some_and(|text| text.starts_with('\u{1}')) {
        for pair in raw.chunks(2) {
            let key = pair[0].trim_start_matches('\u{1}');
            match key.strip_prefix(name).filter(|rest| rest.starts_with('[')) {
                Some(keys) => {
                    let keys: Vec<String> = keys
                        .split('[')
                        .skip(1)
                        .map(|key| key.trim_end_matches(']').to_owned())
                        .collect();
                    let is_list = keys[0].is_empty() || keys[0].chars().all(|c| c.is_ascii_digit());
                    let inside = if is_list { &mut object[LIST] } else { &mut object };
                    insert_deep(inside, &keys, decoded(&pair[1]));
                }
                None if key == name => {
                    let parts: Vec<String> = pair[1].split(separator).map(decoded).collect();
                    for pair in parts.chunks(2).filter(|pair| pair.len() == 2) {
                        object[&pair[0]] = json!(pair[1]);
                    }
                }
                None => object[key] = json!(decoded(&pair[1])),
            }
        }
        return object;
    }
    let parts: Vec<&str> = first.split(separator).collect();
    if explode {
        for (key, value) in parts.iter().filter_map(|part| part.split_once('=')) {
            object[decoded(key)] = json!(decoded(value));
        }
    } else {
        for pair in parts.chunks(2).filter(|pair| pair.len() == 2) {
            object[decoded(pair[0])] = json!(decoded(pair[1]));
        }
    }
    object
}

pub(super) fn insert_deep(value: &mut Value, keys: &[String], text: String) {
    let Some((key, rest)) = keys.split_first() else {
        *value = json!(text);
        return;
    };
    let is_index = key.is_empty() || key.chars().all(|c| c.is_ascii_digit());
    if is_index && !value.is_object() || value.is_array() {
        if !value.is_array() {
            *value = json!([]);
        }
        if let Value::Array(items) = value {
            let at = key.parse().unwrap_or(items.len());
            while items.len() <= at {
                items.push(Value::Null);
            }
            insert_deep(&mut items[at], rest, text);
        }
        return;
    }
    if !value.is_object() {
        *value = json!({});
    }
    if let Value::Object(map) = value {
        insert_deep(map.entry(key.clone()).or_insert(Value::Null), rest, text);
    }
}
