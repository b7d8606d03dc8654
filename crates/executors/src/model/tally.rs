//! Reads the text, usage and finish reason out of a stream.

use serde_json::Value;
use windlass::{Error, ErrorKind, Usage};

use super::Api;

/// Estimated bytes in a token, for streams without a usage.
const BYTES_OF_A_TOKEN: u64 = 4;

/// Counts the usage of an answer. In a stream, the last counts win.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The usage so far, without cost.
    pub usage: Usage,
    /// The finish reason, as far as it is known.
    pub finish: Finish,
    /// Bytes of text so far.
    written: u64,
}

/// How an answer ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    /// Complete.
    #[default]
    Usual,
    /// Cut off at the maximum number of tokens.
    Length,
    /// Refused by the model or its API, with the API's reason.
    Refused(String),
    /// The model produced something that its own API cannot parse, with the API's reason.
    Unreadable(String),
}

impl Tally {
    /// Processes an event of the stream, or a whole answer. Returns the texts in it.
    pub fn hear<'e>(&mut self, api: Api, event: &'e Value) -> Vec<&'e str> {
        let texts: Vec<&str> = match api {
            Api::Anthropic => self.anthropic(event).into_iter().collect(),
            Api::OpenAi => self.openai(event),
            Api::Gemini => self.gemini(event),
        };
        self.written += texts.iter().map(|text| text.len() as u64).sum::<u64>();
        texts
    }

    /// The usage of an answer that broke off, partly estimated.
    pub fn so_far(&self) -> Usage {
        let written = self.usage.output_tokens.max(self.written / BYTES_OF_A_TOKEN);
        Usage { output_tokens: written, ..self.usage }
    }

    fn anthropic<'e>(&mut self, event: &'e Value) -> Option<&'e str> {
        let told = [&event["message"]["usage"], &event["usage"]];
        for usage in told.into_iter().filter(|usage| usage.is_object()) {
            set(&mut self.usage.input_tokens, &usage["input_tokens"]);
            set(&mut self.usage.output_tokens, &usage["output_tokens"]);
            set(&mut self.usage.cache_read_tokens, &usage["cache_read_input_tokens"]);
            set(&mut self.usage.cache_write_tokens, &usage["cache_creation_input_tokens"]);
        }
        let reason = event["delta"]["stop_reason"].as_str().or(event["stop_reason"].as_str());
        match reason {
            Some("max_tokens" | "model_context_window_exceeded") => self.finish = Finish::Length,
            Some(reason @ "refusal") => self.finish = Finish::Refused(reason.to_owned()),
            _ => {}
        }
        match event["type"].as_str() {
            Some("content_block_delta") => event["delta"]["text"].as_str(),
            _ => None,
        }
    }

    fn openai<'e>(&mut self, event: &'e Value) -> Vec<&'e str> {
        let usage = &event["usage"];
        if usage.is_object() {
            set(&mut self.usage.input_tokens, &usage["prompt_tokens"]);
            set(&mut self.usage.output_tokens, &usage["completion_tokens"]);
            let cached = &usage["prompt_tokens_details"]["cached_tokens"];
            set(&mut self.usage.cache_read_tokens, cached);
            // Cached tokens are included in the input tokens.
            let cached = self.usage.cache_read_tokens;
            self.usage.input_tokens = self.usage.input_tokens.saturating_sub(cached);
        }
        let choice = &event["choices"][0];
        let refused = |said: &Value| said["refusal"].as_str().is_some_and(|why| !why.is_empty());
        match choice["finish_reason"].as_str() {
            Some("length") => self.finish = Finish::Length,
            Some(reason @ "content_filter") => self.finish = Finish::Refused(reason.to_owned()),
            _ if refused(&choice["delta"]) || refused(&choice["message"]) => {
                self.finish = Finish::Refused("refusal".to_owned());
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

    fn gemini<'e>(&mut self, event: &'e Value) -> Vec<&'e str> {
        let usage = &event["usageMetadata"];
        if usage.is_object() {
            set(&mut self.usage.input_tokens, &usage["promptTokenCount"]);
            set(&mut self.usage.cache_read_tokens, &usage["cachedContentTokenCount"]);
            let cached = self.usage.cache_read_tokens;
            self.usage.input_tokens = self.usage.input_tokens.saturating_sub(cached);
            let thought = usage["thoughtsTokenCount"].as_u64().unwrap_or_default();
            let written = usage["candidatesTokenCount"].as_u64().unwrap_or_default();
            self.usage.output_tokens = written + thought;
        }
        let candidate = &event["candidates"][0];
        match candidate["finishReason"].as_str() {
            None | Some("STOP" | "FINISH_REASON_UNSPECIFIED") => {}
            Some("MAX_TOKENS") => self.finish = Finish::Length,
            Some(reason @ ("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "OTHER")) => {
                self.finish = Finish::Unreadable(reason.to_owned());
            }
            // All other reasons are content filters.
            Some(reason) => self.finish = Finish::Refused(reason.to_owned()),
        }
        // The prompt was blocked, so there is no answer at all.
        if let Some(reason) = event["promptFeedback"]["blockReason"].as_str() {
            self.finish = Finish::Refused(reason.to_owned());
        }
        let parts = candidate["content"]["parts"].as_array().into_iter().flatten();
        let said = parts.filter(|part| part["thought"] != true);
        said.filter_map(|part| part["text"].as_str()).collect()
    }
}

/// The error of an answer with neither text nor call.
pub fn says_nothing() -> Error {
    Error::new(ErrorKind::UpstreamFailed, "the model's answer is empty")
}

/// A count that the API omits keeps its value.
fn set(count: &mut u64, told: &Value) {
    if let Some(told) = told.as_u64() {
        *count = told;
    }
}

/// The text of a message, with its blocks joined by newlines.
pub fn text_of(api: Api, message: &Value) -> String {
    let blocks = match api {
        Api::Anthropic => &message["content"],
        Api::OpenAi => match &message["content"] {
            Value::String(text) => return text.clone(),
            // A message without content may give its reason in `refusal`.
            Value::Null => return message["refusal"].as_str().unwrap_or_default().to_owned(),
            blocks => blocks,
        },
        Api::Gemini => &message["parts"],
    };
    let texts = blocks.as_array().into_iter().flatten().filter(|block| block["thought"] != true);
    let texts: Vec<&str> = texts.filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn streams_are_counted_once() {
        let mut tally = Tally::default();
        let events = [
            json!({"type": "message_start", "message": {"usage": {
                "input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5}}}),
            json!({"type": "content_block_start", "index": 0}),
            json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hi"}}),
            json!({"type": "message_delta", "usage": {"output_tokens": 7}}),
        ];
        let texts: Vec<&str> =
            events.iter().flat_map(|event| tally.hear(Api::Anthropic, event)).collect();
        assert_eq!(texts, ["hi"]);
        let Usage { input_tokens, output_tokens, cache_read_tokens, .. } = tally.usage;
        assert_eq!((input_tokens, output_tokens, cache_read_tokens), (10, 7, 5));
    }

    #[test]
    fn texts_are_joined_and_thoughts_are_left_out() {
        let said = json!({"content": [{"type": "text", "text": "a"}, {"type": "tool_use"},
            {"type": "text", "text": "b"}]});
        assert_eq!(text_of(Api::Anthropic, &said), "a\nb");
        assert_eq!(text_of(Api::OpenAi, &json!({"content": null})), "");
        let said = json!({"parts": [{"text": "hm", "thought": true}, {"text": "b"}]});
        assert_eq!(text_of(Api::Gemini, &said), "b");
    }
}
