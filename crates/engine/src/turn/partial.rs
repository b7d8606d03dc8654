//! Streamed arguments of Gemini (`partialArgs`): each piece names a location in
//! the arguments by a JSON path, and has its value or more of its text.
//!
//! Inconsistent pieces invalidate all arguments: a call must not run with only
//! some of them.

use serde_json::{Map, Value, json};

/// Maximum size of the text and names of a call.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum depth.
const MAX_DEPTH: usize = 64;
/// Maximum number of skipped list items in total: a short path can name an item
/// far behind the end of its list.
const MAX_GAPS: usize = 10_000;

/// The arguments so far.
#[derive(Clone, Debug)]
pub(super) struct PartialArguments {
    arguments: Value,
    /// Locations whose text continues.
    open: Vec<Vec<PathStep>>,
    bytes: usize,
    gaps: usize,
    is_spoiled: bool,
}

/// A step of a JSON path.
#[derive(Clone, Debug, PartialEq)]
enum PathStep {
    Key(String),
    Item(usize),
}

impl PartialArguments {
    /// Starts with arguments that arrived whole, if any.
    pub(super) fn new(arguments: &Value) -> Self {
        let arguments = match arguments {
            Value::Object(own) => Value::Object(own.clone()),
            _ => Value::Object(Map::new()),
        };
        Self { arguments, open: Vec::new(), bytes: 0, gaps: 0, is_spoiled: false }
    }

    /// Whether a text continues in the next piece.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The arguments; `None` if the pieces are inconsistent.
    pub(super) fn whole(&self) -> Option<&Value> {
        (!self.is_spoiled).then_some(&self.arguments)
    }

    /// Adds a piece.
    pub(super) fn add(&mut self, piece: &Value) {
        self.is_spoiled |= self.try_add(piece).is_none();
    }

    fn try_add(&mut self, piece: &Value) -> Option<()> {
        let path = either(piece, "jsonPath", "json_path").as_str()?;
        let goes_on = either(piece, "willContinue", "will_continue") == true;
        // A list ends with a piece without a value; an empty one has no other.
        let (path, is_list) = match path.strip_suffix("[]") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let value = value_of(piece);
        let text = value.as_ref().and_then(Value::as_str).map_or(0, str::len);
        self.bytes += path.len() + text;
        if self.bytes > MAX_BYTES {
            return None;
        }
        let path = steps(path)?;
        let is_text = value.as_ref().is_some_and(Value::is_string);
        let place = place(&mut self.arguments, &path, &mut self.gaps)?;
        match (place, value) {
            (place @ Value::Null, Some(value)) => *place = value,
            (Value::String(text), Some(Value::String(more))) => text.push_str(&more),
            (place, Some(value)) if *place == value => {}
            (_, Some(_)) => return None,
            (Value::Null, None) if goes_on => {}
            (place @ Value::Null, None) => *place = if is_list { json!([]) } else { json!({}) },
            (_, None) => {}
        }
        self.open.retain(|open| *open != path);
        if goes_on && is_text {
            self.open.push(path);
        }
        Some(())
    }
}

/// The value under its key in the API, or in Google's Python SDK.
pub(super) fn either<'v>(value: &'v Value, wire: &str, sdk: &str) -> &'v Value {
    value.get(wire).unwrap_or(&value[sdk])
}

/// The value in a piece, if it has one.
fn value_of(piece: &Value) -> Option<Value> {
    let values = [
        either(piece, "stringValue", "string_value"),
        either(piece, "numberValue", "number_value"),
        either(piece, "boolValue", "bool_value"),
    ];
    let value = values.into_iter().find(|value| !value.is_null()).cloned();
    // The SDK writes all keys, so presence means nothing.
    let is_null = || match piece.get("nullValue") {
        Some(Value::Null) => piece.get("stringValue").is_none(),
        Some(_) => true,
        None => !piece["null_value"].is_null(),
    };
    value.or_else(|| is_null().then_some(Value::Null))
}

/// The location of a path, created if necessary.
fn place<'v>(root: &'v mut Value, path: &[PathStep], gaps: &mut usize) -> Option<&'v mut Value> {
    let mut place = root;
    for step in path {
        if place.is_null() {
            *place = match step {
                PathStep::Key(_) => json!({}),
                PathStep::Item(_) => json!([]),
            };
        }
        place = match (step, place) {
            (PathStep::Key(key), Value::Object(object)) => {
                object.entry(key.as_str()).or_insert(Value::Null)
            }
            (PathStep::Item(at), Value::Array(items)) => {
                if *at >= items.len() {
                    *gaps += at - items.len();
                    if *gaps > MAX_GAPS {
                        return None;
                    }
                    items.resize(at + 1, Value::Null);
                }
                items.get_mut(*at)?
            }
            _ => return None,
        };
    }
    Some(place)
}

/// Parses a JSON path that names one location: `$.a.b`, `$['a'][0]`.
fn steps(path: &str) -> Option<Vec<PathStep>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == MAX_DEPTH {
            return None;
        }
        let step;
        (step, rest) = match rest.strip_prefix('.') {
            Some(name) => {
                let end = name.find(['.', '[']).unwrap_or(name.len());
                let (name, rest) = name.split_at(end);
                (PathStep::Key(Some(name).filter(|name| !name.is_empty())?.to_owned()), rest)
            }
            None => bracket(rest.strip_prefix('[')?)?,
        };
        steps.push(step);
    }
    // The root is not an argument.
    (!steps.is_empty()).then_some(steps)
}

/// Parses a step in brackets; returns the rest.
fn bracket(inside: &str) -> Option<(PathStep, &str)> {
    let quote = inside.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let Some(quote) = quote else {
        let (number, rest) = inside.split_once(']')?;
        return Some((PathStep::Item(number.parse().ok()?), rest));
    };
    let mut key = String::new();
    let mut is_escaped = false;
    for (at, c) in inside.char_indices().skip(1) {
        match c {
            c if is_escaped => {
                is_escaped = false;
                key.push(c);
            }
            '\\' => is_escaped = true,
            c if c == quote => {
                return Some((PathStep::Key(key), inside[at + 1..].strip_prefix(']')?));
            }
            c => key.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(pieces: &[Value]) -> Option<Value> {
        let mut arguments = PartialArguments::new(&Value::Null);
        pieces.iter().for_each(|piece| arguments.add(piece));
        arguments.whole().cloned()
    }

    #[test]
    fn pieces_fall_into_place() {
        let arguments = whole(&[
            json!({"jsonPath": "$.recipe.name", "stringValue": "La", "willContinue": true}),
            json!({"jsonPath": "$.recipe.name", "stringValue": "sagna", "willContinue": true}),
            json!({"jsonPath": "$.recipe.name"}),
            json!({"jsonPath": "$.recipe.steps[0].minutes", "numberValue": 5}),
            json!({"jsonPath": "$.recipe.steps[1].minutes", "numberValue": 7.5}),
            json!({"jsonPath": "$.recipe.steps[]"}),
            json!({"jsonPath": "$['odd.key'][\"it's\"]", "boolValue": false}),
            json!({"jsonPath": "$.none", "nullValue": "NULL_VALUE"}),
            json!({"jsonPath": "$.empty[]"}),
            json!({"json_path": "$.sdk", "string_value": "x", "number_value": null,
                   "null_value": null, "will_continue": null}),
        ]);
        let wanted = json!({
            "recipe": {"name": "Lasagna", "steps": [{"minutes": 5}, {"minutes": 7.5}]},
            "odd.key": {"it's": false}, "none": null, "empty": [], "sdk": "x",
        });
        assert_eq!(arguments, Some(wanted));
    }

    #[test]
    fn what_does_not_fit_spoils_all() {
        let text = json!({"jsonPath": "$.a", "stringValue": "x", "willContinue": true});
        for piece in [
            json!({"jsonPath": "$.a", "numberValue": 1}),
            json!({"jsonPath": "$.a.b", "stringValue": "y"}),
            json!({"jsonPath": "$.a[0]", "stringValue": "y"}),
            json!({"jsonPath": "$..a", "stringValue": "y"}),
            json!({"jsonPath": "$.b[99999999]", "stringValue": "y"}),
            json!({"jsonPath": "$.b[9999][9999]", "stringValue": "y"}),
            json!({"jsonPath": "$", "stringValue": "y"}),
            json!({"jsonPath": format!("${}", ".a".repeat(65)), "stringValue": "y"}),
            json!({"stringValue": "y"}),
            json!(7),
        ] {
            assert_eq!(whole(&[text.clone(), piece.clone()]), None, "{piece}");
        }
    }

    #[test]
    fn a_text_is_open_until_a_piece_does_not_go_on() {
        let mut arguments = PartialArguments::new(&json!({"kept": 1}));
        arguments.add(&json!({"jsonPath": "$.a", "stringValue": "x", "willContinue": true}));
        assert!(arguments.is_open());
        arguments.add(&json!({"jsonPath": "$.a", "stringValue": ""}));
        assert!(!arguments.is_open());
        assert_eq!(arguments.whole(), Some(&json!({"kept": 1, "a": "x"})));
    }
}
