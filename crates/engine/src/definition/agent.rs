//! Keys of agent definitions (`kind: agent`).
//!
//! ```yaml
//! name: invoke_policy_expert
//! kind: agent
//! description: Answers questions about immigration policy.
//! model: claude-sonnet-4-20250514
//! system: You are an expert in immigration policy.
//! tools: [search_knowledge]
//! max_turns: 3
//! budget: {tokens: 50000, cost: 0.5, time: 2m, calls: 20}
//! ```
//!
//! Types are checked here, where the line is known; the agent executor checks
//! the rest.

use std::time::Duration;

use serde_json::{Value, json};

use super::node::{Node, NodeValue};
use super::reader::{self, FaultReport, MapFields};
use crate::tool::ToolSpec;
use crate::turn::TurnFormat;

/// Default timeout of an agent: longer than that of a tool, because it waits
/// for a model several times.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Reads an agent's own keys into the settings of its entry.
pub(super) fn read(fields: &mut MapFields<'_>, spec: &mut ToolSpec, report: &mut FaultReport<'_>) {
    let model = fields.get("model");
    if model.is_none() && !spec.entry.config.contains_key("model") {
        let hint = "write `model: claude-sonnet-4-20250514`, or provider/model";
        report.hinted(fields.at, "an agent needs a `model`", hint);
    }
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            spec.entry.config.insert(key.to_owned(), value);
        }
    };
    for key in ["model", "fallback", "input_template"] {
        let text = fields.get(key).and_then(|node| reader::text(node, key, report));
        set(key, text.map(Value::from));
    }
    let system = fields.get("system").or_else(|| fields.get("system_prompt"));
    set("system", system.and_then(|node| Some(json!(reader::i18n(node, "system", report)?))));
    for key in ["tools", "groups"] {
        let list = fields.get(key).and_then(|node| reader::texts(node, key, report));
        set(key, list.map(Value::from));
    }
    for key in ["max_tokens", "max_turns", "max_calls_per_turn", "max_repeats"] {
        let count = fields.get(key).and_then(|node| reader::count(node, key, report));
        set(key, count.map(Value::from));
    }
    let temperature = fields.get("temperature").and_then(|node| number(node, report));
    set("temperature", temperature);
    let stream = fields.get("stream").and_then(|node| reader::flag(node, "stream", report));
    set("stream", stream.map(Value::from));
    for key in ["budget", "extract"] {
        set(key, fields.get(key).and_then(|node| mapping(node, key, report)));
    }
}

fn number(node: &Node, report: &mut FaultReport<'_>) -> Option<Value> {
    match &node.data {
        NodeValue::Number(number, _) => Some(Value::Number(number.clone())),
        _ => {
            let found = node.kind_name();
            report.add(node.at, format!("`temperature` is a number, found {found}"));
            None
        }
    }
}

fn mapping(node: &Node, key: &str, report: &mut FaultReport<'_>) -> Option<Value> {
    match &node.data {
        NodeValue::Map(_) => Some(node.to_json()),
        _ => {
            report.add(node.at, format!("`{key}` is a mapping, found {}", node.kind_name()));
            None
        }
    }
}

/// Fills in defaults: an agent without parameters takes a message, and its
/// credentials are those of the model's provider.
pub(super) fn complete(spec: &mut ToolSpec) {
    spec.timeout.get_or_insert(TIMEOUT);
    spec.behaviour.concurrency_safe.get_or_insert(true);
    if spec.input["properties"].as_object().is_none_or(|properties| properties.is_empty()) {
        spec.input = json!({
            "type": "object",
            "properties": {"message": {
                "type": "string", "description": "What the agent is to do or to answer.",
            }},
            "required": ["message"],
        });
    }
    if spec.provider.is_none() {
        let model = spec.entry.config.get("model").and_then(Value::as_str).unwrap_or_default();
        spec.provider = match model.split_once('/') {
            Some((provider, _)) => Some(provider.to_owned()),
            // Providers have the names of their formats.
            None => TurnFormat::of_model(model).map(|format| format.name().to_owned()),
        };
    }
}
