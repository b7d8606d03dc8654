//! Texts of values: Python's `str` and `repr`, and its JSON.
//!
//! All writers stop at a bound, because a small list that holds itself many times
//! over has a text without end.

use std::fmt::Write;

use super::Value;
use super::number::float_text;

/// The longest text that is made of one value, in bytes.
const MAX_TEXT: usize = 16 << 20;

/// `str(value)`.
pub fn python(value: &Value) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        _ => repr(value),
    }
}

/// `repr(value)`.
pub fn repr(value: &Value) -> String {
    let mut out = Bounded::new(MAX_TEXT);
    // Past the bound, the text ends.
    let _ = write_repr(value, &mut out);
    out.text
}

/// `json.dumps(value, ensure_ascii=False)`: with blanks after commas and colons.
pub fn json(value: &Value) -> String {
    let mut out = Bounded::new(MAX_TEXT);
    let _ = write_json(value, &mut out, None);
    out.text
}

/// `json.dumps(value, ensure_ascii=False, indent=2)`.
pub fn json_indented(value: &Value) -> String {
    let mut out = Bounded::new(MAX_TEXT);
    let _ = write_json(value, &mut out, Some(0));
    out.text
}

/// A text that grows up to a bound, then refuses.
pub(crate) struct Bounded {
    pub(crate) text: String,
    left: usize,
}

impl Bounded {
    pub(crate) fn new(bound: usize) -> Self {
        Self { text: String::new(), left: bound }
    }
}

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        self.left = self.left.checked_sub(part.len()).ok_or(std::fmt::Error)?;
        self.text.push_str(part);
        Ok(())
    }
}

/// Writes `str(value)`.
pub(crate) fn write_python(value: &Value, out: &mut impl Write) -> std::fmt::Result {
    match value {
        Value::Text(text) => out.write_str(text),
        _ => write_repr(value, out),
    }
}

fn write_repr(value: &Value, out: &mut impl Write) -> std::fmt::Result {
    match value {
        Value::Null => out.write_str("None"),
        Value::Bool(true) => out.write_str("True"),
        Value::Bool(false) => out.write_str("False"),
        Value::Int(int) => write!(out, "{int}"),
        Value::Float(float) => out.write_str(&float_text(*float)),
        Value::Text(text) => write_quoted(text, out),
        Value::List(items) => {
            out.write_char('[')?;
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.write_str(", ")?;
                }
                write_repr(item, out)?;
            }
            out.write_char(']')
        }
        Value::Object(entries) => {
            out.write_char('{')?;
            for (at, (key, item)) in entries.iter().enumerate() {
                if at > 0 {
                    out.write_str(", ")?;
                }
                write_quoted(key, out)?;
                out.write_str(": ")?;
                write_repr(item, out)?;
            }
            out.write_char('}')
        }
        Value::File(file) => write_repr(&Value::from_json(file.attributes().into()), out),
    }
}

/// A text in single quotes, or in double ones if only that spares escapes.
fn write_quoted(text: &str, out: &mut impl Write) -> std::fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.write_char(quote)?;
    for c in text.chars() {
        match c {
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\\' => out.write_str("\\\\")?,
            c if c == quote => write!(out, "\\{c}")?,
            c if is_printable(c) => out.write_char(c)?,
            c => match u32::from(c) {
                code @ 0..=0xff => write!(out, "\\x{code:02x}")?,
                code @ 0x100..=0xffff => write!(out, "\\u{code:04x}")?,
                code => write!(out, "\\U{code:08x}")?,
            },
        }
    }
    out.write_char(quote)
}

/// `str.isprintable`. Rust's `Debug` escapes the same characters, but for combining
/// marks at the beginning of a text.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let mut text = [0; 5];
    text[0] = b'a';
    let length = c.encode_utf8(&mut text[1..]).len();
    let text = std::str::from_utf8(&text[..=length]).unwrap_or_default();
    !text.escape_debug().skip(1).take(2).eq("\\u".chars())
}

fn write_json(value: &Value, out: &mut impl Write, indent: Option<usize>) -> std::fmt::Result {
    let inner = indent.map(|depth| depth + 1);
    match value {
        Value::Null => out.write_str("null"),
        Value::Bool(flag) => write!(out, "{flag}"),
        Value::Float(float) if float.is_nan() => out.write_str("NaN"),
        Value::Float(float) if float.is_infinite() => {
            out.write_str(if *float > 0.0 { "Infinity" } else { "-Infinity" })
        }
        Value::Int(_) | Value::Float(_) => write_repr(value, out),
        Value::Text(text) => write_json_text(text, out),
        Value::List(items) if items.is_empty() => out.write_str("[]"),
        Value::List(items) => {
            out.write_char('[')?;
            for (at, item) in items.iter().enumerate() {
                separate(at, inner, out)?;
                write_json(item, out, inner)?;
            }
            new_line(indent, out)?;
            out.write_char(']')
        }
        Value::Object(entries) if entries.is_empty() => out.write_str("{}"),
        Value::Object(entries) => {
            out.write_char('{')?;
            for (at, (key, item)) in entries.iter().enumerate() {
                separate(at, inner, out)?;
                write_json_text(key, out)?;
                out.write_str(": ")?;
                write_json(item, out, inner)?;
            }
            new_line(indent, out)?;
            out.write_char('}')
        }
        Value::File(file) => write_json(&Value::from_json(file.attributes().into()), out, indent),
    }
}

fn separate(at: usize, indent: Option<usize>, out: &mut impl Write) -> std::fmt::Result {
    match (at, indent) {
        (0, _) => {}
        (_, None) => out.write_str(", ")?,
        (_, Some(_)) => out.write_char(',')?,
    }
    new_line(indent, out)
}

fn new_line(indent: Option<usize>, out: &mut impl Write) -> std::fmt::Result {
    match indent {
        None => Ok(()),
        Some(depth) => write!(out, "\n{:1$}", "", depth * 2),
    }
}

/// A JSON string that keeps what is not ASCII.
fn write_json_text(text: &str, out: &mut impl Write) -> std::fmt::Result {
    out.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\u{8}' => out.write_str("\\b")?,
            '\u{c}' => out.write_str("\\f")?,
            c if u32::from(c) < 0x20 => write!(out, "\\u{:04x}", u32::from(c))?,
            c => out.write_char(c)?,
        }
    }
    out.write_char('"')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repr_is_that_of_python() {
        for (value, expected) in [
            (json!([{"k": 1}]), "[{'k': 1}]"),
            (json!([null, true, 1.0]), "[None, True, 1.0]"),
            (json!(["it's", "a \"b\"", "both ' and \""]), r#"["it's", 'a "b"', 'both \' and "']"#),
            (json!(["a\n\t\\"]), r"['a\n\t\\']"),
            (json!(["中e\u{301}\u{a0}\u{7f}\u{3000}"]), "['中e\u{301}\\xa0\\x7f\\u3000']"),
        ] {
            assert_eq!(repr(&Value::from_json(value)), expected);
        }
    }

    #[test]
    fn json_is_that_of_python() {
        let value = Value::from_json(json!({"a": [1, 2.0, "中\u{1}"], "b": {}, "c": []}));
        assert_eq!(json(&value), "{\"a\": [1, 2.0, \"中\\u0001\"], \"b\": {}, \"c\": []}");
        let indented = "{\n  \"a\": [\n    1,\n    2.0,\n    \"中\\u0001\"\n  ],\n  \"b\": {},\n  \"c\": []\n}";
        assert_eq!(json_indented(&value), indented);
    }

    #[test]
    fn a_value_that_repeats_itself_has_a_text_with_an_end() {
        let mut value = Value::from("x");
        for _ in 0..60 {
            value = [value.clone(), value].into_iter().collect();
        }
        assert!(python(&value).len() <= MAX_TEXT);
        assert!(value.weight(1000) < 2000);
    }
}
