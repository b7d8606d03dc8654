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
    let mut items = match answer {
        Value::Array(items) => items,
        mut answer => match answer.get_mut("output").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => return Err("there is no list `output`".to_owned()),
        },
    };
    let calls = items.iter_mut().filter_map(|item| call(item, ids)).collect();
    Ok((Value::Array(items), calls))
}

/// The call that an item is. Tools that the API has run itself are other items.
fn call(item: &mut Value, ids: &mut Ids) -> Option<ModelCall> {
    let kind = item["type"].as_str()?;
    let is_custom = match kind {
        "function_call" => false,
        "custom_tool_call" => true,
        _ => return None,
    };
    let id = ids.claim(item["call_id"].as_str());
    item["call_id"] = json!(id);
    let name = item["name"].as_str();
    Some(match is_custom {
        false => ModelCall::new(Some(id), name, item["arguments"].clone()),
        true => ModelCall::new(Some(id), name, json!({"input": item["input"]})).special(),
    })
}

/// An item for each result.
pub(super) fn messages<'a>(
    answers: impl Iterator<Item = (&'a ModelCall, &'a CallResult)>,
    lang: Lang,
) -> Vec<Value> {
    answers
        .map(|(call, result)| {
            let kind = match call.form {
                Form::Usual => "function_call_output",
                Form::Special => "custom_tool_call_output",
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
    /// Items that are done, and the place of each.
    items: Vec<(u64, Value)>,
}

impl Assembly {
    /// Hears one event of the stream. True if it is the last.
    pub(super) fn hear(&mut self, event: &Value, slots: &mut Slots) -> Result<bool, String> {
        let at = event["output_index"].as_u64().unwrap_or_default();
        let item = &event["item"];
        let is_call = item["type"] == "function_call";
        match event["type"].as_str().unwrap_or_default() {
            "response.output_item.added" if is_call => {
                slots.begin(at, item["call_id"].as_str(), item["name"].as_str());
                slots.write(at, item["arguments"].as_str().unwrap_or_default());
            }
            "response.function_call_arguments.delta" => {
                slots.write(at, event["delta"].as_str().unwrap_or_default());
            }
            "response.output_item.done" => {
                if is_call {
                    slots.begin(at, item["call_id"].as_str(), item["name"].as_str());
                    slots.replace(at, item["arguments"].as_str().unwrap_or_default());
                    slots.end(at);
                } else if item["type"] == "custom_tool_call" {
                    let input = json!({"input": item["input"]});
                    slots.begin(at, item["call_id"].as_str(), item["name"].as_str());
                    slots.special(at);
                    slots.replace(at, &input.to_string());
                    slots.end(at);
                }
                if item.is_object() {
                    self.items.push((at, item.clone()));
                }
            }
            "response.completed" | "response.incomplete" => return Ok(true),
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
        for Written { at, call } in calls {
            match self.items.iter_mut().find(|(own, _)| *own == at) {
                Some((_, item)) => item["call_id"] = json!(call.id),
                None => {
                    let arguments = call.text();
                    let item = json!({
                        "type": "function_call", "call_id": call.id, "name": call.name,
                        "arguments": arguments,
                    });
                    self.items.push((at, item));
                }
            }
        }
        self.items.sort_by_key(|(at, _)| *at);
        Value::Array(self.items.into_iter().map(|(_, item)| item).collect())
    }
}
