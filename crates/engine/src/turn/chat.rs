//! OpenAI's Chat Completions: `tool_calls`, each answered by a message of its
//! own. Images are not allowed in such a message, so they follow in a user
//! message.
//!
//! Compatible servers add fields, such as a model's reasoning, and expect them
//! back: unknown fields are kept.

use serde_json::{Value, json};

use super::ids::Ids;
use super::pieces::{Piece, data_url, pieces, text_of};
use super::reason::failure;
use super::streamed_calls::{StreamedCalls, WrittenCall};
use super::{AnswerForm, Answers, MessageFormat, MessageStream, ModelCall};
use crate::call::CallResult;
use crate::tool::object_schema as object;
use crate::value::text::Lang;

/// Finish reasons of incomplete messages.
const CUT: [&str; 2] = ["length", "content_filter"];
/// Known fields of a message delta; audio is sent back in another form.
const KNOWN: [&str; 6] = ["role", "content", "refusal", "tool_calls", "function_call", "audio"];
/// Known fields of a call delta.
const KNOWN_OF_CALL: [&str; 5] = ["index", "id", "type", "function", "custom"];

/// Index of a legacy call, behind all others.
const LEGACY: u64 = u64::MAX;

pub(super) struct ChatCompletions;

impl MessageFormat for ChatCompletions {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn model_prefixes(&self) -> &'static [&'static str] {
        &["gpt-", "chatgpt", "o1", "o3", "o4", "text-embedding-3-"]
    }

    fn read(&self, answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String> {
        read(answer, ids)
    }

    fn messages(&self, answers: &mut Answers<'_>, lang: Lang) -> Vec<Value> {
        messages(answers, lang)
    }

    fn begins_with(&self, event: &Value) -> bool {
        event.get("choices").is_some()
    }

    fn stream(&self) -> Box<dyn MessageStream> {
        Box::new(ChatStream::default())
    }

    fn marks_ends(&self) -> bool {
        false
    }

    fn declare(&self, name: &str, description: &str, schema: &Value) -> Value {
        json!({
            "type": "function",
            "function": {"name": name, "description": description, "parameters": object(schema)},
        })
    }
}

fn is_cut(finish_reason: &Value) -> bool {
    finish_reason.as_str().is_some_and(|reason| CUT.contains(&reason))
}

/// The message and its calls; only the first choice counts.
fn read(answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String> {
    let mut message = answer;
    let mut is_cut = false;
    let has = |key: &str| message.get(key).is_some();
    let is_message = if has("choices") {
        is_cut = self::is_cut(&message["choices"][0]["finish_reason"]);
        message = message.pointer_mut("/choices/0/message").map(Value::take).unwrap_or_default();
        message.is_object()
    } else {
        ["role", "content", "tool_calls", "function_call"].into_iter().any(has)
    };
    if !is_message {
        return Err("there is no message: neither `choices` nor `role`".to_owned());
    }
    let mut calls = Vec::new();
    if let Some(asked) = message.get_mut("tool_calls").and_then(Value::as_array_mut) {
        calls.extend(asked.iter_mut().map(|asked| call(asked, ids)));
    }
    // Some servers write an empty object where there is no call.
    if message.get("function_call").is_some_and(is_empty_call)
        && let Some(message) = message.as_object_mut()
    {
        message.remove("function_call");
        ids.mended = true;
    }
    // The legacy form: one call, without ids.
    if let Some(asked) = message.get_mut("function_call").filter(|asked| asked.is_object()) {
        let call = ModelCall::new(None, asked["name"].as_str(), asked["arguments"].clone());
        let call = call.form(AnswerForm::Legacy);
        sanitize(asked, &call, ids);
        calls.push(call);
    }
    if is_cut {
        calls.last_mut().into_iter().for_each(ModelCall::break_off);
    }
    Ok((message, calls))
}

fn call(asked: &mut Value, ids: &mut Ids) -> ModelCall {
    let id = ids.claim(asked["id"].as_str());
    if !asked.is_object() {
        ids.put(asked, json!({}));
    }
    ids.put(&mut asked["id"], &*id);
    if asked["type"] == "custom" && asked["custom"].is_object() {
        let custom = &mut asked["custom"];
        let input = json!({"input": custom["input"]});
        let call =
            ModelCall::new(Some(id), custom["name"].as_str(), input).form(AnswerForm::Custom);
        ids.put(&mut custom["name"], &*call.kept_name());
        if !custom["input"].is_string() {
            ids.put(&mut custom["input"], "");
        }
        return call;
    }
    ids.put(&mut asked["type"], "function");
    let function = &mut asked["function"];
    if !function.is_object() {
        ids.put(function, json!({}));
    }
    let arguments = function["arguments"].clone();
    let call = ModelCall::new(Some(id), function["name"].as_str(), arguments);
    sanitize(function, &call, ids);
    call
}

/// Whether a legacy call is empty.
fn is_empty_call(asked: &Value) -> bool {
    let says_nothing = match &asked["arguments"] {
        Value::Null => true,
        Value::String(text) => matches!(text.trim(), "" | "{}"),
        Value::Object(arguments) => arguments.is_empty(),
        _ => false,
    };
    asked.is_object() && asked["name"].as_str().is_none_or(str::is_empty) && says_nothing
}

/// Fixes what the API would refuse.
fn sanitize(function: &mut Value, call: &ModelCall, ids: &mut Ids) {
    ids.put(&mut function["name"], &*call.kept_name());
    ids.put(&mut function["arguments"], call.text());
}

/// One message per result, and one with all images.
fn messages<'a>(
    answers: impl Iterator<Item = (&'a ModelCall, &'a CallResult)>,
    lang: Lang,
) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut shown = Vec::new();
    for (call, result) in answers {
        let pieces = pieces(result, lang);
        let content = text_of(&pieces);
        messages.push(match call.form {
            AnswerForm::Legacy => {
                json!({"role": "function", "name": call.kept_name(), "content": content})
            }
            _ => json!({"role": "tool", "tool_call_id": call.id, "content": content}),
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

/// The message of a stream so far.
#[derive(Clone, Debug, Default)]
struct ChatStream {
    /// A text, or a list of blocks.
    content: Value,
    refusal: String,
    /// Further fields.
    more: Value,
    has_ended: bool,
}

impl MessageStream for ChatStream {
    fn hear(&mut self, chunk: &Value, slots: &mut StreamedCalls) -> Result<bool, String> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(failure(error));
        }
        let choices = chunk["choices"].as_array().into_iter().flatten();
        let Some(choice) =
            choices.into_iter().find(|choice| choice["index"].as_u64().unwrap_or(0) == 0)
        else {
            return Ok(self.has_ended);
        };
        let delta = &choice["delta"];
        grow_content(&mut self.content, &delta["content"]);
        self.refusal.push_str(delta["refusal"].as_str().unwrap_or_default());
        grow(&mut self.more, &unknown(delta, &KNOWN));
        for (place, call) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
            // Some servers omit the index.
            let at = call["index"].as_u64().unwrap_or(place as u64);
            let (function, custom) = (&call["function"], &call["custom"]);
            let id = call["id"].as_str();
            if custom.is_object() || call["type"] == "custom" {
                let input = custom["input"].as_str().unwrap_or_default();
                slots.begin_custom(at, id, custom["name"].as_str(), input);
            } else {
                slots.begin(at, id, function["name"].as_str(), &written(function));
            }
            if let Some(more) = slots.more(at) {
                grow(more, &unknown(call, &KNOWN_OF_CALL));
            }
        }
        let asked = &delta["function_call"];
        if asked.is_object() && (slots.has(LEGACY) || !is_empty_call(asked)) {
            // There is at most one.
            let name = asked["name"].as_str().filter(|_| !slots.has(LEGACY));
            slots.begin(LEGACY, None, name, &written(asked));
            slots.form(LEGACY, AnswerForm::Legacy);
            slots.without_id(LEGACY, true);
        }
        // Some servers send an empty reason until there is one.
        if choice["finish_reason"].as_str().is_some_and(|reason| !reason.is_empty()) {
            self.has_ended = true;
            match is_cut(&choice["finish_reason"]) {
                true => slots.cut(),
                false => slots.end_all(),
            }
        }
        Ok(self.has_ended)
    }

    fn message(&self, calls: Vec<WrittenCall>) -> Value {
        let mut message = json!({"role": "assistant", "content": self.content});
        grow(&mut message, &self.more);
        if !self.refusal.is_empty() {
            message["refusal"] = self.refusal.clone().into();
        }
        let mut asked = Vec::new();
        for WrittenCall { call, more, .. } in calls {
            let function = json!({"name": call.kept_name(), "arguments": call.text()});
            if call.form == AnswerForm::Legacy {
                message["function_call"] = function;
                continue;
            }
            let mut call = match call.form {
                AnswerForm::Custom => {
                    let custom =
                        json!({"name": function["name"], "input": call.arguments["input"]});
                    json!({"id": call.id, "type": "custom", "custom": custom})
                }
                _ => json!({"id": call.id, "type": "function", "function": function}),
            };
            grow(&mut call, &more);
            asked.push(call);
        }
        if !asked.is_empty() {
            message["tool_calls"] = asked.into();
        }
        message
    }
}

/// The arguments in a call delta, as text.
fn written(function: &Value) -> String {
    match &function["arguments"] {
        Value::String(more) => more.clone(),
        Value::Null => String::new(),
        whole => whole.to_string(),
    }
}

/// Appends a content delta. Some servers stream blocks instead of text, or
/// both.
fn grow_content(content: &mut Value, piece: &Value) {
    let text_block = |text: &str| json!({"type": "text", "text": text});
    match (&mut *content, piece) {
        (_, Value::String(more)) if more.is_empty() => {}
        (place @ Value::Null, Value::String(text)) => *place = text.as_str().into(),
        (Value::String(text), Value::String(more)) => text.push_str(more),
        (Value::Array(blocks), Value::String(more)) => add_block(blocks, &text_block(more)),
        (Value::Array(blocks), Value::Array(more)) => {
            more.iter().for_each(|block| add_block(blocks, block));
        }
        (place, Value::Array(_)) => {
            *place = place.as_str().map(text_block).into_iter().collect();
            grow_content(content, piece);
        }
        (_, Value::Object(_)) => grow_content(content, &json!([piece])),
        _ => {}
    }
}

/// Appends a block; text and reasoning continue the previous block.
fn add_block(blocks: &mut Vec<Value>, block: &Value) {
    let text = |block: &Value| {
        block.as_object().is_some_and(|own| own.len() == 2) && block["type"] == "text"
    };
    if let Some(last) = blocks.last_mut() {
        if text(last) && text(block) {
            return grow(&mut last["text"], &block["text"]);
        }
        let thinking = |block: &Value| block["type"] == "thinking" && block["thinking"].is_array();
        if thinking(last) && thinking(block) {
            let more = block["thinking"].as_array().into_iter().flatten();
            if let Some(inner) = last["thinking"].as_array_mut() {
                more.for_each(|block| add_block(inner, block));
            }
            return grow(last, &unknown(block, &["type", "thinking"]));
        }
    }
    blocks.push(block.clone());
}

/// The unknown fields of a delta.
fn unknown(piece: &Value, known: &[&str]) -> Value {
    let pairs = piece.as_object().into_iter().flatten();
    let unknown = pairs.filter(|(key, _)| !known.contains(&key.as_str()));
    Value::Object(unknown.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// Merges a delta: strings and lists are appended.
fn grow(whole: &mut Value, piece: &Value) {
    match (whole, piece) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(more)) => text.push_str(more),
        (Value::Array(list), Value::Array(more)) => list.extend(more.iter().cloned()),
        (Value::Object(whole), Value::Object(piece)) => {
            for (key, piece) in piece {
                match whole.get_mut(key) {
                    // A repeated field, not a continuation.
                    Some(whole) if key == "type" => *whole = piece.clone(),
                    Some(whole) => grow(whole, piece),
                    None if piece.is_null() => {}
                    None => drop(whole.insert(key.clone(), piece.clone())),
                }
            }
        }
        (whole, piece) => *whole = piece.clone(),
    }
}
