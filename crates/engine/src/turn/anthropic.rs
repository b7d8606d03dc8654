//! Anthropic's Messages: `tool_use` blocks, answered by `tool_result` blocks of
//! one message.

use serde_json::{Value, json};

use super::ids::Ids;
use super::pieces::{Piece, pieces};
use super::reason::failure;
use super::streamed_calls::{StreamedCalls, WrittenCall};
use super::{Answers, MessageFormat, MessageStream, ModelCall};
use crate::call::CallResult;
use crate::tool::object_schema as object;
use crate::value::text::Lang;

/// Block types that identify the format.
const BLOCKS: [&str; 6] =
    ["tool_use", "text", "thinking", "redacted_thinking", "server_tool_use", "compaction"];
/// Delta types with known keys; others are kept as they are.
const DELTAS: [&str; 4] = ["text_delta", "thinking_delta", "signature_delta", "input_json_delta"];
/// Stop reasons of incomplete messages.
const CUT: [&str; 3] = ["max_tokens", "model_context_window_exceeded", "refusal"];

pub(super) struct Anthropic;

impl MessageFormat for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn model_prefixes(&self) -> &'static [&'static str] {
        &["claude"]
    }

    fn read(&self, answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String> {
        read(answer, ids)
    }

    fn messages(&self, answers: &mut Answers<'_>, lang: Lang) -> Vec<Value> {
        messages(answers, lang)
    }

    fn begins_with(&self, event: &Value) -> bool {
        let kind = event["type"].as_str().unwrap_or_default();
        kind.starts_with("message_")
            || kind.starts_with("content_block")
            || kind == "ping"
            || kind == "error"
    }

    fn stream(&self) -> Box<dyn MessageStream> {
        Box::new(AnthropicStream::default())
    }

    fn declare(&self, name: &str, description: &str, schema: &Value) -> Value {
        json!({"name": name, "description": description, "input_schema": object(schema)})
    }
}

/// Whether a value is a content block.
pub(super) fn is_block(block: &Value) -> bool {
    block["type"].as_str().is_some_and(|kind| BLOCKS.contains(&kind))
}

fn is_cut(stop_reason: &Value) -> bool {
    stop_reason.as_str().is_some_and(|reason| CUT.contains(&reason))
}

/// The message and its calls.
fn read(answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String> {
    let is_cut = is_cut(&answer["stop_reason"]);
    let mut content = match answer {
        Value::Array(blocks) => blocks,
        mut message => match message.get_mut("content").map(Value::take) {
            Some(Value::Array(blocks)) => blocks,
            Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
            _ => return Err("the message has no list `content`".to_owned()),
        },
    };
    let mut calls: Vec<ModelCall> =
        content.iter_mut().filter_map(|block| call(block, ids)).collect();
    if is_cut && content.last().is_some_and(|block| block["type"] == "tool_use") {
        calls.last_mut().into_iter().for_each(ModelCall::break_off);
    }
    Ok((json!({"role": "assistant", "content": content}), calls))
}

/// The call in a block. Tools that the API has run itself are in other blocks.
fn call(block: &mut Value, ids: &mut Ids) -> Option<ModelCall> {
    if block["type"] != "tool_use" {
        return None;
    }
    let id = ids.claim(block["id"].as_str());
    let call = ModelCall::new(Some(id), block["name"].as_str(), block["input"].clone());
    let call = call.repeating(block);
    sanitize(block, &call, ids);
    Some(call)
}

/// Fixes what the API would refuse.
fn sanitize(block: &mut Value, call: &ModelCall, ids: &mut Ids) {
    ids.put(&mut block["id"], call.id.as_deref());
    ids.put(&mut block["name"], &*call.kept_name());
    ids.put(&mut block["input"], call.object());
}

/// One message with all results.
fn messages<'a>(
    answers: impl Iterator<Item = (&'a ModelCall, &'a CallResult)>,
    lang: Lang,
) -> Vec<Value> {
    let results: Vec<Value> = answers
        .map(|(call, result)| {
            let content: Vec<Value> = pieces(result, lang).into_iter().map(block).collect();
            let mut answer = json!({
                "type": "tool_result", "tool_use_id": call.id, "content": content,
            });
            if !result.is_success() {
                answer["is_error"] = true.into();
            }
            // The API knows the caller by the id.
            call.repeat(&mut answer, "toolset_name");
            answer
        })
        .collect();
    vec![json!({"role": "user", "content": results})]
}

fn block(piece: Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::Image(data) => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": data.mime_type, "data": data.base64},
        }),
        Piece::Document(data) => json!({
            "type": "document",
            "source": {"type": "base64", "media_type": data.mime_type, "data": data.base64},
        }),
    }
}

/// The blocks of a stream so far.
#[derive(Clone, Debug, Default)]
struct AnthropicStream {
    /// Blocks other than calls, with their index.
    blocks: Vec<(u64, Value)>,
    is_cut: bool,
}

impl MessageStream for AnthropicStream {
    fn hear(&mut self, event: &Value, slots: &mut StreamedCalls) -> Result<bool, String> {
        let at = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "content_block_start" => self.begin(at, &event["content_block"], slots),
            "content_block_delta" => self.grow(at, &event["delta"], slots),
            "content_block_stop" => slots.end(at),
            "message_delta" if event["delta"]["stop_reason"].is_string() => {
                self.is_cut = is_cut(&event["delta"]["stop_reason"]);
                // The blocks came before.
                match self.is_cut {
                    true => slots.cut(),
                    false => slots.settle(),
                }
            }
            "message_stop" => {
                // Some servers do not mark the end of a block.
                match self.is_cut {
                    true => slots.cut(),
                    false => slots.end_all(),
                }
                return Ok(true);
            }
            "error" => {
                return Err(failure(&event["error"]));
            }
            _ => {}
        }
        Ok(false)
    }

    fn message(&self, calls: Vec<WrittenCall>) -> Value {
        let mut own = self.clone();
        for (_, block) in &mut own.blocks {
            // The input of a tool that the API runs itself came in pieces.
            let Some(object) = block.as_object_mut() else { continue };
            if let Some(Value::String(written)) = object.remove("partial_json") {
                let input = serde_json::from_str(&written).unwrap_or_else(|_| json!({}));
                object.insert("input".to_owned(), input);
            }
        }
        own.blocks.extend(calls.into_iter().map(|WrittenCall { at, call, more }| {
            let mut block = if more.is_object() { more } else { json!({"type": "tool_use"}) };
            sanitize(&mut block, &call, &mut Ids::default());
            (at, block)
        }));
        own.blocks.sort_by_key(|(at, _)| *at);
        let content: Vec<Value> = own.blocks.into_iter().map(|(_, block)| block).collect();
        json!({"role": "assistant", "content": content})
    }
}

impl AnthropicStream {
    fn begin(&mut self, at: u64, block: &Value, slots: &mut StreamedCalls) {
        if block["type"] != "tool_use" {
            slots.settle();
            return self.blocks.push((at, block.clone()));
        }
        let written = match &block["input"] {
            // Only an empty input is a placeholder.
            Value::Object(input) if !input.is_empty() => block["input"].to_string(),
            _ => String::new(),
        };
        slots.begin(at, block["id"].as_str(), block["name"].as_str(), &written);
        if let Some(more) = slots.more(at).filter(|more| more.is_null()) {
            *more = block.clone();
        }
    }

    fn grow(&mut self, at: u64, delta: &Value, slots: &mut StreamedCalls) {
        if let Some(json) = delta["partial_json"].as_str()
            && slots.has(at)
        {
            return slots.write(at, json);
        }
        let block = self.blocks.iter_mut().rev().find(|(own, _)| *own == at);
        let Some(block) = block.and_then(|(_, block)| block.as_object_mut()) else { return };
        if let Some(citation) = delta.get("citation") {
            match block.get_mut("citations") {
                Some(Value::Array(citations)) => citations.push(citation.clone()),
                _ => drop(block.insert("citations".to_owned(), json!([citation]))),
            }
            return;
        }
        let is_known = delta["type"].as_str().is_none_or(|kind| DELTAS.contains(&kind));
        let pieces = delta.as_object().into_iter().flatten().filter(|(key, _)| match is_known {
            true => ["text", "thinking", "signature", "partial_json"].contains(&key.as_str()),
            false => *key != "type",
        });
        for (key, more) in pieces {
            match (block.get_mut(key), more) {
                (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
                (Some(_), Value::Null) => {}
                _ => drop(block.insert(key.clone(), more.clone())),
            }
        }
    }
}
