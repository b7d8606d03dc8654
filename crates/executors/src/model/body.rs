//! The request that a model is asked with, in the form of its API.

use http::Method;
use serde_json::{Value, json};
use url::Url;
use windlass::{Error, ErrorKind, Secret};

use super::{Api, Model};
use crate::outbound::Request;

/// The version of Anthropic's API that is spoken.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// What a model is asked.
#[derive(Clone, Debug)]
pub struct Prompt<'p> {
    /// What it is to be; empty for nothing.
    pub system: &'p str,
    /// The conversation, in the form of its API.
    pub messages: &'p [Value],
    /// The tools that it may call: an array, in the form of its API.
    pub tools: &'p Value,
    /// How much it may write.
    pub max_tokens: u64,
    /// How freely it chooses its words.
    pub temperature: Option<f64>,
    /// Whether it answers while it writes.
    pub stream: bool,
}

impl Api {
    /// What a person says, as a message.
    pub fn user(self, text: &str) -> Value {
        match self {
            Self::Anthropic | Self::OpenAi => json!({"role": "user", "content": text}),
            Self::Gemini => json!({"role": "user", "parts": [{"text": text}]}),
        }
    }

    /// What a model says, as a message.
    pub fn assistant(self, text: &str) -> Value {
        match self {
            Self::Anthropic | Self::OpenAi => json!({"role": "assistant", "content": text}),
            Self::Gemini => json!({"role": "model", "parts": [{"text": text}]}),
        }
    }

    /// Says this in a model's message that says nothing: APIs write such messages,
    /// and refuse to read them.
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

    /// The request.
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

/// An address below another, whether that ends in a slash or not.
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
    // What does not change from turn to turn is read from a cache: the tools,
    // the system prompt, and the conversation up to here.
    let mark = json!({"type": "ephemeral"});
    let mut messages = prompt.messages.to_vec();
    for blocks in messages.iter_mut().filter_map(|message| message["content"].as_array_mut()) {
        // The API writes empty texts, and refuses to read them.
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
    // OpenAI itself has another word for it than all that copy its API.
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
