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
        let texts = api.own().hear(self, event);
        self.written += texts.iter().map(|text| text.len() as u64).sum::<u64>();
        texts
    }

    /// The usage of an answer that broke off, partly estimated.
    pub fn so_far(&self) -> Usage {
        let written = self.usage.output_tokens.max(self.written / BYTES_OF_A_TOKEN);
        Usage { output_tokens: written, ..self.usage }
    }
}

/// The error of an answer with neither text nor call.
pub fn says_nothing() -> Error {
    Error::new(ErrorKind::UpstreamFailed, "the model's answer is empty")
}

/// A count that the API omits keeps its value.
pub(super) fn set(count: &mut u64, told: &Value) {
    if let Some(told) = told.as_u64() {
        *count = told;
    }
}

/// The text of a message, with its blocks joined by newlines.
pub fn text_of(api: Api, message: &Value) -> String {
    api.own().text_of(message)
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
