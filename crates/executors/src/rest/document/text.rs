//! Parses JSON, and YAML as it occurs in real API documents.
//!
//! Real documents have numeric keys (`200:`), duplicate keys and numbers beyond 64 bits,
//! and they are meant; a reader as strict as the one for definitions would reject half of
//! them. The limits are not relaxed: size, depth and, with aliases expanded, the number
//! of values (against "billion laughs" documents).

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

use super::{DocumentLimits, json};

/// Parses one document.
pub(super) fn parse(text: &str, limits: &DocumentLimits) -> Result<Value, String> {
    if text.len() > limits.file_bytes {
        return Err(format!("larger than {} bytes", limits.file_bytes));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') {
        limits.check_json(text.as_bytes())?;
        // YAML's flow style begins the same way, so a JSON error is not final; but the
        // JSON parser is much faster.
        match json::parse(text) {
            Ok(value) => return Ok(value),
            Err(error) if error.is_syntax() && error.column() == 0 => {
                return Err(format!("not valid JSON: {error}"));
            }
            Err(error) => return yaml(text, limits).map_err(|_| format!("not valid: {error}")),
        }
    }
    yaml(text, limits)
}

impl DocumentLimits {
    /// Rejects JSON with too many values before any memory is allocated for them.
    pub fn check_json(&self, text: &[u8]) -> Result<(), String> {
        match values_in(text) > self.nodes {
            true => Err(format!("more than {} values", self.nodes)),
            false => Ok(()),
        }
    }
}

/// Upper bound for the number of values and keys in JSON text, without parsing it: each
/// follows a bracket, a comma or a colon.
fn values_in(text: &[u8]) -> usize {
    let (mut values, mut quoted, mut escaped) = (0, false, false);
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' | b',' | b':' if !quoted => values += 1,
            _ => {}
        }
    }
    values
}

/// Parses YAML. Characters that YAML forbids, but which occur in real documents, are
/// replaced by spaces, rather than rejecting a whole document.
fn yaml(text: &str, limits: &DocumentLimits) -> Result<Value, String> {
    let seemly;
    let text = if text.contains(is_forbidden) {
        seemly = text.replace(is_forbidden, " ");
        &seemly
    } else {
        text
    };
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
    };
    let mut builder = Builder { limits, spent: 0, open: Vec::new(), anchors: HashMap::new() };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| {
            let at = error.marker();
            format!("line {}: not valid YAML: {}", at.line(), error.info())
        })?;
        let done =
            builder.take(event).map_err(|why| format!("line {}: {why}", span.start.line()))?;
        if let Some(document) = done {
            return Ok(document);
        }
    }
    Err("it is empty".to_owned())
}

/// Whether YAML forbids a character: most control characters, and code points that are no
/// characters.
fn is_forbidden(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' | '\u{85}' => false,
        '\u{fffe}' | '\u{ffff}' => true,
        c => c.is_control(),
    }
}

/// A tree under construction.
struct Builder<'l> {
    limits: &'l DocumentLimits,
    /// Number of values so far, including copies of anchors.
    spent: usize,
    open: Vec<Frame>,
    anchors: HashMap<usize, (Value, usize)>,
}

struct Frame {
    anchor: usize,
    spent_before: usize,
    inside: Inside,
}

enum Inside {
    List(Vec<Value>),
    Map { map: Map<String, Value>, merged: Vec<Value>, key: Option<String> },
}

impl Builder<'_> {
    /// Handles the next event; returns the first document once it is complete.
    fn take(&mut self, event: Event<'_>) -> Result<Option<Value>, String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(1)?;
                let value = scalar(&text, style, tag.as_deref());
                if let Some(Frame { inside: Inside::Map { key: key @ None, .. }, .. }) =
                    self.open.last_mut()
                {
                    // A key is the text as written, whatever type it resembles.
                    *key = Some(text.into_owned());
                    return Ok(None);
                }
                self.close(value, anchor, self.spent - 1)
            }
            Event::SequenceStart(_, anchor, _) => self.push(anchor, Inside::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                let inside = Inside::Map { map: Map::new(), merged: Vec::new(), key: None };
                self.push(anchor, inside)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.open.pop() else { return Ok(None) };
                let value = match frame.inside {
                    Inside::List(items) => Value::Array(items),
                    Inside::Map { map, merged, .. } => Value::Object(merge(map, merged)),
                };
                self.close(value, frame.anchor, frame.spent_before)
            }
            Event::Alias(id) => {
                let (value, cost) =
                    self.anchors.get(&id).cloned().ok_or("an alias inside its own anchor")?;
                self.spend(cost)?;
                Ok(self.place(value))
            }
            _ => Ok(None),
        }
    }

    fn push(&mut self, anchor: usize, inside: Inside) -> Result<Option<Value>, String> {
        if self.open.len() >= self.limits.depth {
            return Err(format!("nested more than {} levels deep", self.limits.depth));
        }
        if let Some(Frame { inside: Inside::Map { key: None, .. }, .. }) = self.open.last() {
            return Err("a list or mapping cannot be a key".to_owned());
        }
        let spent_before = self.spent;
        self.spend(1)?;
        self.open.push(Frame { anchor, spent_before, inside });
        Ok(None)
    }

    fn close(
        &mut self,
        value: Value,
        anchor: usize,
        spent_before: usize,
    ) -> Result<Option<Value>, String> {
        if anchor != 0 {
            let cost = self.spent - spent_before;
            self.spend(cost)?;
            self.anchors.insert(anchor, (value.clone(), cost));
        }
        Ok(self.place(value))
    }

    /// Inserts a value into its parent; returns it if it is the root.
    fn place(&mut self, value: Value) -> Option<Value> {
        match self.open.last_mut().map(|frame| &mut frame.inside) {
            None => return (!value.is_null()).then_some(value),
            Some(Inside::List(items)) => items.push(value),
            Some(Inside::Map { map, merged, key }) => match key.take() {
                Some(key) if key == "<<" => merged.push(value),
                Some(key) => drop(map.insert(key, value)),
                None => *key = value.as_str().map(str::to_owned),
            },
        }
        None
    }

    fn spend(&mut self, values: usize) -> Result<(), String> {
        self.spent = self.spent.saturating_add(values);
        if self.spent > self.limits.nodes {
            return Err(format!("more than {} values, aliases expanded", self.limits.nodes));
        }
        Ok(())
    }
}

/// Applies a merge key (`<<`); the mapping's own keys take precedence.
fn merge(mut map: Map<String, Value>, merged: Vec<Value>) -> Map<String, Value> {
    for value in merged {
        let maps = match value {
            Value::Array(maps) => maps,
            one => vec![one],
        };
        for (key, value) in maps
            .into_iter()
            .filter_map(|map| match map {
                Value::Object(map) => Some(map),
                _ => None,
            })
            .flatten()
        {
            map.entry(key).or_insert(value);
        }
    }
    map
}

/// Resolves a scalar by the core schema of YAML 1.2. What JSON cannot represent stays
/// text.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let plain = matches!(style, ScalarStyle::Plain);
    let as_text = tag.is_some_and(|tag| tag.core_suffix().is_none_or(|suffix| suffix == "str"));
    if !plain || as_text {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    if !text.bytes().all(|b| b.is_ascii_hexdigit() || b"+-.eExo".contains(&b)) {
        return None;
    }
    let radix = |prefix, radix| {
        text.strip_prefix(prefix).and_then(|digits| u64::from_str_radix(digits, radix).ok())
    };
    let integer = radix("0x", 16).or_else(|| radix("0o", 8)).map(Number::from);
    integer
        .or_else(|| text.parse::<i64>().ok().map(Number::from))
        .or_else(|| text.parse::<u64>().ok().map(Number::from))
        .or_else(|| {
            let float = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
            float.then(|| text.parse().ok().and_then(Number::from_f64)).flatten()
        })
}
