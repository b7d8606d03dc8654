//! OpenAI's Chat Completions: `tool_calls`, each answered by a message of its
//! own. Images cannot stand in such a message, so they follow in one of the
//! user's.

use serde_json::{Value, json};

use super::ids::Ids;
use super::slots::{Slots, Written};
use super::told::{Piece, data_url, pieces, text_of};
use super::{Form, ModelCall};
use crate::call::CallResult;
use crate::text::Lang;

/// The message and its calls. Of several choices, the first counts.
pub(super) fn read(answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String> {
    let mut message = answer;
    if message.get("choices").is_some() {
        message = message.pointer_mut("/choices/0/message").map(Value::take).unwrap_or_default();
    }
    if !message.is_object() {
        return Err("there is no message: neither `choices` nor `role`".to_owned());
    }
    let mut calls = Vec::new();
    if let Some(asked) = message.get_mut("tool_calls").and_then(Value::as_array_mut) {
        calls.extend(asked.iter_mut().map(|asked| call(asked, ids)));
    }
    // The form of the first API with calls; it knows one call and no ids.
    if let Some(asked) = message.get("function_call").filter(|asked| asked.is_object()) {
        let call = ModelCall::new(None, asked["name"].as_str(), asked["arguments"].clone());
        calls.push(call.special());
    }
    Ok((message, calls))
}

fn call(asked: &mut Value, ids: &mut Ids) -> ModelCall {
    let id = ids.claim(asked["id"].as_str());
    if asked.is_object() {
        asked["id"] = json!(id);
    }
    if asked["type"] == "custom" {
        let custom = &asked["custom"];
        return ModelCall::new(
            Some(id),
            custom["name"].as_str(),
            json!({"input": custom["input"]}),
        );
    }
    let function = &asked["function"];
    ModelCall::new(Some(id), function["name"].as_str(), function["arguments"].clone())
}

/// A message for each result, and one with all images.
pub(super) fn messages<'a>(
    answers: impl Iterator<Item = (&'a ModelCall, &'a CallResult)>,
    lang: Lang,
) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut shown = Vec::new();
    for (call, result) in answers {
        let pieces = pieces(result, lang);
        let content = text_of(&pieces);
        messages.push(match call.form {
            Form::Usual => json!({"role": "tool", "tool_call_id": call.id, "content": content}),
            Form::Special => json!({"role": "function", "name": call.name, "content": content}),
        });
        shown.extend(pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Image(data) => {
                Some(json!({"type": "image_url", "image_url": {"url": data_url(data)}}))
            }
            Piece::Document(data) => Some(json!({
                "type": "file", "file": {"filename": "document.pdf", "file_data": data_url(data)},
            })),
        }));
    }
    if !shown.is_empty() {
        let words = match lang {
            Lang::En => "These belong to the tool results above, in order:",
            Lang::Zh => "以下内容属于上面的工具结果,按顺序排列:",
        };
        shown.insert(0, json!({"type": "text", "text": words}));
        messages.push(json!({"role": "user", "content": shown}));
    }
    messages
}

/// The message of a stream, as it grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Assembly {
    content: String,
    refusal: String,
    has_ended: bool,
}

impl Assembly {
    /// Hears one chunk of the stream. True if it is the last.
    pub(super) fn hear(&mut self, chunk: &Value, slots: &mut Slots) -> Result<bool, String> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let why = error["message"].as_str().unwrap_or("no reason given");
            return Err(format!("the model's API failed: {why}"));
        }
        let choices = chunk["choices"].as_array().into_iter().flatten();
        let Some(choice) =
            choices.into_iter().find(|choice| choice["index"].as_u64().unwrap_or(0) == 0)
        else {
            return Ok(self.has_ended);
        };
        let delta = &choice["delta"];
        self.content.push_str(delta["content"].as_str().unwrap_or_default());
        self.refusal.push_str(delta["refusal"].as_str().unwrap_or_default());
        for (place, call) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
            // Some servers leave the index out.
            let at = call["index"].as_u64().unwrap_or(place as u64);
            let function = &call["function"];
            slots.begin(at, call["id"].as_str(), function["name"].as_str());
            match &function["arguments"] {
                Value::String(more) => slots.write(at, more),
                Value::Null => {}
                whole => slots.write(at, &whole.to_string()),
            }
        }
        if choice["finish_reason"].is_string() {
            self.has_ended = true;
            slots.end_all();
        }
        Ok(self.has_ended)
    }

    /// The message, as the conversation keeps it.
    pub(super) fn message(self, calls: Vec<Written>) -> Value {
        let calls: Vec<Value> = calls
            .into_iter()
            .map(|Written { call, .. }| {
                let arguments = call.text();
                let function = json!({"name": call.name, "arguments": arguments});
                json!({"id": call.id, "type": "function", "function": function})
            })
            .collect();
        let content = if self.content.is_empty() { Value::Null } else { self.content.into() };
        let mut message = json!({"role": "assistant", "content": content});
        if !self.refusal.is_empty() {
            message["refusal"] = self.refusal.into();
        }
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        message
    }
}
