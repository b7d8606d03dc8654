//! Parses arguments that a model wrote as text.
//!
//! Models wrap JSON in code fences, send nothing for "no arguments", and are
//! cut off by token limits. Text is accepted where its meaning is unambiguous;
//! a cut inside a value could change the value, so it is refused.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::call::CallOptions;
use crate::error::phrase::{self, Phrase};
use crate::error::{Error, Violation};

/// Parses the arguments of a call. Those of a batch were parsed when the batch
/// was planned; an error of that is reported now.
pub(crate) fn parse(request: &CallOptions, arguments: &mut Arc<Value>) -> Result<(), Error> {
    match request.unreadable() {
        Some(error) => Err(error.clone()),
        None => read_arguments(arguments),
    }
}

/// Parses arguments into an object. On an error they stay unchanged.
pub(crate) fn read_arguments(arguments: &mut Arc<Value>) -> Result<(), Error> {
    let read = match &**arguments {
        Value::Object(_) => return Ok(()),
        Value::Null => Value::Object(Map::new()),
        Value::String(text) => match read(text).map_err(not_json)? {
            // Some models quote their JSON twice.
            Value::String(inner) => read(&inner).map_err(not_json)?,
            value => value,
        },
        Value::Array(_) => return Err(not_an_object(&phrase::ARRAY)),
        Value::Bool(_) => return Err(not_an_object(&phrase::BOOLEAN)),
        Value::Number(_) => return Err(not_an_object(&phrase::NUMBER)),
    };
    *arguments = Arc::new(match read {
        Value::Object(_) => read,
        Value::Null => Value::Object(Map::new()),
        _ => return Err(not_an_object(&phrase::NOT_AN_OBJECT)),
    });
    Ok(())
}

fn not_json(got: String) -> Error {
    let expected = phrase::JSON_OBJECT.text();
    Error::invalid_arguments(vec![Violation { path: String::new(), expected, got }])
}

fn not_an_object(got: &Phrase) -> Error {
    Error::invalid_arguments(vec![Violation {
        path: String::new(),
        expected: phrase::PARAMETERS.text(),
        got: got.text(),
    }])
}

fn read(text: &str) -> Result<Value, String> {
    let text = unfence(text.trim());
    if text.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match crate::turn::lenient_json(text) {
        Ok(value) => Ok(value),
        Err(error) if error.is_eof() => complete(text)
            .and_then(|whole| serde_json::from_str(&whole).ok())
            .ok_or_else(|| phrase::BROKEN_OFF.text()),
        Err(error) => Err(phrase::NOT_JSON.with(error)),
    }
}

/// The content of a Markdown code fence, if the whole text is one.
fn unfence(text: &str) -> &str {
    let Some(inside) = text.strip_prefix("```") else { return text };
    let inside = inside.strip_suffix("```").unwrap_or(inside);
    // The rest of the first line is the language tag.
    let inside = match inside.find(['\n', '{', '[']) {
        Some(at)
            if inside[..at].chars().all(|c| c.is_ascii_alphanumeric() || c.is_whitespace()) =>
        {
            &inside[at..]
        }
        _ => inside,
    };
    inside.trim()
}

/// Closes open brackets of truncated JSON, if the cut was after a complete
/// value: after a string, a closing bracket, a literal that is followed by
/// something, or a comma.
fn complete(text: &str) -> Option<String> {
    let mut open = Vec::new();
    let mut in_string = false;
    let mut escaped = false;
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' => {
                open.pop();
            }
            _ => {}
        }
    }
    if in_string {
        return None;
    }
    let kept = text.trim_end();
    let kept = kept.strip_suffix(',').map_or(kept, str::trim_end);
    let whole = kept.len() < text.trim_end().len() || kept.ends_with(['"', '}', ']', '{', '[']);
    whole.then(|| kept.chars().chain(open.into_iter().rev()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_meanings_are_understood() {
        for (text, value) in [
            (r#"{"a": 1}"#, json!({"a": 1})),
            ("", json!({})),
            ("null", json!({})),
            ("```json\n{\"a\": 1}\n```", json!({"a": 1})),
            ("```{\"a\": 1}```", json!({"a": 1})),
            (r#""{\"a\": 1}""#, json!({"a": 1})),
            (r#"{"a": "x""#, json!({"a": "x"})),
            (r#"{"a": {"b": [1, 2]"#, json!({"a": {"b": [1, 2]}})),
            (r#"{"a": 1,"#, json!({"a": 1})),
            (r#"{"a": ["}", "#, json!({"a": ["}"]})),
        ] {
            let mut arguments = Arc::new(Value::from(text));
            read_arguments(&mut arguments).unwrap();
            assert_eq!(*arguments, value, "{text}");
        }
    }

    #[test]
    fn a_cut_inside_a_value_is_refused() {
        for text in [
            r#"{"a": 1"#,
            r#"{"a": "hel"#,
            r#"{"a": tru"#,
            r#"{"a":"#,
            r#"{"a"#,
            r#"{"a""#,
            r#"{"a": "x\""#,
            "{a: 1}",
            "hello",
            "[1]",
            "3",
            "{} {}",
        ] {
            let mut arguments = Arc::new(Value::from(text));
            assert!(read_arguments(&mut arguments).is_err(), "{text}");
            assert_eq!(*arguments, text);
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "{\"a\":".repeat(10_000);
        for text in [deep.clone(), format!("{deep}1{}", "}".repeat(10_000))] {
            assert!(read_arguments(&mut Arc::new(Value::from(text))).is_err());
        }
    }
}
