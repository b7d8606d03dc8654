//! Steps that call: `call` and `prompt`.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass::{BoxFuture, Tool, Tools};

use super::Prompt;
use super::formula::Formula;
use super::reader::{Fields, Names, Reading, StepRead};
use crate::run::At;
use crate::step::{Done, Halt, Step};

/// `call`: a tool, an agent or another workflow.
struct Call {
    tool: Arc<str>,
    with: Option<Formula>,
}

pub(super) fn call(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
) -> Option<StepRead> {
    let key = fields.key_of("call");
    let tool = fields.get("call").and_then(|tool| reading.text(tool, &key))?;
    let with = match fields.get("with") {
        None => None,
        Some(with) => {
            let key = fields.key_of("with");
            if !with.is_object() && !with.as_str().is_some_and(|text| text.starts_with("${")) {
                let hint = "write `with: {query: \"${input.query}\"}`";
                reading.flaw(&key, "`with` is a mapping of arguments", hint);
                return None;
            }
            Some(reading.formula(with, &key, names)?)
        }
    };
    if tool.is_empty() || tool.contains("${") {
        let hint = "write the name of a tool, and use `switch` to choose between several";
        reading.flaw(&key, "the tool of a step is fixed", hint);
        return None;
    }
    Some(StepRead::new(Call { tool: tool.into(), with }))
}

impl Step for Call {
    fn kind(&self) -> &'static str {
        "call"
    }

    fn tool(&self) -> Option<&str> {
        Some(&self.tool)
    }

    fn may_change(&self, tools: &Tools) -> bool {
        tools.find(&self.tool).is_none_or(|tool| !tool.spec().behaviour.read_only)
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        Box::pin(async move {
            let arguments = match &self.with {
                Some(with) => with.at(at)?,
                None => json!({}),
            };
            let value = at.call(&self.tool, arguments).await?;
            Ok(Done { value, handle: None })
        })
    }
}

/// `prompt`: one question to a model.
struct Ask {
    tool: Arc<Tool>,
    text: Formula,
    has_schema: bool,
}

pub(super) fn prompt(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    id: &str,
    names: &Names,
) -> Option<StepRead> {
    let mut prompt = Prompt { name: format!("prompt_{id}"), ..Prompt::default() };
    let key = fields.key_of("prompt");
    let text = fields.get("prompt").and_then(|text| reading.formula(text, &key, names));
    for (name, to) in [("model", &mut prompt.model), ("system", &mut prompt.system)] {
        if let Some(value) = fields.get(name) {
            *to = reading.text(value, &fields.key_of(name)).map(str::to_owned);
        }
    }
    prompt.schema = fields.get("schema").cloned();
    prompt.temperature = fields.get("temperature").and_then(Value::as_f64);
    prompt.max_tokens = fields.get("max_tokens").and_then(Value::as_u64);
    let Some(make) = reading.prompts else {
        reading.flaw(&key, "there are no models here", "run it on a server with models");
        return None;
    };
    match make(&prompt) {
        Ok(tool) => {
            let has_schema = prompt.schema.is_some();
            Some(StepRead::new(Ask { tool, text: text?, has_schema }))
        }
        Err(error) => {
            let key = if prompt.model.is_some() { fields.key_of("model") } else { key };
            reading.flaw(&key, error.message(), "");
            None
        }
    }
}

impl Step for Ask {
    fn kind(&self) -> &'static str {
        "prompt"
    }

    fn may_change(&self, _: &Tools) -> bool {
        false
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        Box::pin(async move {
            let message = match self.text.at(at)? {
                Value::String(text) => text,
                other => other.to_string(),
            };
            let value = at.call_own(&self.tool, json!({"message": message})).await?;
            if !self.has_schema {
                return Ok(Done { value, handle: None });
            }
            let text = value["text"].as_str();
            let answer = text.and_then(|text| serde_json::from_str(text).ok());
            Ok(answer.map_or_else(
                || Done { value: Arc::clone(&value), handle: None },
                |answer: Value| Done::new(answer),
            ))
        })
    }
}
