//! OpenAI's Responses: `function_call` output items, each answered by an input
//! item; also calls of the API's own tools that the caller runs: shell and
//! patches. They are named `local_shell`, `shell` and `apply_patch` here;
//! without such a tool the model is told so.

use serde_json::{Value, json};

use super::hosted::HostedCalls;
use super::ids::Ids;
use super::pieces::{Piece, data_url, pieces, text_of};
use super::reason::failure;
use super::streamed_calls::{StreamedCalls, WrittenCall};
use super::{AnswerForm, Answers, MessageFormat, MessageStream, ModelCall};
use crate::call::CallResult;
use crate::tool::object_schema as object;
use crate::value::text::Lang;

pub(super) struct Responses;

impl MessageFormat for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn read(&self, answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String> {
        read(answer, ids)
    }

    fn messages(&self, answers: &mut Answers<'_>, lang: Lang) -> Vec<Value> {
        messages(answers, lang)
    }

    fn begins_with(&self, event: &Value) -> bool {
        event["type"].as_str().is_some_and(|kind| kind.starts_with("response."))
    }

    fn stream(&self) -> Box<dyn MessageStream> {
        Box::new(ResponsesStream::default())
    }

    fn declare(&self, name: &str, description: &str, schema: &Value) -> Value {
        // Strict schemas require every parameter, so that optional ones would not be.
        json!({
            "type": "function", "name": name, "description": description,
            "parameters": object(schema), "strict": false,
        })
    }
}

/// The output items and the calls among them.
fn read(answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String> {
    let is_cut = answer["status"] == "incomplete";
    let mut hosted = HostedCalls::default();
    hosted.hear(&answer);
    let mut items = match answer {
        Value::Array(items) => items,
        mut answer => match answer.get_mut("output").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => return Err("there is no list `output`".to_owned()),
        },
    };
    items.iter().for_each(|item| hosted.hear_item(item));
    let own = items.iter_mut().filter(|item| !hosted.runs(item));
    let mut calls: Vec<ModelCall> = own.filter_map(|item| call(item, ids)).collect();
    if is_cut && items.last().is_some_and(|item| form_of(item).is_some() && !hosted.runs(item)) {
        calls.last_mut().into_iter().for_each(ModelCall::break_off);
    }
    Ok((Value::Array(items), calls))
}

/// The form of the call in an item. Tools that the API has run itself are in
/// other items.
fn form_of(item: &Value) -> Option<AnswerForm> {
    match item["type"].as_str()? {
        "function_call" => Some(AnswerForm::Usual),
        "custom_tool_call" => Some(AnswerForm::Custom),
        "local_shell_call" => Some(AnswerForm::LocalShell),
        "shell_call" => Some(AnswerForm::Shell),
        "apply_patch_call" => Some(AnswerForm::Patch),
        _ => None,
    }
}

/// The tool that an item calls.
fn name_of(form: AnswerForm, item: &Value) -> Option<&str> {
    match form {
        AnswerForm::LocalShell => Some("local_shell"),
        AnswerForm::Shell => Some("shell"),
        AnswerForm::Patch => Some("apply_patch"),
        _ => item["name"].as_str(),
    }
}

/// The key of the arguments in an item.
fn arguments_key(form: AnswerForm) -> &'static str {
    match form {
        AnswerForm::Custom => "input",
        AnswerForm::LocalShell | AnswerForm::Shell => "action",
        AnswerForm::Patch => "operation",
        _ => "arguments",
    }
}

fn call(item: &mut Value, ids: &mut Ids) -> Option<ModelCall> {
    let form = form_of(item)?;
    let id = ids.claim(item["call_id"].as_str());
    let arguments = match form {
        AnswerForm::Custom => json!({"input": item["input"]}),
        form => item[arguments_key(form)].clone(),
    };
    let call = ModelCall::new(Some(id), name_of(form, item), arguments);
    let mut call = call.form(form).repeating(item);
    call.is_broken = item["status"] == "incomplete";
    sanitize(item, &call, ids);
    Some(call)
}

/// Fixes what the API would refuse.
fn sanitize(item: &mut Value, call: &ModelCall, ids: &mut Ids) {
    ids.put(&mut item["call_id"], call.id.as_deref());
    if matches!(call.form, AnswerForm::LocalShell | AnswerForm::Shell | AnswerForm::Patch) {
        return;
    }
    ids.put(&mut item["name"], &*call.kept_name());
    match call.form {
        AnswerForm::Custom if item["input"].is_string() => {}
        AnswerForm::Custom => ids.put(&mut item["input"], ""),
        _ => ids.put(&mut item["arguments"], call.text()),
    }
}

/// One item per result.
fn messages<'a>(
    answers: impl Iterator<Item = (&'a ModelCall, &'a CallResult)>,
    lang: Lang,
) -> Vec<Value> {
    answers
        .map(|(call, result)| {
            let pieces = pieces(result, lang);
            let mut answer = match call.form {
                AnswerForm::LocalShell => {
                    json!({"type": "local_shell_call_output", "output": text_of(&pieces)})
                }
                AnswerForm::Shell => {
                    json!({"type": "shell_call_output", "output": [shown(result, &pieces)]})
                }
                AnswerForm::Patch => {
                    let status = if result.is_success() { "completed" } else { "failed" };
                    json!({"type": "apply_patch_call_output", "status": status,
                           "output": text_of(&pieces)})
                }
                AnswerForm::Custom => {
                    json!({"type": "custom_tool_call_output", "output": told(&pieces)})
                }
                _ => json!({"type": "function_call_output", "output": told(&pieces)}),
            };
            answer["call_id"] = json!(call.id);
            // `local_shell` cannot be called by programs.
            if call.form != AnswerForm::LocalShell {
                call.repeat(&mut answer, "caller");
            }
            answer
        })
        .collect()
}

/// A result as text, or as a list if it has other parts.
fn told(pieces: &[Piece<'_>]) -> Value {
    match pieces {
        [Piece::Text(text)] => json!(text),
        pieces => pieces.iter().map(part).collect(),
    }
}

/// A result as shell output.
fn shown(result: &CallResult, pieces: &[Piece<'_>]) -> Value {
    let text = text_of(pieces);
    match result.is_success() {
        true => json!({"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}),
        false => json!({"stdout": "", "stderr": text, "outcome": {"type": "exit", "exit_code": 1}}),
    }
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

/// The completed items of a stream.
#[derive(Clone, Debug, Default)]
struct ResponsesStream {
    /// Completed items other than calls, with their index.
    items: Vec<(u64, Value)>,
    hosted: HostedCalls,
}

impl MessageStream for ResponsesStream {
    fn hear(&mut self, event: &Value, slots: &mut StreamedCalls) -> Result<bool, String> {
        let at = event["output_index"].as_u64().unwrap_or_default();
        let item = &event["item"];
        self.hosted.hear(&event["response"]);
        let form = form_of(item).filter(|_| !self.hosted.runs(item));
        match event["type"].as_str().unwrap_or_default() {
            "response.output_item.added" => match form {
                Some(form) => {
                    let written = item[arguments_key(form)].as_str().unwrap_or_default();
                    let (id, name) = (item["call_id"].as_str(), name_of(form, item));
                    match form {
                        AnswerForm::Custom => slots.begin_custom(at, id, name, written),
                        _ => slots.begin(at, id, name, written),
                    }
                    slots.form(at, form);
                    // An incomplete item is kept as it started.
                    if name_of(form, &Value::Null).is_some() {
                        slots.more(at).into_iter().for_each(|more| *more = item.clone());
                    }
                }
                None => slots.settle(),
            },
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                slots.write(at, event["delta"].as_str().unwrap_or_default());
            }
            "response.output_item.done" => {
                if let Some(form) = form {
                    slots.begin(at, item["call_id"].as_str(), name_of(form, item), "");
                    slots.form(at, form);
                    let written = match &item[arguments_key(form)] {
                        Value::String(text) => text.clone(),
                        Value::Null => String::new(),
                        whole => whole.to_string(),
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
                let told = [&event["response"]["error"], &event["error"]];
                let error = told.into_iter().find(|error| !error.is_null()).unwrap_or(event);
                return Err(failure(error));
            }
            _ => {}
        }
        Ok(false)
    }

    fn message(&self, calls: Vec<WrittenCall>) -> Value {
        let mut own = self.clone();
        let mut ids = Ids::default();
        own.items.extend(calls.into_iter().map(|WrittenCall { at, call, more }| {
            let mut item = match call.form {
                _ if more.is_object() => more,
                AnswerForm::Custom => {
                    json!({"type": "custom_tool_call", "input": call.arguments["input"]})
                }
                _ => json!({"type": "function_call"}),
            };
            sanitize(&mut item, &call, &mut ids);
            (at, item)
        }));
        own.items.sort_by_key(|(at, _)| *at);
        Value::Array(own.items.into_iter().map(|(_, item)| item).collect())
    }
}
