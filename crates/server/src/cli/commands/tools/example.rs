//! Makes an example command line from a tool's definition.
//!
//! It runs as it is if the definition has a default, an enum or an example for each
//! required parameter. Elsewhere it has a `…` to be replaced.

use serde_json::{Map, Value};
use windlass::{FilledBy, Tool};

use crate::cli::arguments;

/// What nobody but the caller knows.
const BLANK: &str = "…";

/// Schemas nest deeper than anybody wants to read.
const MAX_DEPTH: usize = 4;

/// A call of the tool, as a line for a shell.
pub(super) fn example(tool: &Tool) -> String {
    let schema = tool.model_schema();
    let mut line = format!("windlass call {}", quoted(tool.name().as_str()));
    for (name, own) in shown(schema) {
        let (key, value) = arguments::word(name, &sample(own, MAX_DEPTH), schema);
        line += &format!(" {}{}", quoted(&key), quoted(&value));
    }
    for (name, parameter) in tool.spec().parameters.iter().filter(|(_, known)| known.required) {
        line += &match parameter.filled_by {
            FilledBy::Model => continue,
            FilledBy::Form => {
                let own = &tool.spec().input["properties"][name.as_str()];
                // A variable is read without a look at what the tool wants.
                let (key, value) = arguments::word(name, &sample(own, MAX_DEPTH), &Value::Null);
                format!(" --var {}{}", quoted(&key), quoted(&value))
            }
            FilledBy::Secret => format!(" --secret {}", quoted(name)),
        };
    }
    line
}

/// The parameters that a call needs: the required ones. One that chooses what
/// the tool does needs something to do it to, which a schema cannot say; that
/// is mostly the next. Without any required, the first shows the form.
fn shown(schema: &Value) -> Vec<(&str, &Value)> {
    let Some(properties) = schema["properties"].as_object() else { return Vec::new() };
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name))
    };
    let mut shown: Vec<(&str, &Value)> = properties
        .iter()
        .map(|(name, own)| (name.as_str(), own))
        .filter(|(name, _)| required(name))
        .collect();
    let chooses = matches!(shown.as_slice(), [(_, only)] if only.get("enum").is_some());
    if shown.is_empty() || chooses {
        let other = properties.iter().find(|(name, _)| !required(name));
        shown.extend(other.map(|(name, own)| (name.as_str(), own)));
    }
    shown
}

/// A value that the schema allows, as far as it can be told.
fn sample(schema: &Value, depth: usize) -> Value {
    let known = [
        schema["examples"].get(0),
        schema.get("example"),
        // A default of null stands for leaving the parameter out.
        schema.get("default").filter(|value| !value.is_null()),
        schema.get("const"),
        schema["enum"].get(0),
    ];
    if let Some(value) = known.into_iter().flatten().next() {
        return value.clone();
    }
    let Some(depth) = depth.checked_sub(1) else { return BLANK.into() };
    if let Some(first) = ["anyOf", "oneOf"].iter().find_map(|key| schema[key].get(0)) {
        return sample(first, depth);
    }
    match schema["type"].as_str().or_else(|| schema["type"][0].as_str()) {
        Some("integer" | "number") => number(schema),
        Some("boolean") => true.into(),
        Some("array") => Value::Array(vec![sample(&schema["items"], depth)]),
        Some("object") => {
            let names = schema["required"].as_array().into_iter().flatten();
            let own = |name: &str| sample(&schema["properties"][name], depth);
            let fields = names.filter_map(Value::as_str).map(|name| (name.to_owned(), own(name)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        _ => BLANK.into(),
    }
}

/// The smallest that is allowed, else the largest, else one.
fn number(schema: &Value) -> Value {
    let bound = ["minimum", "maximum"].iter().find_map(|key| schema.get(key));
    bound.cloned().unwrap_or_else(|| 1.into())
}

/// The text as one word of a shell, or a part of one.
fn quoted(text: &str) -> String {
    let harmless = |c: char| c.is_alphanumeric() || "-_./:+,=…".contains(c);
    if !text.is_empty() && text.chars().all(harmless) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(schema: &Value) -> String {
        shown(schema)
            .into_iter()
            .map(|(name, own)| {
                let (key, value) = arguments::word(name, &sample(own, MAX_DEPTH), schema);
                format!("{}{}", quoted(&key), quoted(&value))
            })
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn values_come_from_the_definition() {
        for (own, expected) in [
            (json!({"type": "string"}), "p=…"),
            (json!({"type": "string", "default": "it's"}), r"p='it'\''s'"),
            (json!({"type": "string", "enum": ["c", "f"], "default": "f"}), "p=f"),
            (json!({"type": "string", "enum": ["$HOME"]}), "p='$HOME'"),
            (json!({"type": "string", "default": ""}), "p=''"),
            (json!({"enum": ["5"]}), r#"p:='"5"'"#),
            (json!({"type": "integer", "minimum": 3}), "p:=3"),
            (json!({"type": "integer", "maximum": -1}), "p:=-1"),
            (json!({"type": ["boolean", "null"], "default": null}), "p:=true"),
            (json!({"type": "array", "items": {"type": "number"}}), "p:='[1]'"),
            (json!({"anyOf": [{"const": "a b"}, {"type": "null"}]}), "p='a b'"),
            (
                json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
                r#"p:='{"a":"…"}'"#,
            ),
        ] {
            assert_eq!(line(&json!({"properties": {"p": own}})), expected, "{own}");
        }
    }

    #[test]
    fn a_choice_is_shown_with_what_it_is_about() {
        let (choice, text) = (json!({"enum": ["length"]}), json!({"type": "string"}));
        let properties = json!({"do": choice, "to": text, "how": text});
        for (required, expected) in [
            (json!([]), "do=length"),
            (json!(["do"]), "do=length to=…"),
            (json!(["to"]), "to=…"),
            (json!(["do", "how"]), "do=length how=…"),
        ] {
            let schema = json!({"properties": properties, "required": required});
            assert_eq!(line(&schema), expected);
        }
    }
}
