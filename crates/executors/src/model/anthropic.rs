//! Anthropic's Messages API.

use serde_json::{Value, json};
use windlass::{Error, Secret, TurnFormat};

use super::Model;
use super::api::{ModelApi, texts_are_empty, texts_of};
use super::body::{Prompt, has_tools, post};
use super::tally::{Finish, Tally, set};
use crate::outbound::Request;

/// The version of the API.
const VERSION: &str = "2023-06-01";

pub(super) struct Anthropic;

impl ModelApi for Anthropic {
    fn provider(&self) -> &'static str {
        "anthropic"
    }

    fn label(&self) -> &'static str {
        "Anthropic"
    }

    fn models(&self) -> &'static str {
        "Claude"
    }

    fn keys_url(&self) -> &'static str {
        "https://console.anthropic.com/settings/keys"
    }

    fn base_url(&self) -> &'static str {
        "https://api.anthropic.com"
    }

    fn fallback(&self) -> Option<&'static str> {
        Some("claude-haiku-4-20250514")
    }

    fn turn_format(&self) -> TurnFormat {
        TurnFormat::Anthropic
    }

    fn says_nothing(&self, message: &Value) -> bool {
        !message["content"].is_string() && texts_are_empty(&message["content"])
    }

    fn request(
        &self,
        model: &Model,
        prompt: &Prompt<'_>,
        key: Option<&Secret>,
    ) -> Result<Request, Error> {
        let request = post(&model.endpoint.base_url, "v1/messages")?
            .header("anthropic-version", VERSION)?
            .json(&body(model, prompt));
        match key {
            Some(key) => request.secret_header("x-api-key", key),
            None => Ok(request),
        }
    }

    fn hear<'e>(&self, tally: &mut Tally, event: &'e Value) -> Vec<&'e str> {
        let told = [&event["message"]["usage"], &event["usage"]];
        for usage in told.into_iter().filter(|usage| usage.is_object()) {
            set(&mut tally.usage.input_tokens, &usage["input_tokens"]);
            set(&mut tally.usage.output_tokens, &usage["output_tokens"]);
            set(&mut tally.usage.cache_read_tokens, &usage["cache_read_input_tokens"]);
            set(&mut tally.usage.cache_write_tokens, &usage["cache_creation_input_tokens"]);
        }
        let reason = event["delta"]["stop_reason"].as_str().or(event["stop_reason"].as_str());
        match reason {
            Some("max_tokens" | "model_context_window_exceeded") => tally.finish = Finish::Length,
            Some(reason @ "refusal") => tally.finish = Finish::Refused(reason.to_owned()),
            _ => {}
        }
        match event["type"].as_str() {
            Some("content_block_delta") => event["delta"]["text"].as_str().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn text_of(&self, message: &Value) -> String {
        texts_of(&message["content"])
    }
}

fn body(model: &Model, prompt: &Prompt<'_>) -> Value {
    // Prompt caching: marks the tools, the system prompt and the conversation so far,
    // which stay the same from turn to turn.
    let mark = json!({"type": "ephemeral"});
    let mut messages = prompt.messages.to_vec();
    for blocks in messages.iter_mut().filter_map(|message| message["content"].as_array_mut()) {
        // The API produces empty text blocks, but rejects them as input.
        blocks.retain(|block| block["text"] != "");
    }
    if let Some(last) = messages.last_mut() {
        if let Some(text) = last["content"].as_str() {
            last["content"] = json!([{"type": "text", "text": text}]);
        }
        if let Some(block) = last["content"].as_array_mut().and_then(|blocks| blocks.last_mut()) {
            block["cache_control"] = mark.clone();
        }
    }
    let mut body = json!({
        "model": model.name, "max_tokens": prompt.max_tokens, "messages": messages,
        "stream": prompt.stream,
    });
    if !prompt.system.is_empty() {
        body["system"] = json!([{"type": "text", "text": prompt.system, "cache_control": mark}]);
    }
    if has_tools(prompt) {
        let mut tools = prompt.tools.clone();
        if let Some(last) = tools.as_array_mut().and_then(|tools| tools.last_mut()) {
            last["cache_control"] = mark;
        }
        body["tools"] = tools;
    }
    if let Some(temperature) = prompt.temperature {
        body["temperature"] = temperature.into();
    }
    body
}
