//! A scripted model on loopback that records every request.

use serde_json::{Value, json};

use crate::upstream::{Asked, Said, TestUpstream};

/// The model.
pub(crate) struct Model(TestUpstream);

pub(crate) fn say(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Words that come one by one.
pub(crate) fn say_in_pieces(pieces: &[String]) -> Value {
    json!({"type": "text", "pieces": pieces})
}

pub(crate) fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

impl Model {
    pub(crate) fn start(answer: impl Fn(&Value) -> Vec<Value> + Send + Sync + 'static) -> Self {
        Self(TestUpstream::start(move |asked| {
            let blocks = answer(&serde_json::from_str(&asked.body).unwrap());
            Said::text("200 OK", "text/event-stream", stream_of(&blocks))
        }))
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    pub(crate) fn requests(&self) -> Vec<Value> {
        self.0.asked().iter().map(|asked| serde_json::from_str(&asked.body).unwrap()).collect()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        let key = |asked: &Asked| asked.header("x-api-key").unwrap_or_default().to_owned();
        self.0.asked().iter().map(key).collect()
    }
}

/// A message as the API streams it: 100 tokens in, 20 out.
fn stream_of(blocks: &[Value]) -> String {
    let usage = json!({"input_tokens": 100, "output_tokens": 1});
    let mut events = vec![json!({"type": "message_start", "message": {"usage": usage}})];
    for (at, block) in blocks.iter().enumerate() {
        let mut start = block.clone();
        let deltas: Vec<Value> = match (block["type"] == "text", block["pieces"].as_array()) {
            (true, pieces) => {
                start = json!({"type": "text", "text": ""});
                let pieces = pieces.cloned().unwrap_or_else(|| vec![block["text"].clone()]);
                pieces.iter().map(|text| json!({"type": "text_delta", "text": text})).collect()
            }
            (false, _) => {
                start["input"] = json!({});
                let input = block["input"].to_string();
                vec![json!({"type": "input_json_delta", "partial_json": input})]
            }
        };
        events.push(json!({"type": "content_block_start", "index": at, "content_block": start}));
        events.extend(
            deltas
                .into_iter()
                .map(|delta| json!({"type": "content_block_delta", "index": at, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": at}));
    }
    events.push(json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 20}}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}
