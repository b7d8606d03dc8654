//! Finds the calls in the input: a list, a model's message, a whole API response, or
//! JSON lines.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IsTerminal};

use serde_json::{Deserializer, Map, Value};

use super::parsed_call::{ListItem, ParsedCall};
use crate::cli::arguments::{self, kind_of};
use crate::cli::context::Stdin;
use crate::cli::exit::Failure;

/// The forms, for the help and for hints.
pub(super) const FORMS: &str = "  \
  {\"tool\": NAME, \"arguments\": {…}}  also \"id\", \"timeout\", \"idempotency_key\", \"priority\"\n  \
  tool_use blocks, or an Anthropic message with such blocks; its text is skipped\n  \
  tool_calls, or an OpenAI message with them\n  \
  One of these, a list of them, an object with such a list, or one on each line.";

const HINT: &str = "a call is {\"tool\": \"echo\", \"arguments\": {\"message\": \"hi\"}}; \
                    `windlass batch --help` shows all forms";

/// Where a list of calls is in an object, the surest first.
const LISTS: [&str; 4] = ["tool_calls", "content", "calls", "output"];

/// Reads all calls, and says whether stdin was needed for it.
pub(super) fn read(word: Option<&str>) -> Result<(Vec<ParsedCall>, Stdin), Failure> {
    let (text, from, stdin) = match word {
        None | Some("-") => {
            if word.is_none() && io::stdin().is_terminal() {
                return Err(Failure::usage("there are no calls: stdin is a terminal")
                    .hint("name a file, or write - to type the calls and end with Ctrl-D"));
            }
            (arguments::text(io::stdin(), "stdin")?, "stdin", Stdin::Taken)
        }
        Some(word) if word.trim_start().starts_with(['[', '{']) => {
            (word.to_owned(), "the calls", Stdin::Free)
        }
        Some(path) => {
            let path = path.strip_prefix('@').unwrap_or(path);
            let file = File::open(path).map_err(|error| {
                Failure::usage(format!("{path}: cannot be opened: {error}")).hint(HINT)
            })?;
            (arguments::text(file, path)?, path, Stdin::Free)
        }
    };
    let asked = parse(&text)
        .map_err(|why| Failure::usage(format!("{from}: {why}; nothing was run")).hint(HINT))?;
    Ok((asked, stdin))
}

/// All calls in a text of one or more JSON documents.
fn parse(text: &str) -> Result<Vec<ParsedCall>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut items = Vec::new();
    let mut documents = Deserializer::from_str(text).into_iter::<Value>();
    let mut start = 0;
    while let Some(document) = documents.next() {
        let document = document.map_err(|error| format!("not valid JSON: {error}"))?;
        let end = documents.byte_offset();
        arguments::unique_keys(&text[start..end]).map_err(|error| {
            // A further document has its lines counted from the one before.
            match text[..start].matches('\n').count() {
                0 => error.to_string(),
                before => format!("{error}, after the first {before}"),
            }
        })?;
        start = end;
        items.extend(list(document)?);
    }
    let mut calls = Vec::new();
    let mut ids: HashMap<String, usize> = HashMap::new();
    for (at, item) in items.into_iter().enumerate() {
        let position = at + 1;
        match ParsedCall::find(item).map_err(|why| format!("item {position}: {why}"))? {
            ListItem::NoCall => {}
            ListItem::Call(asked) => {
                if let Some(id) = &asked.id
                    && let Some(first) = ids.insert(id.clone(), position)
                {
                    return Err(format!("item {position}: its id `{id}` is also item {first}'s"));
                }
                calls.push(asked);
            }
        }
    }
    Ok(calls)
}

/// The items of a document: a list, or what contains or stands for one.
fn list(document: Value) -> Result<Vec<Value>, String> {
    let mut object = match document {
        Value::Array(items) => return Ok(items),
        Value::Object(object) => object,
        other => return Err(format!("expected a list of calls, found {}", kind_of(&other))),
    };
    // What an API answers with.
    if let Some(Value::Array(choices)) = object.get_mut("choices") {
        return match choices.iter_mut().find_map(|choice| choice.get_mut("message")) {
            Some(message) => list(message.take()),
            None => Err("`choices` has no message".to_owned()),
        };
    }
    if let Some(message @ Value::Object(_)) = object.get_mut("message") {
        return list(message.take());
    }
    for name in LISTS {
        if let Some(Value::Array(items)) = object.get_mut(name) {
            return Ok(std::mem::take(items));
        }
    }
    if is_message_without_calls(&object) {
        return Ok(Vec::new());
    }
    if ParsedCall::looks_like_a_call(&object) {
        return Ok(vec![Value::Object(object)]);
    }
    let mut lists = object.iter_mut().filter_map(|(_, value)| match value {
        Value::Array(items) => Some(items),
        _ => None,
    });
    match (lists.next(), lists.next()) {
        (Some(items), None) => Ok(std::mem::take(items)),
        (Some(_), Some(_)) => Err("the object has several lists; name one `calls`".to_owned()),
        (None, _) => Err("the object is no call and has no list of calls".to_owned()),
    }
}

/// A model that only talks asks for nothing.
fn is_message_without_calls(object: &Map<String, Value>) -> bool {
    object.contains_key("role") && matches!(object.get("content"), Some(Value::String(_)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(text: &str) -> Vec<(String, Value, Option<String>)> {
        let calls = parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        calls.into_iter().map(|call| (call.tool, call.arguments, call.id)).collect()
    }

    #[test]
    fn every_form_is_found() {
        let plain = r#"{"tool": "a", "arguments": {"n": 1}, "id": "x"}"#;
        let block = r#"{"type": "tool_use", "id": "x", "name": "a", "input": {"n": 1}}"#;
        for text in [
            plain.to_owned(),
            format!("[{plain}]"),
            format!("{{\"calls\": [{plain}]}}"),
            format!("{{\"title\": \"t\", \"todo\": [{plain}]}}"),
            format!("\u{feff}\n{plain}\n\n"),
            r#"{"name": "a", "params": {"n": 1}, "id": "x"}"#.to_owned(),
            format!("[{{\"type\": \"text\", \"text\": \"hm\"}}, {block}]"),
            format!(r#"{{"role": "assistant", "content": [{{"type": "text"}}, {block}]}}"#),
        ] {
            let expected = ("a".to_owned(), json!({"n": 1}), Some("x".to_owned()));
            assert_eq!(names(&text), [expected], "{text}");
        }
        let call = r#"{"id": "x", "type": "function",
            "function": {"name": "a", "arguments": "{\"n\": 1}"}}"#;
        for text in [
            format!("[{call}]"),
            format!(r#"{{"role": "assistant", "content": null, "tool_calls": [{call}]}}"#),
            format!(r#"{{"choices": [{{"message": {{"tool_calls": [{call}]}}}}]}}"#),
            r#"{"output": [{"type": "reasoning"}, {"type": "function_call", "id": "fc_1",
                "call_id": "x", "name": "a", "arguments": "{\"n\": 1}"}]}"#
                .to_owned(),
        ] {
            let expected = ("a".to_owned(), json!("{\"n\": 1}"), Some("x".to_owned()));
            assert_eq!(names(&text), [expected], "{text}");
        }
        let lines = format!("{plain}\n{}\n", block.replace("\"x\"", "\"y\""));
        assert_eq!(names(&lines).len(), 2);
    }

    #[test]
    fn nothing_asked_is_no_call() {
        for text in [
            "",
            "[]",
            "\n",
            "{\"calls\": []}",
            r#"{"role": "assistant", "content": "No tools needed."}"#,
            r#"[{"type": "text", "text": "Nor here."}]"#,
        ] {
            assert!(names(text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn mistakes_name_their_place() {
        for (text, part) in [
            ("[1", "not valid JSON: EOF"),
            ("{\"tool\": \"a\"}\n{oops}\n", "line 2"),
            ("5", "expected a list of calls, found a number"),
            ("{\"a\": 1}", "no list of calls"),
            ("{\"a\": [], \"b\": []}", "several lists"),
            ("[{\"tool\": \"a\"}, 7]", "item 2: expected a call, found a number"),
            ("[{\"tool\": \"a\", \"id\": \"x\"}, {\"tool\": \"a\", \"id\": \"x\"}]", "item 1's"),
            ("[{\"tool\": \"a\", \"tool\": \"b\"}]", "the key `tool` is given twice"),
        ] {
            let why = parse(text).map(|_| ()).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
