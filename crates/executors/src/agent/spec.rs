//! [`AgentSpec`]: an agent's configuration, as plain data.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass::{Text, ToolSpec};

/// The configuration of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    /// The model: `claude-sonnet-4-20250514`, or `provider/model`.
    pub model: String,
    /// The fallback model for when the first one is overloaded; empty for none.
    #[serde(default)]
    pub fallback: Option<String>,
    /// The system prompt.
    #[serde(default)]
    pub system: Text,
    /// The tools that it may call; `*` stands for all that its caller can see.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Groups of tools that it may call.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Maximum number of output tokens in a turn.
    #[serde(default = "max_tokens")]
    pub max_tokens: u64,
    /// Maximum number of turns.
    #[serde(default = "max_turns")]
    pub max_turns: u32,
    /// Maximum number of tool calls in a turn.
    #[serde(default = "max_calls_per_turn")]
    pub max_calls_per_turn: usize,
    /// Loop detection: how often the same call may give the same result before a warning;
    /// 0 turns it off.
    #[serde(default = "max_repeats")]
    pub max_repeats: u32,
    /// The sampling temperature.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Template of the first message, with `{{name}}` for an argument and `{{input}}` for
    /// all of them. By default the arguments as JSON.
    #[serde(default)]
    pub input_template: Option<String>,
    /// Metadata to extract from the answer: JSON pointers, or regular expressions with a
    /// group.
    #[serde(default)]
    pub extract: BTreeMap<String, String>,
    /// Budget of a run.
    #[serde(default)]
    pub budget: Budget,
    /// Whether tool calls start while the model is still streaming.
    #[serde(default = "yes")]
    pub stream: bool,
}

/// Budget of a run; when it is spent, the run ends with what it has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Tokens, including those of agents that it calls.
    pub tokens: Option<u64>,
    /// US dollars.
    pub cost: Option<f64>,
    /// Duration.
    #[serde(with = "windlass::duration::option")]
    pub time: Option<Duration>,
    /// Tool calls.
    pub calls: Option<u64>,
}

impl AgentSpec {
    /// An agent with this model, and defaults for everything else.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            fallback: None,
            system: Text::default(),
            tools: Vec::new(),
            groups: Vec::new(),
            max_tokens: max_tokens(),
            max_turns: max_turns(),
            max_calls_per_turn: max_calls_per_turn(),
            max_repeats: max_repeats(),
            temperature: None,
            input_template: None,
            extract: BTreeMap::new(),
            budget: Budget::default(),
            stream: true,
        }
    }

    /// Parses the entry of a definition.
    pub(super) fn read(entry: &windlass::Entry) -> Result<Self, String> {
        serde_json::from_value(Value::Object(entry.config.clone())).map_err(|why| why.to_string())
    }

    /// Checks the values.
    pub(super) fn check(&self) -> Result<(), String> {
        match () {
            () if self.max_turns == 0 => Err("`max_turns` is at least 1".to_owned()),
            () if self.max_tokens == 0 => Err("`max_tokens` is at least 1".to_owned()),
            () if self.temperature.is_some_and(|heat| !(0.0..=2.0).contains(&heat)) => {
                Err("`temperature` is from 0 to 2".to_owned())
            }
            () => Ok(()),
        }
    }

    /// Whether it may call a tool: by name, by a pattern that ends in `*`, or by group.
    pub(super) fn allows(&self, tool: &ToolSpec) -> bool {
        let (name, wire, hashed) = (tool.name.as_str(), tool.name.wire(), tool.name.hashed());
        let named = |own: &String| match own.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => *own == name || **own == *wire || **own == *hashed,
        };
        let grouped = |own: &String| tool.group.as_ref() == Some(own);
        self.tools.iter().any(named) || self.groups.iter().any(grouped)
    }

    /// The first message of a run.
    pub(super) fn first_message(&self, input: &Value) -> String {
        let pretty = || serde_json::to_string_pretty(input).unwrap_or_default();
        let Some(template) = &self.input_template else {
            // A single `message` argument is sent without JSON around it.
            return match (input.as_object().map(|input| input.len()), input["message"].as_str()) {
                (Some(1), Some(message)) => message.to_owned(),
                _ => pretty(),
            };
        };
        let mut message = String::new();
        let mut rest = template.as_str();
        // Arguments are inserted literally; `{{…}}` in them is not expanded.
        while let Some((before, after)) = rest.split_once("{{") {
            message.push_str(before);
            let Some((name, after)) = after.split_once("}}") else {
                message.push_str("{{");
                rest = after;
                continue;
            };
            match (name.trim(), &input[name.trim()]) {
                ("input", Value::Null) => message.push_str(&pretty()),
                (_, Value::Null) => {}
                (_, Value::String(text)) => message.push_str(text),
                (_, value) => message.push_str(&value.to_string()),
            }
            rest = after;
        }
        message + rest
    }
}

fn max_tokens() -> u64 {
    4096
}

fn max_turns() -> u32 {
    3
}

fn max_calls_per_turn() -> usize {
    5
}

fn max_repeats() -> u32 {
    3
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_message_is_the_input_or_made_from_it() {
        let mut spec = AgentSpec::new("m");
        assert_eq!(spec.first_message(&json!({"message": "hi"})), "hi");
        assert_eq!(spec.first_message(&json!({"query": "q"})), "{\n  \"query\": \"q\"\n}");
        spec.input_template = Some("{{ a }}, {{b}}{{none}} {{input}} {{".to_owned());
        let said = spec.first_message(&json!({"a": "{{b}}", "b": [1]}));
        assert_eq!(said, "{{b}}, [1] {\n  \"a\": \"{{b}}\",\n  \"b\": [\n    1\n  ]\n} {{");
    }
}
