//! [`ParsedCall`]: one call of the input, in any of the supported formats.

use std::time::Duration;

use serde_json::{Map, Value, json};
use windlass::{Turn, TurnFormat, duration};

use crate::cli::arguments::kind_of;
use crate::cli::output::nearest;

/// A call that was asked for. Only its form has been looked at: whether the
/// tool exists and the arguments fit is the engine's to say, with a result.
#[derive(Debug)]
pub(super) struct ParsedCall {
    pub(super) tool: String,
    /// An object, or what a model wrote as one.
    pub(super) arguments: Value,
    pub(super) id: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) idempotency_key: Option<String>,
    pub(super) priority: i32,
}

/// What an item of a list is.
#[derive(Debug)]
pub(super) enum ListItem {
    Call(ParsedCall),
    /// What a model says beside its calls.
    NoCall,
}

const TOOL: [&str; 2] = ["tool", "name"];
const ARGUMENTS: [&str; 3] = ["arguments", "input", "params"];
const OPTIONS: [&str; 4] = ["id", "timeout", "idempotency_key", "priority"];
/// Blocks that are not for us: words, thoughts, and tools that the model's
/// provider has run itself.
const SKIPPED: [&str; 9] = [
    "text",
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "web_search_tool_result",
    "reasoning",
    "message",
    "output_text",
    "refusal",
];

impl ParsedCall {
    /// The call that an item of a list is, or why it is none.
    pub(super) fn find(item: Value) -> Result<ListItem, String> {
        let mut object = match item {
            Value::Object(object) => object,
            other => return Err(format!("expected a call, found {}", kind_of(&other))),
        };
        let found = match object.get("type").and_then(Value::as_str) {
            Some(kind) if SKIPPED.contains(&kind) => return Ok(ListItem::NoCall),
            Some("tool_use") => Self::of_a_model(TurnFormat::Anthropic, json!([object]))?,
            Some("function_call") => Self::of_a_model(TurnFormat::Responses, json!([object]))?,
            Some("function") | None if object.contains_key("function") => {
                if !object["function"].is_object() {
                    return Err("`function` is an object with a name and arguments".to_owned());
                }
                Self::of_a_model(TurnFormat::OpenAi, json!({"tool_calls": [object]}))?
            }
            None => Self::of_a_person(object)?,
            Some("tool_call") => {
                object.remove("type");
                Self::of_a_person(object)?
            }
            Some(kind) => return Err(format!("the type `{kind}` is not that of a call")),
        };
        Ok(ListItem::Call(found))
    }

    /// Whether an object is meant as a call.
    pub(super) fn looks_like_a_call(object: &Map<String, Value>) -> bool {
        object.contains_key("function") || TOOL.iter().any(|name| object.contains_key(*name))
    }

    /// The one call of a model's message. It may have keys that we do not know.
    fn of_a_model(format: TurnFormat, message: Value) -> Result<Self, String> {
        let turn = Turn::read_as(format, message).map_err(|error| error.to_string())?;
        let [call] = turn.calls() else { return Err("it is no call".to_owned()) };
        let name = Some(&*call.name).filter(|name| !name.is_empty());
        // An id that the model did not write is of no use to it.
        let id = call.id.as_deref().filter(|_| !turn.is_mended());
        Ok(Self {
            tool: tool(name.map(Value::from))?,
            arguments: arguments(Some(call.arguments.clone()))?,
            id: id.map(str::to_owned),
            timeout: None,
            idempotency_key: None,
            priority: 0,
        })
    }

    /// A call that a person or a program wrote for us: every key counts.
    fn of_a_person(mut object: Map<String, Value>) -> Result<Self, String> {
        let asked = Self {
            tool: tool(one_of(&mut object, &TOOL)?)?,
            arguments: arguments(one_of(&mut object, &ARGUMENTS)?)?,
            id: identity(object.remove("id"))?,
            timeout: timeout(object.remove("timeout"))?,
            idempotency_key: text("idempotency_key", object.remove("idempotency_key"))?,
            priority: priority(object.remove("priority"))?,
        };
        match object.keys().next() {
            Some(unknown) => Err(unknown_key(unknown)),
            None => Ok(asked),
        }
    }
}

/// Takes the value of the one key that is there.
fn one_of(object: &mut Map<String, Value>, names: &[&str]) -> Result<Option<Value>, String> {
    let mut given = names.iter().filter(|name| object.contains_key(**name)).copied();
    match (given.next(), given.next()) {
        (Some(one), Some(other)) => Err(format!("`{one}` and `{other}` mean the same; keep one")),
        (one, _) => Ok(one.and_then(|name| object.remove(name))),
    }
}

fn tool(name: Option<Value>) -> Result<String, String> {
    match name {
        Some(Value::String(name)) if !name.is_empty() => Ok(name),
        Some(Value::String(_)) => Err("the tool's name is empty".to_owned()),
        Some(other) => Err(format!("the tool's name is a text, found {}", kind_of(&other))),
        None => Err("it does not say which `tool` to call".to_owned()),
    }
}

fn arguments(given: Option<Value>) -> Result<Value, String> {
    match given {
        None | Some(Value::Null) => Ok(Value::Object(Map::new())),
        // A text is what a model wrote; the engine reads it, and answers the
        // model where it cannot.
        Some(value @ (Value::Object(_) | Value::String(_))) => Ok(value),
        Some(other) => Err(format!("the arguments are an object, found {}", kind_of(&other))),
    }
}

/// An empty id is none: some servers send it.
fn identity(value: Option<Value>) -> Result<Option<String>, String> {
    match value {
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(Value::String(id)) if id.is_empty() => Ok(None),
        other => text("id", other),
    }
}

fn text(name: &str, value: Option<Value>) -> Result<Option<String>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        Some(Value::String(_)) => Err(format!("`{name}` is empty")),
        Some(other) => Err(format!("`{name}` is a text, found {}", kind_of(&other))),
    }
}

fn timeout(value: Option<Value>) -> Result<Option<Duration>, String> {
    let text = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(seconds)) => seconds.to_string(),
        Some(Value::String(text)) => text,
        Some(other) => {
            return Err(format!("`timeout` is a time such as \"5s\", found {}", kind_of(&other)));
        }
    };
    duration::parse(&text).map(Some).map_err(|why| format!("`timeout`: {why}"))
}

fn priority(value: Option<Value>) -> Result<i32, String> {
    match value {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value
            .as_i64()
            .and_then(|number| number.try_into().ok())
            .ok_or_else(|| format!("`priority` is a whole number, found `{value}`")),
    }
}

fn unknown_key(key: &str) -> String {
    let known = || TOOL.iter().chain(&ARGUMENTS).chain(&OPTIONS);
    match nearest(key, known().copied()) {
        Some(near) => format!("unknown key `{key}`; did you mean `{near}`?"),
        None => {
            let known: Vec<&str> = known().copied().collect();
            format!("unknown key `{key}`; the keys are {}", known.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_read() {
        let item = json!({"tool": "a", "id": 7, "timeout": 1.5, "priority": -2,
            "idempotency_key": "k", "input": "{}"});
        let ListItem::Call(asked) = ParsedCall::find(item).unwrap() else { panic!("no call") };
        assert_eq!(asked.timeout, Some(Duration::from_millis(1500)));
        assert_eq!((asked.id.as_deref(), asked.priority), (Some("7"), -2));
        assert_eq!(asked.idempotency_key.as_deref(), Some("k"));
        assert_eq!(asked.arguments, json!("{}"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (item, part) in [
            (json!({"arguments": {}}), "which `tool`"),
            (json!({"tool": 5}), "a text, found a number"),
            (json!({"tool": ""}), "empty"),
            (json!({"tool": "a", "name": "b"}), "`tool` and `name` mean the same"),
            (json!({"tool": "a", "argumnets": {}}), "did you mean `arguments`?"),
            (json!({"tool": "a", "zzz": {}}), "the keys are tool"),
            (json!({"tool": "a", "arguments": [1]}), "an object, found an array"),
            (json!({"tool": "a", "timeout": "soon"}), "`timeout`: "),
            (json!({"tool": "a", "priority": "high"}), "`priority` is a whole number"),
            (json!({"type": "tool_result", "tool_use_id": "x"}), "`tool_result`"),
            (json!({"function": "a"}), "`function` is an object"),
            (json!({"type": "tool_use", "id": "x"}), "which `tool`"),
            (json!({"type": "tool_call", "name": "a", "args": {}}), "unknown key `args`"),
        ] {
            let why = ParsedCall::find(item.clone()).map(|_| ()).unwrap_err();
            assert!(why.contains(part), "{item}: {why}");
        }
    }

    #[test]
    fn what_an_api_adds_is_no_mistake() {
        let item = json!({"type": "tool_use", "id": "", "name": "a", "cache_control": {}});
        let ListItem::Call(asked) = ParsedCall::find(item).unwrap() else { panic!("no call") };
        assert_eq!((asked.id, asked.arguments), (None, json!({})));
    }
}
