//! Google's Gemini API.

use serde_json::{Value, json};
use url::Url;
use windlass::{Error, Secret, TurnFormat};

use super::Model;
use super::api::{ModelApi, texts_are_empty, texts_of};
use super::body::{Prompt, has_tools, post};
use super::tally::{Finish, Tally, set};
use crate::outbound::Request;

pub(super) struct Gemini;

impl ModelApi for Gemini {
    fn provider(&self) -> &'static str {
        "gemini"
    }

    fn label(&self) -> &'static str {
        "Google Gemini"
    }

    fn models(&self) -> &'static str {
        "Gemini"
    }

    fn keys_url(&self) -> &'static str {
        "https://aistudio.google.com/apikey"
    }

    fn base_url(&self) -> &'static str {
        "https://generativelanguage.googleapis.com"
    }

    fn turn_format(&self) -> TurnFormat {
        TurnFormat::Gemini
    }

    fn user(&self, text: &str) -> Value {
        json!({"role": "user", "parts": [{"text": text}]})
    }

    fn assistant(&self, text: &str) -> Value {
        json!({"role": "model", "parts": [{"text": text}]})
    }

    fn says_nothing(&self, message: &Value) -> bool {
        texts_are_empty(&message["parts"])
    }

    fn request(
        &self,
        model: &Model,
        prompt: &Prompt<'_>,
        key: Option<&Secret>,
    ) -> Result<Request, Error> {
        let method = match prompt.stream {
            true => "streamGenerateContent",
            false => "generateContent",
        };
        let path = format!("v1beta/models/{}:{method}", model.name);
        let mut request = post(&model.endpoint.base_url, &path)?;
        if prompt.stream {
            request.url_mut().set_query(Some("alt=sse"));
        }
        authenticated(request.json(&body(prompt)), key)
    }

    fn embedding_request(
        &self,
        base_url: &Url,
        model: &str,
        texts: &[String],
        key: Option<&Secret>,
    ) -> Option<Result<Request, Error>> {
        let part = |text: &String| {
            let content = json!({"parts": [{"text": text}]});
            json!({"model": format!("models/{model}"), "content": content})
        };
        let requests: Vec<Value> = texts.iter().map(part).collect();
        let request = post(base_url, &format!("v1beta/models/{model}:batchEmbedContents"));
        Some(
            request.and_then(|request| {
                authenticated(request.json(&json!({"requests": requests})), key)
            }),
        )
    }

    fn hear<'e>(&self, tally: &mut Tally, event: &'e Value) -> Vec<&'e str> {
        let usage = &event["usageMetadata"];
        if usage.is_object() {
            set(&mut tally.usage.input_tokens, &usage["promptTokenCount"]);
            set(&mut tally.usage.cache_read_tokens, &usage["cachedContentTokenCount"]);
            let cached = tally.usage.cache_read_tokens;
            tally.usage.input_tokens = tally.usage.input_tokens.saturating_sub(cached);
            let thought = usage["thoughtsTokenCount"].as_u64().unwrap_or_default();
            let written = usage["candidatesTokenCount"].as_u64().unwrap_or_default();
            tally.usage.output_tokens = written + thought;
        }
        let candidate = &event["candidates"][0];
        match candidate["finishReason"].as_str() {
            None | Some("STOP" | "FINISH_REASON_UNSPECIFIED") => {}
            Some("MAX_TOKENS") => tally.finish = Finish::Length,
            Some(reason @ ("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "OTHER")) => {
                tally.finish = Finish::Unreadable(reason.to_owned());
            }
            // All other reasons are content filters.
            Some(reason) => tally.finish = Finish::Refused(reason.to_owned()),
        }
        // The prompt was blocked, so there is no answer at all.
        if let Some(reason) = event["promptFeedback"]["blockReason"].as_str() {
            tally.finish = Finish::Refused(reason.to_owned());
        }
        let parts = candidate["content"]["parts"].as_array().into_iter().flatten();
        let said = parts.filter(|part| part["thought"] != true);
        said.filter_map(|part| part["text"].as_str()).collect()
    }

    fn text_of(&self, message: &Value) -> String {
        texts_of(&message["parts"])
    }
}

fn authenticated(request: Request, key: Option<&Secret>) -> Result<Request, Error> {
    match key {
        Some(key) => request.secret_header("x-goog-api-key", key),
        None => Ok(request),
    }
}

fn body(prompt: &Prompt<'_>) -> Value {
    let mut body = json!({
        "contents": prompt.messages,
        "generationConfig": {"maxOutputTokens": prompt.max_tokens},
    });
    if let Some(temperature) = prompt.temperature {
        body["generationConfig"]["temperature"] = temperature.into();
    }
    if !prompt.system.is_empty() {
        body["systemInstruction"] = json!({"parts": [{"text": prompt.system}]});
    }
    if has_tools(prompt) {
        body["tools"] = json!([{"functionDeclarations": prompt.tools}]);
    }
    body
}
