//! Google's Gemini: `functionCall` parts, answered by `functionResponse` parts
//! of one message. Calls may have no ids: then their order tells.

use std::sync::Arc;

use serde_json::{Value, json};

use super::ModelCall;
use super::ids::Ids;
use super::slots::{Slots, Written};
use super::told::{Piece, pieces, text_of};
use crate::call::CallResult;
use crate::text::Lang;

/// The message and its calls. Of several candidates, the first counts.
pub(super) fn read(answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String> {
    let mut message = answer;
    if message.get("candidates").is_some() {
        message = message.pointer_mut("/candidates/0/content").map(Value::take).unwrap_or_default();
    }
    let Some(parts) = message.get_mut("parts").and_then(Value::as_array_mut) else {
        return Err("there is no list `parts`".to_owned());
    };
    let calls = parts.iter_mut().filter_map(|part| call(part, ids)).collect();
    if message["role"].is_null() {
        message["role"] = "model".into();
    }
    Ok((message, calls))
}

fn call(part: &mut Value, ids: &mut Ids) -> Option<ModelCall> {
    let asked = part.get_mut("functionCall")?;
    // A missing id is as it should be; one that is there twice is not.
    let id: Option<Arc<str>> = asked["id"].as_str().map(|id| ids.claim(Some(id)));
    if let Some(id) = &id {
        asked["id"] = json!(id);
    }
    Some(ModelCall::new(id, asked["name"].as_str(), asked["args"].clone()))
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
        let mut answer = json!({"name": call.name, "response": response});
        if let Some(id) = &call.id {
            answer["id"] = json!(id);
        }
        parts.push(json!({"functionResponse": answer}));
        shown.extend(pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Image(data) | Piece::Document(data) => {
                Some(json!({"inlineData": {"mimeType": data.mime_type, "data": data.base64}}))
            }
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
            if let Some(asked) = part.get("functionCall") {
                slots.begin(at, asked["id"].as_str(), asked["name"].as_str());
                slots.without_id(at, asked["id"].is_null());
                slots.replace(at, &asked["args"].to_string());
                slots.end(at);
            }
            self.push(part);
        }
        self.has_ended |= candidate["finishReason"].is_string();
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
        for Written { at, call } in calls {
            let part = usize::try_from(at).ok().and_then(|at| self.parts.get_mut(at));
            if let (Some(part), Some(id)) = (part, &call.id) {
                part["functionCall"]["id"] = json!(id);
            }
        }
        json!({"role": "model", "parts": self.parts})
    }
}
