//! Request bodies for model APIs.

use http::Method;
use serde_json::{Value, json};
use url::Url;
use windlass::{Error, ErrorKind, Secret};

use super::{Api, Model};
use crate::outbound::Request;

/// The version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A prompt: what is sent to a model.
#[derive(Clone, Debug)]
pub struct Prompt<'p> {
    /// The system prompt; empty for none.
    pub system: &'p str,
    /// The conversation, in the format of the API.
    pub messages: &'p [Value],
    /// Tool declarations: an array in the format of the API.
    pub tools: &'p Value,
    /// Maximum number of output tokens.
    pub max_tokens: u64,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// Whether to stream the answer.
    pub stream: bool,
}

impl Api {
    /// A user message.
    pub fn user(self, text: &str) -> Value {
        match self {
            Self::Anthropic | Self::OpenAi => json!({"role": "user", "content": text}),
            Self::Gemini => json!({"role": "user", "parts": [{"text": text}]}),
        }
    }

    /// An assistant message.
    pub fn assistant(self, text: &str) -> Value {
        match self {
            Self::Anthropic | Self::OpenAi => json!({"role": "assistant", "content": text}),
            Self::Gemini => json!({"role": "model", "parts": [{"text": text}]}),
        }
    }

    /// Fills an empty assistant message with a placeholder text: APIs produce such
    /// messages, but reject them as input.
    pub fn fill(self, message: &mut Value, text: &str) {
        let has = |key: &str| message[key].as_array().is_some_and(|items| !items.is_empty());
        let says_nothing = |key: &str| {
            let blocks = message[key].as_array();
            blocks.is_none_or(|blocks| blocks.iter().all(|block| block["text"] == ""))
        };
        match self {
            Self::Anthropic if !message["content"].is_string() && says_nothing("content") => {
                *message = self.assistant(text);
            }
            Self::OpenAi
                if message["content"].as_str().is_none_or(str::is_empty)
                    && !has("content")
                    && !has("tool_calls")
                    && !message["function_call"].is_object()
                    && !message["refusal"].is_string() =>
            {
                message["role"] = "assistant".into();
                message["content"] = text.into();
            }
            Self::Gemini if says_nothing("parts") => *message = self.assistant(text),
            _ => {}
        }
    }

    /// The HTTP request.
    pub(super) fn request(
        self,
        model: &Model,
        prompt: &Prompt<'_>,
        key: Option<&Secret>,
    ) -> Result<Request, Error> {
        let request = |path: &str| -> Result<Request, Error> {
            Ok(Request::new(Method::POST, below(&model.endpoint.base_url, path)?))
        };
        match self {
            Self::Anthropic => {
                let mut request = request("v1/messages")?
                    .header("anthropic-version", ANTHROPIC_VERSION)?
                    .json(&anthropic(model, prompt));
                if let Some(key) = key {
                    request = request.secret_header("x-api-key", key)?;
                }
                Ok(request)
            }
            Self::OpenAi => {
                let request = request("chat/completions")?.json(&openai(model, prompt));
                match key {
                    Some(key) => request.bearer(key),
                    None => Ok(request),
                }
            }
            Self::Gemini => {
                let method = match prompt.stream {
                    true => "streamGenerateContent",
                    false => "generateContent",
                };
                let mut request = request(&format!("v1beta/models/{}:{method}", model.name))?;
                if prompt.stream {
                    request.url_mut().set_query(Some("alt=sse"));
                }
                let request = request.json(&gemini(prompt));
                match key {
                    Some(key) => request.secret_header("x-goog-api-key", key),
                    None => Ok(request),
                }
            }
        }
    }
}

/// Appends a path to a base URL, with or without a trailing slash.
pub(super) fn below(base: &Url, path: &str) -> Result<Url, Error> {
    let text = format!("{}/{path}", base.as_str().trim_end_matches('/'));
    Url::parse(&text).map_err(|why| {
        Error::new(ErrorKind::InvalidDefinition, format!("the model's address is wrong: {why}"))
    })
}

fn has_tools(prompt: &Prompt<'_>) -> bool {
    prompt.tools.as_array().is_some_and(|tools| !tools.is_empty())
}

fn anthropic(model: &Model, prompt: &Prompt<'_>) -> Value {
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

fn openai(model: &Model, prompt: &Prompt<'_>) -> Value {
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

fn gemini(prompt: &Prompt<'_>) -> Value {
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
