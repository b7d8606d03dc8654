//! What an answer says besides the calls in it: its text as it comes, and what
//! it took.

use serde_json::Value;
use windlass::Usage;

use super::Api;

/// Counts what a model took to answer. The last word of a stream counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// What was used so far, without its cost.
    pub usage: Usage,
}

impl Tally {
    /// Hears an event of the stream, or a whole answer. Returns the texts in the
    /// event.
    pub fn hear<'e>(&mut self, api: Api, event: &'e Value) -> Vec<&'e str> {
        match api {
            Api::Anthropic => self.anthropic(event).into_iter().collect(),
            Api::OpenAi => self.openai(event).into_iter().collect(),
            Api::Gemini => self.gemini(event),
        }
    }

    fn anthropic<'e>(&mut self, event: &'e Value) -> Option<&'e str> {
        let told = [&event["message"]["usage"], &event["usage"]];
        for usage in told.into_iter().filter(|usage| usage.is_object()) {
            set(&mut self.usage.input_tokens, &usage["input_tokens"]);
            set(&mut self.usage.output_tokens, &usage["output_tokens"]);
            set(&mut self.usage.cache_read_tokens, &usage["cache_read_input_tokens"]);
            set(&mut self.usage.cache_write_tokens, &usage["cache_creation_input_tokens"]);
        }
        match event["type"].as_str() {
            Some("content_block_delta") => event["delta"]["text"].as_str(),
            _ => None,
        }
    }

    fn openai<'e>(&mut self, event: &'e Value) -> Option<&'e str> {
        let usage = &event["usage"];
        if usage.is_object() {
            set(&mut self.usage.input_tokens, &usage["prompt_tokens"]);
            set(&mut self.usage.output_tokens, &usage["completion_tokens"]);
            let cached = &usage["prompt_tokens_details"]["cached_tokens"];
            set(&mut self.usage.cache_read_tokens, cached);
            // Theirs are among the others.
            let cached = self.usage.cache_read_tokens;
            self.usage.input_tokens = self.usage.input_tokens.saturating_sub(cached);
        }
        event["choices"][0]["delta"]["content"].as_str()
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
        let parts = event["candidates"][0]["content"]["parts"].as_array().into_iter().flatten();
        let said = parts.filter(|part| part["thought"] != true);
        said.filter_map(|part| part["text"].as_str()).collect()
    }
}

/// What the API leaves out stays as it was.
fn set(count: &mut u64, told: &Value) {
    if let Some(told) = told.as_u64() {
        *count = told;
    }
}

/// The text of a model's message; its blocks are joined by newlines (S4.10).
pub fn text_of(api: Api, message: &Value) -> String {
    let blocks = match api {
        Api::Anthropic => &message["content"],
        Api::OpenAi => match &message["content"] {
            Value::String(text) => return text.clone(),
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
