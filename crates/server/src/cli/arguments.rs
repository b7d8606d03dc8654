//! The arguments of a call on the command line.
//!
//! The first word may be the whole object: `{…}`, `@file`, or `-` for stdin. Every
//! other word sets one parameter of it:
//!
//! | word | value |
//! |---|---|
//! | `key=value` | JSON if it parses as JSON, else text; always text if the schema wants a string |
//! | `key=@file` | the file's text |
//! | `key:=json` | JSON, whatever the schema wants |
//! | `key:=@file` | the file's JSON |

mod unique;

pub(crate) use unique::UniqueKeys;

use std::fs::File;
use std::io::Read;

use serde_json::{Map, Value};

use crate::cli::exit::Failure;
use crate::cli::output::beginning;

/// More than this is not an argument but a mistake.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

const FORMS: &str =
    "write '{\"key\": \"value\"}', key=value, key:=json, @file.json, or - for stdin";

/// Whether reading these words takes stdin.
pub(crate) fn take_stdin(words: &[String]) -> bool {
    words.first().is_some_and(|word| word == "-")
}

/// Reads the arguments. `schema` is what the tool wants, where there is one.
pub(crate) fn read(words: &[String], schema: Option<&Value>) -> Result<Value, Failure> {
    let (mut arguments, pairs) = match words.split_first() {
        None => (Map::new(), words),
        Some((first, rest)) => match whole(first)? {
            Some(object) => (object, rest),
            None => (Map::new(), words),
        },
    };
    let mut given: Vec<&str> = Vec::new();
    for word in pairs {
        let (key, value) = pair(word, schema)?;
        if given.contains(&key) {
            return Err(Failure::usage(format!("`{key}` is given twice"))
                .hint(format!("for a list, write {key}:='[1, 2]'")));
        }
        given.push(key);
        arguments.insert(key.to_owned(), value);
    }
    Ok(Value::Object(arguments))
}

/// The two halves of the word that gives a parameter this value: `key=` or
/// `key:=`, and what follows.
pub(crate) fn word(key: &str, value: &Value, schema: &Value) -> (String, String) {
    match value {
        Value::String(text) if reads_as_text(key, text, schema) => {
            (format!("{key}="), text.clone())
        }
        other => (format!("{key}:="), other.to_string()),
    }
}

fn reads_as_text(key: &str, text: &str, schema: &Value) -> bool {
    let is_file = text.starts_with('@');
    !is_file && (wants_text(Some(schema), key) || serde_json::from_str::<Value>(text).is_err())
}

/// A `key=value` outside of arguments.
pub(crate) fn variable(word: &str) -> Result<(String, Value), Failure> {
    pair(word, None).map(|(key, value)| (key.to_owned(), value))
}

/// Refuses a JSON text in which an object has a key twice.
pub(crate) fn unique_keys(text: &str) -> serde_json::Result<()> {
    unique::check(text)
}

/// The whole object, if the word stands for one.
fn whole(word: &str) -> Result<Option<Map<String, Value>>, Failure> {
    if word == "-" {
        return object(&text(std::io::stdin(), "stdin")?, "stdin").map(Some);
    }
    if let Some(path) = word.strip_prefix('@') {
        return object(&file(path)?, path).map(Some);
    }
    if word.trim_start().starts_with(['{', '[', '"']) {
        return object(word, "the arguments").map(Some);
    }
    Ok(None)
}

fn object(text: &str, from: &str) -> Result<Map<String, Value>, Failure> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match json(text, from)? {
        Value::Object(map) => Ok(map),
        other => {
            let what = kind_of(&other);
            Err(Failure::usage(format!("{from}: expected a JSON object, found {what}"))
                .hint("the tool's parameters are its keys: '{\"key\": \"value\"}'"))
        }
    }
}

fn pair<'a>(word: &'a str, schema: Option<&Value>) -> Result<(&'a str, Value), Failure> {
    let Some((key, value)) = word.split_once('=') else {
        return Err(Failure::usage(format!("`{}` is not an argument", shown(word))).hint(FORMS));
    };
    let (key, forced) = match key.strip_suffix(':') {
        Some(key) => (key, true),
        None => (key, false),
    };
    if key.is_empty() {
        return Err(
            Failure::usage(format!("`{}` has no name before the =", shown(word))).hint(FORMS)
        );
    }
    let from_file = value.strip_prefix('@').map(|path| file(path).map(|text| (text, path)));
    let value = match (from_file.transpose()?, forced) {
        (Some((text, path)), true) => json(&text, path)?,
        (Some((text, _)), false) => Value::String(text),
        (None, true) => json(value, key)?,
        (None, false) if wants_text(schema, key) => Value::String(value.to_owned()),
        (None, false) if serde_json::from_str::<Value>(value).is_ok() => json(value, key)?,
        (None, false) => Value::String(value.to_owned()),
    };
    Ok((key, value))
}

/// Whether the tool takes nothing but text here; `5` is then not a number.
fn wants_text(schema: Option<&Value>, key: &str) -> bool {
    schema
        .and_then(|schema| schema.get("properties")?.get(key)?.get("type"))
        .is_some_and(|wanted| wanted == "string")
}

fn json(text: &str, from: &str) -> Result<Value, Failure> {
    let value = serde_json::from_str(text).map_err(|error| {
        let failure = Failure::usage(format!("{from}: not valid JSON: {error}"));
        if text.contains('\'') || text.starts_with("{\\") || !text.contains('"') {
            failure.hint("JSON wants double quotes; in a shell, put '…' around all of it")
        } else {
            failure.hint(FORMS)
        }
    })?;
    unique::check(text).map_err(|error| {
        Failure::usage(format!("{from}: {error}"))
            .hint("leave one of them out; several values are a list: [1, 2]")
    })?;
    Ok(value)
}

fn file(path: &str) -> Result<String, Failure> {
    let file = File::open(path).map_err(|error| {
        Failure::usage(format!("@{path}: cannot be opened: {error}"))
            .hint("for a text that begins with @, write key:='\"@…\"'")
    })?;
    text(file, path)
}

/// The text of a file or of stdin, which is not without end.
pub(crate) fn text(from: impl Read, name: &str) -> Result<String, Failure> {
    let mut text = String::new();
    from.take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("{name}: cannot be read: {error}")))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Failure::usage(format!("{name}: larger than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

/// What kind of JSON a value is, for a message.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The beginning of a word, for a message.
fn shown(word: &str) -> String {
    beginning(word, 60).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn every_form_is_read() {
        let schema = json!({"properties": {"text": {"type": "string"}, "n": {"type": "integer"}}});
        for (typed, value) in [
            (&[][..], json!({})),
            (&[r#"{"a": 1}"#], json!({"a": 1})),
            (&["text=5", "n=5"], json!({"text": "5", "n": 5})),
            (&["x=true", "y=[1]", "z=hi there"], json!({"x": true, "y": [1], "z": "hi there"})),
            (&["text:=5", "e=2=2", "empty="], json!({"text": 5, "e": "2=2", "empty": ""})),
            (&[r#"{"a": 1, "b": 2}"#, "a=3"], json!({"a": 3, "b": 2})),
        ] {
            assert_eq!(read(&words(typed), Some(&schema)).unwrap(), value, "{typed:?}");
        }
    }

    #[test]
    fn a_value_is_written_as_it_is_read() {
        let schema = json!({"properties": {"text": {"type": "string"}}});
        for (key, value, written) in [
            ("text", json!("5"), "text=5"),
            ("text", json!("@home"), r#"text:="@home""#),
            ("any", json!("5"), r#"any:="5""#),
            ("any", json!("a=b"), "any=a=b"),
            ("any", json!({"a": [1, null]}), r#"any:={"a":[1,null]}"#),
        ] {
            let (name, rest) = word(key, &value, &schema);
            assert_eq!(format!("{name}{rest}"), written);
            assert_eq!(read(&words(&[written]), Some(&schema)).unwrap(), json!({key: value}));
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (typed, part) in [
            (&["hello"][..], "not an argument"),
            (&["{a: 1}"], "not valid JSON"),
            (&["[1]"], "expected a JSON object"),
            (&["=1"], "no name"),
            (&["a=1", "a=2"], "given twice"),
            (&["a:=nope"], "not valid JSON"),
            (&[r#"{"a": 1, "a": 2}"#], "the arguments: the key `a` is given twice"),
            (&[r#"{"a": [{"b": 1, "c": {}, "b": 1}]}"#], "the key `b` is given twice"),
            (&[r#"a:={"b": 1, "b": 2}"#], "a: the key `b` is given twice"),
            (&[r#"a={"b": 1, "b": 2}"#], "a: the key `b` is given twice"),
            (&["@/no/such/file"], "cannot be opened"),
            (&["a=@/no/such/file"], "cannot be opened"),
        ] {
            let failure = read(&words(typed), None).unwrap_err();
            assert!(failure.message.contains(part), "{typed:?}: {failure}");
            assert!(failure.hint.is_some(), "{typed:?}");
        }
    }
}
