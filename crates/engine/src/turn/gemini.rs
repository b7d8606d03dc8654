//! Google's Gemini: `functionCall` parts, answered by `functionResponse` parts
//! of one message. Calls without ids are matched by order.
//!
//! A call may be streamed in several parts (`willContinue`, `partialArgs`). It
//! is one call and one part of the message, and complete only once the API says
//! so.

mod schema;

use std::sync::Arc;

use serde_json::{Value, json};

use super::ids::Ids;
use super::partial::{PartialArguments, either};
use super::pieces::{Piece, pieces, text_of};
use super::reason::failure;
use super::streamed_calls::{StreamedCalls, WrittenCall};
use super::{AnswerForm, Answers, MessageFormat, MessageStream, ModelCall};
use crate::call::CallResult;
use crate::value::text::Lang;

/// Key of a call: in the API, and in Google's Python SDK.
const CALL: [(&str, AnswerForm); 2] =
    [("functionCall", AnswerForm::Usual), ("function_call", AnswerForm::Snake)];

pub(super) struct Gemini;

impl MessageFormat for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn model_prefixes(&self) -> &'static [&'static str] {
        &["gemini"]
    }

    fn read(&self, answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String> {
        read(answer, ids)
    }

    fn messages(&self, answers: &mut Answers<'_>, lang: Lang) -> Vec<Value> {
        messages(answers, lang)
    }

    fn begins_with(&self, event: &Value) -> bool {
        ["candidates", "promptFeedback", "prompt_feedback", "usageMetadata"]
            .iter()
            .any(|key| event.get(key).is_some())
    }

    fn stream(&self) -> Box<dyn MessageStream> {
        Box::new(GeminiStream::default())
    }

    fn declare(&self, name: &str, description: &str, schema: &Value) -> Value {
        let mut declared = json!({"name": name, "description": description});
        // Gemini refuses an object without properties.
        let converted = schema::convert(schema);
        if converted["properties"].as_object().is_some_and(|all| !all.is_empty()) {
            declared["parameters"] = converted;
        }
        declared
    }
}

/// The key of the call in a part, if it is one.
fn call_in(part: &Value) -> Option<(&'static str, AnswerForm)> {
    CALL.into_iter().find(|(key, _)| part[*key].is_object())
}

/// Whether the call in a part is partial.
fn is_piece(part: &Value) -> bool {
    let Some((key, _)) = call_in(part) else { return false };
    !pieces_of(&part[key]).is_empty() || goes_on(&part[key])
}

fn pieces_of(asked: &Value) -> &[Value] {
    either(asked, "partialArgs", "partial_args").as_array().map(Vec::as_slice).unwrap_or_default()
}

fn goes_on(asked: &Value) -> bool {
    either(asked, "willContinue", "will_continue") == true
}

/// Whether a call is empty: such an object ends a call, or is none.
fn is_empty_call(asked: &Value) -> bool {
    ["id", "name"].iter().all(|key| asked[*key].as_str().is_none_or(str::is_empty))
        && asked["args"].as_object().map_or(asked["args"].is_null(), serde_json::Map::is_empty)
        && pieces_of(asked).is_empty()
        && !goes_on(asked)
}

/// Removes empty calls, and parts that had nothing else.
fn drop_empty_calls(parts: &mut Vec<Value>, ids: &mut Ids) {
    // Null is how some SDKs write what is not there.
    let is_no_call =
        |asked: &Value| !asked.is_null() && (!asked.is_object() || is_empty_call(asked));
    parts.retain_mut(|part| {
        let Some(part) = part.as_object_mut() else { return true };
        if !CALL.iter().any(|(key, _)| part.contains_key(*key)) {
            return true;
        }
        for (key, _) in CALL {
            if part.get(key).is_some_and(is_no_call) {
                part.remove(key);
                ids.mended = true;
            }
        }
        let says_more = part.values().any(|value| !value.is_null());
        ids.mended |= !says_more;
        says_more
    });
}

/// `None` if a candidate has no finish reason; otherwise whether it was cut
/// off.
fn end_of(candidate: &Value) -> Option<bool> {
    let reason = candidate["finishReason"].as_str().or(candidate["finish_reason"].as_str());
    let reason = reason.filter(|reason| *reason != "FINISH_REASON_UNSPECIFIED")?;
    Some(reason != "STOP")
}

/// The message and its calls. Only the first candidate counts; one that was cut
/// early has no parts.
fn read(answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String> {
    let mut message = answer;
    let mut is_cut = false;
    // A blocked prompt has no candidate.
    let mut may_lack_parts = either(&message, "promptFeedback", "prompt_feedback").is_object();
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
    if parts.iter().any(is_piece) {
        ids.mended = true;
        return Ok(joined(parts, is_cut));
    }
    drop_empty_calls(parts, ids);
    let mut calls: Vec<ModelCall> = parts.iter_mut().filter_map(|part| call(part, ids)).collect();
    if is_cut && parts.last().is_some_and(|part| call_in(part).is_some()) {
        calls.last_mut().into_iter().for_each(ModelCall::break_off);
    }
    if message["role"].is_null() {
        message["role"] = "model".into();
    }
    Ok((message, calls))
}

/// Joins parts with partial calls, as in a stream.
fn joined(parts: &[Value], is_cut: bool) -> (Value, Vec<ModelCall>) {
    let mut assembly = GeminiStream::default();
    let mut slots = StreamedCalls::default();
    parts.iter().for_each(|part| assembly.part(part, &mut slots));
    assembly.give_up(&mut slots);
    match is_cut {
        true => slots.cut(),
        false => slots.end_all(),
    }
    let calls = slots.leave_all();
    (assembly.message(slots.written()), calls)
}

fn call(part: &mut Value, ids: &mut Ids) -> Option<ModelCall> {
    let (key, form) = call_in(part)?;
    let asked = &mut part[key];
    // Ids are optional, but duplicates are replaced.
    let id: Option<Arc<str>> = asked["id"].as_str().map(|id| ids.claim(Some(id)));
    let call = ModelCall::new(id, asked["name"].as_str(), asked["args"].clone()).form(form);
    sanitize(asked, &call, ids);
    Some(call)
}

/// Fixes what the API would refuse.
fn sanitize(asked: &mut Value, call: &ModelCall, ids: &mut Ids) {
    if call.id.is_some() {
        ids.put(&mut asked["id"], call.id.as_deref());
    }
    ids.put(&mut asked["name"], &*call.kept_name());
    if !asked["args"].is_null() {
        ids.put(&mut asked["args"], call.object());
    }
}

/// One message with all results; images follow the result that they belong to.
fn messages<'a>(
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
        let is_snake = call.form == AnswerForm::Snake;
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
    // All responses must be adjacent, or the API does not count them as one
    // turn.
    parts.extend(shown);
    vec![json!({"role": "user", "parts": parts})]
}

/// The parts of a stream so far.
#[derive(Clone, Debug, Default)]
struct GeminiStream {
    parts: Vec<Value>,
    /// Calls that continue in another part.
    growing: Vec<GrowingCall>,
    has_ended: bool,
}

/// A call that continues in another part.
#[derive(Clone, Debug)]
struct GrowingCall {
    at: usize,
    id: Option<String>,
    name: Option<String>,
    arguments: PartialArguments,
}

impl GrowingCall {
    /// Whether a part continues this call. Parts need not repeat id and name.
    fn goes_on_in(&self, asked: &Value, id: Option<&str>, name: Option<&str>) -> bool {
        if let (Some(own), Some(id)) = (self.id.as_deref(), id) {
            return own == id;
        }
        let begins = !asked["args"].is_null() || goes_on(asked);
        match (self.name.as_deref(), name) {
            (_, None) => true,
            (Some(own), Some(name)) if own != name => false,
            (_, Some(_)) => !(begins && pieces_of(asked).is_empty()),
        }
    }
}

impl MessageStream for GeminiStream {
    fn hear(&mut self, chunk: &Value, slots: &mut StreamedCalls) -> Result<bool, String> {
        if let Some(error) = chunk.get("error") {
            return Err(failure(error));
        }
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            // An empty last part does not mean that the model continued.
            if part["text"] != "" {
                slots.settle();
            }
            self.part(part, slots);
        }
        if let Some(is_cut) = end_of(candidate) {
            self.give_up(slots);
            match is_cut {
                true => slots.cut(),
                false => slots.end_all(),
            }
            self.has_ended = true;
        }
        // A blocked prompt has no candidate.
        let feedback = either(chunk, "promptFeedback", "prompt_feedback");
        self.has_ended |= either(feedback, "blockReason", "block_reason").is_string();
        Ok(self.has_ended)
    }

    fn message(&self, calls: Vec<WrittenCall>) -> Value {
        let mut own = self.clone();
        let mut ids = Ids::default();
        for WrittenCall { at, call, .. } in calls {
            let part = usize::try_from(at).ok().and_then(|at| own.parts.get_mut(at));
            if let Some(part) = part
                && let Some((key, _)) = call_in(part)
            {
                sanitize(&mut part[key], &call, &mut ids);
            }
        }
        json!({"role": "model", "parts": own.parts})
    }
}

impl GeminiStream {
    fn part(&mut self, part: &Value, slots: &mut StreamedCalls) {
        let Some((key, form)) = call_in(part) else { return self.push(part) };
        let asked = &part[key];
        let text = |key: &str| asked[key].as_str().filter(|text| !text.is_empty());
        let (id, name) = (text("id"), text("name"));
        let own = self.growing.iter().rposition(|call| call.goes_on_in(asked, id, name));
        let place = match own {
            Some(own) => own,
            None if is_empty_call(asked) => return,
            None => {
                let (at, id) = (self.parts.len(), id.map(str::to_owned));
                slots.begin(at as u64, id.as_deref(), name, "");
                slots.without_id(at as u64, asked["id"].is_null());
                slots.form(at as u64, form);
                self.parts.push(without_pieces(part.clone(), key));
                if !is_piece(part) {
                    slots.replace(at as u64, &written(&asked["args"]));
                    return slots.end(at as u64);
                }
                let arguments = PartialArguments::new(&asked["args"]);
                let name = name.map(str::to_owned);
                self.growing.push(GrowingCall { at, id, name, arguments });
                self.growing.len() - 1
            }
        };
        let call = &mut self.growing[place];
        if own.is_some() {
            if asked["args"].as_object().is_some_and(|whole| !whole.is_empty()) {
                call.arguments = PartialArguments::new(&asked["args"]);
            }
            call.id = call.id.take().or_else(|| id.map(str::to_owned));
            call.name = call.name.take().or_else(|| name.map(str::to_owned));
            slots.begin(call.at as u64, call.id.as_deref(), call.name.as_deref(), "");
            slots.without_id(call.at as u64, call.id.is_none());
            add_missing(&mut self.parts[call.at], part, key);
        }
        pieces_of(asked).iter().for_each(|piece| call.arguments.add(piece));
        let is_open = call.arguments.is_open() && !pieces_of(asked).is_empty();
        if !goes_on(asked) && !is_open {
            let call = self.growing.remove(place);
            match call.arguments.whole() {
                Some(arguments) => {
                    self.parts[call.at][key]["args"] = arguments.clone();
                    slots.replace(call.at as u64, &written(arguments));
                    slots.end(call.at as u64);
                }
                None => slots.end_broken(call.at as u64),
            }
        }
    }

    /// The stream is over: calls that were to continue are incomplete.
    fn give_up(&mut self, slots: &mut StreamedCalls) {
        self.growing.drain(..).for_each(|call| slots.end_broken(call.at as u64));
    }

    /// Appends a part; text continues the previous part.
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
}

/// Arguments as text; absent ones look like empty ones.
fn written(arguments: &Value) -> String {
    match arguments {
        Value::Null => String::new(),
        Value::Object(arguments) if arguments.is_empty() => String::new(),
        Value::String(text) => text.clone(),
        arguments => arguments.to_string(),
    }
}

/// Removes fields that the API writes but refuses to read.
fn without_pieces(mut part: Value, key: &str) -> Value {
    if let Some(asked) = part[key].as_object_mut() {
        asked.retain(|key, _| {
            !["partialArgs", "partial_args", "willContinue", "will_continue"]
                .contains(&key.as_str())
        });
    }
    part
}

/// Adds further fields of a later part of a call, such as a signature.
fn add_missing(part: &mut Value, later: &Value, key: &str) {
    let (Some(part), Some(later)) = (part.as_object_mut(), later.as_object()) else { return };
    for (name, value) in later.iter().filter(|(name, value)| *name != key && !value.is_null()) {
        let own = part.entry(name.as_str()).or_insert(Value::Null);
        if own.is_null() {
            *own = value.clone();
        }
    }
}
