//! Google's Gemini: `functionCall` parts, answered by `functionResponse` parts
//! of one message. Calls may have no ids: then their order tells.

use std::sync::Arc;

use serde_json::{Value, json};

use super::ids::Ids;
use super::slots::{Slots, Written};
use super::told::{Piece, pieces, text_of};
use super::{Form, ModelCall};
use crate::call::CallResult;
use crate::text::Lang;

/// A call's key: as the API writes it, and as Google's SDK for Python does.
const CALL: [(&str, Form); 2] = [("functionCall", Form::Usual), ("function_call", Form::Snake)];

/// Where the call is in a part, if it is one.
fn call_in(part: &Value) -> Option<(&'static str, Form)> {
    CALL.into_iter().find(|(key, _)| part[*key].is_object())
}

/// Whether a candidate says why it ends, and whether that was before it was
/// complete.
fn end_of(candidate: &Value) -> Option<bool> {
    let reason = candidate["finishReason"].as_str().or(candidate["finish_reason"].as_str());
    let reason = reason.filter(|reason| *reason != "FINISH_REASON_UNSPECIFIED")?;
    Some(reason != "STOP")
}

/// The message and its calls. Of several candidates, the first counts; one that
/// was cut early has no parts.
pub(super) fn read(answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String> {
    let mut message = answer;
    let mut is_cut = false;
    let mut may_lack_parts = false;
    if let Some(candidates) = message.get_mut("candidates").and_then(Value::as_array_mut) {
        let mut candidate = candidates.first_mut().map(Value::take).unwrap_or_default();
        is_cut = end_of(&candidate).unwrap_or_default();
        may_lack_parts = true;
        message = match candidate.get_mut("content").map(Value::take) {
            Some(content @ Value::Object(_)) => content,
            _ => json!({}),
        };
    }
    if message.get("parts").map_or(may_lack_parts, Value::is_null) {
        message["parts"] = json!([]);
    }
    let Some(parts) = message.get_mut("parts").and_then(Value::as_array_mut) else {
        return Err("there is no list `parts`".to_owned());
    };
    let mut calls: Vec<ModelCall> = parts.iter_mut().filter_map(|part| call(part, ids)).collect();
    if is_cut && parts.last().is_some_and(|part| call_in(part).is_some()) {
        calls.last_mut().into_iter().for_each(ModelCall::break_off);
    }
    if message["role"].is_null() {
        message["role"] = "model".into();
    }
    Ok((message, calls))
}

fn call(part: &mut Value, ids: &mut Ids) -> Option<ModelCall> {
    let (key, form) = call_in(part)?;
    let asked = &mut part[key];
    // A missing id is as it should be; one that is there twice is not.
    let id: Option<Arc<str>> = asked["id"].as_str().map(|id| ids.claim(Some(id)));
    let call = ModelCall::new(id, asked["name"].as_str(), asked["args"].clone()).form(form);
    mend(asked, &call, ids);
    Some(call)
}

/// Puts right what the API would refuse.
fn mend(asked: &mut Value, call: &ModelCall, ids: &mut Ids) {
    if call.id.is_some() {
        ids.put(&mut asked["id"], call.id.as_deref());
    }
    ids.put(&mut asked["name"], &*call.kept_name());
    if !asked["args"].is_null() {
        ids.put(&mut asked["args"], call.object());
    }
}

/// One message with all results; images follow the result that they belong to.
pub(super) fn messages<'a>(
    answers: impl Iterator<Item = (&'a ModelCall, &'a CallResult)>,
    lang: Lang,
) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut shown = Vec::new();
    for (call, result) in answers {
        let pieces = pieces(result, lang);
        let value = result.output().and_then(|output| output.value());
        let response = match (result.is_success(), value) {
            (true, Some(value @ Value::Object(_))) => value.clone(),
            (true, Some(value)) => json!({"output": value}),
            (true, None) => json!({"output": text_of(&pieces)}),
            (false, _) => json!({"error": text_of(&pieces)}),
        };
        let mut answer = json!({"name": call.kept_name(), "response": response});
        if let Some(id) = &call.id {
            answer["id"] = json!(id);
        }
        let is_snake = call.form == Form::Snake;
        parts.push(match is_snake {
            true => json!({"function_response": answer}),
            false => json!({"functionResponse": answer}),
        });
        shown.extend(pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Image(data) | Piece::Document(data) => Some(match is_snake {
                true => json!({"inline_data": {"mime_type": data.mime_type, "data": data.base64}}),
                false => json!({"inlineData": {"mimeType": data.mime_type, "data": data.base64}}),
            }),
        }));
    }
    // All responses stand together, or the API does not count them as one turn.
    parts.extend(shown);
    vec![json!({"role": "user", "parts": parts})]
}

/// The parts of a stream, as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct Assembly {
    parts: Vec<Value>,
    has_ended: bool,
}

impl Assembly {
    /// Hears one chunk of the stream. True if it is the last.
    pub(super) fn hear(&mut self, chunk: &Value, slots: &mut Slots) -> Result<bool, String> {
        if let Some(error) = chunk.get("error") {
            let why = error["message"].as_str().unwrap_or("no reason given");
            return Err(format!("the model's API failed: {why}"));
        }
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            let at = self.parts.len() as u64;
            // A last part without a word in it does not say that the model went on.
            if part["text"] != "" {
                slots.settle();
            }
            if let Some((key, form)) = call_in(part) {
                let asked = &part[key];
                let arguments = match &asked["args"] {
                    Value::Null => String::new(),
                    Value::Object(arguments) if arguments.is_empty() => String::new(),
                    Value::String(text) => text.clone(),
                    arguments => arguments.to_string(),
                };
                slots.begin(at, asked["id"].as_str(), asked["name"].as_str(), &arguments);
                slots.without_id(at, asked["id"].is_null());
                slots.form(at, form);
                slots.end(at);
            }
            self.push(part);
        }
        if let Some(is_cut) = end_of(candidate) {
            match is_cut {
                true => slots.cut(),
                false => slots.end_all(),
            }
            self.has_ended = true;
        }
        Ok(self.has_ended)
    }

    /// Adds a part; a text goes on where the one before it ended.
    fn push(&mut self, part: &Value) {
        let plain = |part: &Value| part.as_object().is_some_and(|part| part.len() == 1);
        if let (Some(last), Some(more)) = (self.parts.last_mut(), part["text"].as_str())
            && plain(part)
            && plain(last)
            && let Some(Value::String(text)) = last.get_mut("text")
        {
            return text.push_str(more);
        }
        self.parts.push(part.clone());
    }

    /// The message, as the conversation keeps it.
    pub(super) fn message(mut self, calls: Vec<Written>) -> Value {
        let mut ids = Ids::default();
        for Written { at, call, .. } in calls {
            let part = usize::try_from(at).ok().and_then(|at| self.parts.get_mut(at));
            if let Some(part) = part
                && let Some((key, _)) = call_in(part)
            {
                mend(&mut part[key], &call, &mut ids);
            }
        }
        json!({"role": "model", "parts": self.parts})
    }
}
