//! OpenAI's Chat Completions API, and servers that are compatible with it.

use serde_json::{Value, json};
use url::Url;
use windlass::{Error, Secret, TurnFormat};

use super::Model;
use super::api::{ModelApi, texts_of};
use super::body::{Prompt, has_tools, post};
use super::tally::{Finish, Tally, set};
use crate::outbound::Request;

pub(super) struct OpenAi;

impl ModelApi for OpenAi {
    fn provider(&self) -> &'static str {
        "openai"
    }

    fn label(&self) -> &'static str {
        "OpenAI"
    }

    fn models(&self) -> &'static str {
        "GPT"
    }

    fn keys_url(&self) -> &'static str {
        "https://platform.openai.com/api-keys"
    }

    fn base_url(&self) -> &'static str {
        "https://api.openai.com/v1"
    }

    fn turn_format(&self) -> TurnFormat {
        TurnFormat::OpenAi
    }

    fn says_nothing(&self, message: &Value) -> bool {
        let has = |key: &str| message[key].as_array().is_some_and(|items| !items.is_empty());
        message["content"].as_str().is_none_or(str::is_empty)
            && !has("content")
            && !has("tool_calls")
            && !message["function_call"].is_object()
            && !message["refusal"].is_string()
    }

    fn fill(&self, message: &mut Value, text: &str) {
        message["role"] = "assistant".into();
        message["content"] = text.into();
    }

    fn request(
        &self,
        model: &Model,
        prompt: &Prompt<'_>,
        key: Option<&Secret>,
    ) -> Result<Request, Error> {
        let url = &model.endpoint.base_url;
        let request = post(url, "chat/completions")?.json(&body(model, prompt));
        match key {
            Some(key) => request.bearer(key),
            None => Ok(request),
        }
    }

    fn embedding_request(
        &self,
        base_url: &Url,
        model: &str,
        texts: &[String],
        key: Option<&Secret>,
    ) -> Option<Result<Request, Error>> {
        let body = json!({"model": model, "input": texts, "encoding_format": "float"});
        let request = post(base_url, "embeddings").map(|request| request.json(&body));
        Some(match key {
            Some(key) => request.and_then(|request| request.bearer(key)),
            None => request,
        })
    }

    fn hear<'e>(&self, tally: &mut Tally, event: &'e Value) -> Vec<&'e str> {
        let usage = &event["usage"];
        if usage.is_object() {
            set(&mut tally.usage.input_tokens, &usage["prompt_tokens"]);
            set(&mut tally.usage.output_tokens, &usage["completion_tokens"]);
            let cached = &usage["prompt_tokens_details"]["cached_tokens"];
            set(&mut tally.usage.cache_read_tokens, cached);
            // Cached tokens are included in the input tokens.
            let cached = tally.usage.cache_read_tokens;
            tally.usage.input_tokens = tally.usage.input_tokens.saturating_sub(cached);
        }
        let choice = &event["choices"][0];
        let refused = |said: &Value| said["refusal"].as_str().is_some_and(|why| !why.is_empty());
        match choice["finish_reason"].as_str() {
            Some("length") => tally.finish = Finish::Length,
            Some(reason @ "content_filter") => tally.finish = Finish::Refused(reason.to_owned()),
            _ if refused(&choice["delta"]) || refused(&choice["message"]) => {
                tally.finish = Finish::Refused("refusal".to_owned());
            }
            _ => {}
        }
        let delta = &choice["delta"];
        // Some servers stream content blocks instead of text.
        if let Some(blocks) = delta["content"].as_array() {
            return blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        }
        let said = delta["content"].as_str().filter(|text| !text.is_empty());
        said.or_else(|| delta["refusal"].as_str()).into_iter().collect()
    }

    fn text_of(&self, message: &Value) -> String {
        match &message["content"] {
            Value::String(text) => text.clone(),
            // A message without content may give its reason in `refusal`.
            Value::Null => message["refusal"].as_str().unwrap_or_default().to_owned(),
            blocks => texts_of(blocks),
        }
    }
}

fn body(model: &Model, prompt: &Prompt<'_>) -> Value {
    let system = Some(prompt.system).filter(|system| !system.is_empty());
    let system = system.map(|system| json!({"role": "system", "content": system}));
    let messages: Vec<Value> = system.into_iter().chain(prompt.messages.iter().cloned()).collect();
    let mut body = json!({"model": model.name, "messages": messages, "stream": prompt.stream});
    // OpenAI itself has renamed this parameter; compatible servers have not.
    let limit = match model.endpoint.base_url.host_str() {
        Some("api.openai.com") => "max_completion_tokens",
        _ => "max_tokens",
    };
    body[limit] = prompt.max_tokens.into();
    if prompt.stream {
        body["stream_options"] = json!({"include_usage": true});
    }
    if has_tools(prompt) {
        body["tools"] = prompt.tools.clone();
    }
    if let Some(temperature) = prompt.temperature {
        body["temperature"] = temperature.into();
    }
    body
}
