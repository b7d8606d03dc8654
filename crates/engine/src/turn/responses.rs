//! OpenAI's Responses: `function_call` items of the output, each answered by
//! an item of the next input.

use serde_json::{Value, json};

use super::ids::Ids;
use super::slots::{Slots, Written};
use super::told::{Piece, data_url, pieces};
use super::{Form, ModelCall};
use crate::call::CallResult;
use crate::text::Lang;

/// The items of the output and the calls among them.
pub(super) fn read(answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String> {
    let is_cut = answer["status"] == "incomplete";
    let mut items = match answer {
        Value::Array(items) => items,
        mut answer => match answer.get_mut("output").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => return Err("there is no list `output`".to_owned()),
        },
    };
    let mut calls: Vec<ModelCall> = items.iter_mut().filter_map(|item| call(item, ids)).collect();
    if is_cut && items.last().is_some_and(|item| form_of(item).is_some()) {
        calls.last_mut().into_iter().for_each(ModelCall::break_off);
    }
    Ok((Value::Array(items), calls))
}

/// The form of the call that an item is. Tools that the API has run itself are
/// other items.
fn form_of(item: &Value) -> Option<Form> {
    match item["type"].as_str()? {
        "function_call" => Some(Form::Usual),
        "custom_tool_call" => Some(Form::Custom),
        _ => None,
    }
}

fn call(item: &mut Value, ids: &mut Ids) -> Option<ModelCall> {
    let form = form_of(item)?;
    let id = ids.claim(item["call_id"].as_str());
    let name = item["name"].as_str();
    let mut call = match form {
        Form::Custom => ModelCall::new(Some(id), name, json!({"input": item["input"]})),
        _ => ModelCall::new(Some(id), name, item["arguments"].clone()),
    }
    .form(form);
    call.is_broken = item["status"] == "incomplete";
    mend(item, &call, ids);
    Some(call)
}

/// Puts right what the API would refuse.
fn mend(item: &mut Value, call: &ModelCall, ids: &mut Ids) {
    ids.put(&mut item["call_id"], call.id.as_deref());
    ids.put(&mut item["name"], &*call.kept_name());
    match call.form {
        Form::Custom if item["input"].is_string() => {}
        Form::Custom => ids.put(&mut item["input"], ""),
        _ => ids.put(&mut item["arguments"], call.text()),
    }
}

/// An item for each result.
pub(super) fn messages<'a>(
    answers: impl Iterator<Item = (&'a ModelCall, &'a CallResult)>,
    lang: Lang,
) -> Vec<Value> {
    answers
        .map(|(call, result)| {
            let kind = match call.form {
                Form::Custom => "custom_tool_call_output",
                _ => "function_call_output",
            };
            let output = match pieces(result, lang).as_slice() {
                [Piece::Text(text)] => json!(text),
                pieces => pieces.iter().map(part).collect(),
            };
            json!({"type": kind, "call_id": call.id, "output": output})
        })
        .collect()
}

fn part(piece: &Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "input_text", "text": text}),
        Piece::Image(data) => {
            json!({"type": "input_image", "detail": "auto", "image_url": data_url(data)})
        }
        Piece::Document(data) => json!({
            "type": "input_file", "filename": "document.pdf", "file_data": data_url(data),
        }),
    }
}

/// The items of a stream, as they are done.
#[derive(Clone, Debug, Default)]
pub(super) struct Assembly {
    /// Items that are done and no calls, and the place of each.
    items: Vec<(u64, Value)>,
}

impl Assembly {
    /// Hears one event of the stream. True if it is the last.
    pub(super) fn hear(&mut self, event: &Value, slots: &mut Slots) -> Result<bool, String> {
        let at = event["output_index"].as_u64().unwrap_or_default();
        let item = &event["item"];
        let form = form_of(item);
        match event["type"].as_str().unwrap_or_default() {
            "response.output_item.added" => match form {
                Some(form) => {
                    let written = item["arguments"].as_str().or(item["input"].as_str());
                    let (id, name) = (item["call_id"].as_str(), item["name"].as_str());
                    slots.begin(at, id, name, written.unwrap_or_default());
                    slots.form(at, form);
                }
                None => slots.settle(),
            },
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                slots.write(at, event["delta"].as_str().unwrap_or_default());
            }
            "response.output_item.done" => {
                if let Some(form) = form {
                    slots.begin(at, item["call_id"].as_str(), item["name"].as_str(), "");
                    slots.form(at, form);
                    let written = match form {
                        Form::Custom => json!({"input": item["input"]}).to_string(),
                        _ => item["arguments"].as_str().unwrap_or_default().to_owned(),
                    };
                    slots.replace(at, &written);
                    match item["status"] == "incomplete" {
                        true => slots.end_broken(at),
                        false => slots.end(at),
                    }
                    slots.more(at).into_iter().for_each(|more| *more = item.clone());
                } else if item.is_object() {
                    self.items.push((at, item.clone()));
                }
            }
            "response.completed" => {
                slots.end_all();
                return Ok(true);
            }
            "response.incomplete" => {
                slots.cut();
                return Ok(true);
            }
            "response.failed" | "error" => {
                let told = [&event["response"]["error"]["message"], &event["message"]];
                let why = told.iter().find_map(|told| told.as_str()).unwrap_or("no reason given");
                return Err(format!("the model's API failed: {why}"));
            }
            _ => {}
        }
        Ok(false)
    }

    /// The items, as the conversation keeps them. A call that broke off is an
    /// item, too: it has an answer.
    pub(super) fn message(mut self, calls: Vec<Written>) -> Value {
        let mut ids = Ids::default();
        self.items.extend(calls.into_iter().map(|Written { at, call, more }| {
            let mut item = match call.form {
                _ if more.is_object() => more,
                Form::Custom => json!({"type": "custom_tool_call", "input": call.arguments}),
                _ => json!({"type": "function_call"}),
            };
            mend(&mut item, &call, &mut ids);
            (at, item)
        }));
        self.items.sort_by_key(|(at, _)| *at);
        Value::Array(self.items.into_iter().map(|(_, item)| item).collect())
    }
}
