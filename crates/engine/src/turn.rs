//! Turns: the message of a model goes in, the message that it is to read next
//! comes out.
//!
//! ```text
//! message ─ read ─► calls ─ batch ─► results ─ answer ─► next messages
//! stream  ─ sse ─► slots ──┘ each call begins as soon as it is complete
//! ```
//!
//! Each model API has one file, which knows where its calls are and what its
//! answers look like. Every call of a message gets exactly one answer, however
//! malformed it is: model APIs refuse a conversation in which one is missing.

mod anthropic;
mod chat;
mod gemini;
mod hosted;
mod ids;
mod lenient;
mod open;
mod partial;
mod pieces;
mod reason;
mod responses;
mod sanitize;
mod scan;
mod sse;
mod streamed_calls;

use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::call::context::Context;
use crate::call::{CallRequest, CallResult};
use crate::engine::{Batch, Engine};
use crate::error::{Error, ErrorKind};
use crate::value::text::Lang;
use ids::Ids;
pub use lenient::{lenient_json, replace_lone_surrogates};
pub use open::OpenTurn;
pub use reason::failure_reason;
pub use sse::{SseDecoder, SseEvent, SseFields, SseReader};
use streamed_calls::{StreamedCalls, WrittenCall};

/// Message format of a model API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnFormat {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions, and compatible APIs.
    OpenAi,
    /// OpenAI's Responses.
    Responses,
    /// Google's Gemini.
    Gemini,
}

impl TurnFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::OpenAi, Self::Responses, Self::Gemini];

    /// What is particular to it.
    fn own(self) -> &'static dyn MessageFormat {
        match self {
            Self::Anthropic => &anthropic::Anthropic,
            Self::OpenAi => &chat::ChatCompletions,
            Self::Responses => &responses::Responses,
            Self::Gemini => &gemini::Gemini,
        }
    }

    /// The name in requests and on the command line.
    pub fn name(self) -> &'static str {
        self.own().name()
    }

    /// Declares a tool as the API wants it.
    pub(crate) fn declare(self, name: &str, description: &str, schema: &Value) -> Value {
        self.own().declare(name, description, schema)
    }

    /// The format of a model, by its name: `claude-…` is Anthropic's.
    pub fn of_model(name: &str) -> Option<Self> {
        let is_own = |format: &Self| {
            format.own().model_prefixes().iter().any(|prefix| name.starts_with(prefix))
        };
        Self::ALL.into_iter().find(is_own)
    }

    /// Detects the format by the first event of a stream. Those of Anthropic are the
    /// least particular.
    fn of_event(event: &Value) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|format| format.own().begins_with(event))
    }

    /// Detects the format of a message.
    pub fn of(message: &Value) -> Option<Self> {
        let has = |key: &str| message.get(key).is_some();
        let items = message.as_array().map(Vec::as_slice).unwrap_or_default();
        match () {
            () if has("choices") || has("tool_calls") || has("function_call") => Some(Self::OpenAi),
            () if has("candidates") || has("parts") => Some(Self::Gemini),
            // The response to a prompt that was blocked.
            () if has("promptFeedback") || has("prompt_feedback") => Some(Self::Gemini),
            () if has("output") || message["object"] == "response" => Some(Self::Responses),
            () if items.iter().any(anthropic::is_block) => Some(Self::Anthropic),
            () if items.first().is_some_and(|item| item.get("type").is_some()) => {
                Some(Self::Responses)
            }
            () if message["content"].is_array() => Some(Self::Anthropic),
            () if message["content"].is_string() => Some(Self::OpenAi),
            // An OpenAI message without content.
            () if has("content") && message["role"] == "assistant" => Some(Self::OpenAi),
            () => None,
        }
    }
}

/// What is particular to the messages of one API; each has a file.
trait MessageFormat: Sync {
    fn name(&self) -> &'static str;

    /// How names of models begin that write it first of all.
    fn model_prefixes(&self) -> &'static [&'static str] {
        &[]
    }

    /// The message as the conversation is to store it, and its calls.
    fn read(&self, answer: Value, ids: &mut Ids) -> Result<(Value, Vec<ModelCall>), String>;

    /// The messages that answer calls.
    fn messages(&self, answers: &mut Answers<'_>, lang: Lang) -> Vec<Value>;

    /// Whether a stream of the API may begin with this event.
    fn begins_with(&self, event: &Value) -> bool;

    /// An empty message, to be streamed.
    fn stream(&self) -> Box<dyn MessageStream>;

    /// Whether a stream marks the end of each call.
    fn marks_ends(&self) -> bool {
        true
    }

    /// Declares a tool.
    fn declare(&self, name: &str, description: &str, schema: &Value) -> Value;
}

/// Calls with their results, in order.
type Answers<'a> = dyn Iterator<Item = (&'a ModelCall, &'a CallResult)> + 'a;

/// A message while it is streamed.
trait MessageStream: Send + Sync {
    /// Handles one event of the stream; returns whether it is the last.
    fn hear(&mut self, event: &Value, slots: &mut StreamedCalls) -> Result<bool, String>;

    /// The message so far as the conversation stores it.
    fn message(&self, calls: Vec<WrittenCall>) -> Value;
}

impl FromStr for TurnFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            format!("unknown format `{name}`; use {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// A call as a model wrote it, unchecked.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// The id that its answer refers to; `None` if the API has no ids.
    pub id: Option<Arc<str>>,
    /// The tool's name; empty if the model gave none.
    pub name: Arc<str>,
    /// An object, or the text that the model wrote as one.
    pub arguments: Value,
    form: AnswerForm,
    is_broken: bool,
    /// Further fields of the call that an answer has to repeat.
    repeated: Map<String, Value>,
}

/// Fields that an answer may have to repeat: on whose behalf the call was made
/// (such as a program that the model wrote), and the toolset of its tool.
const REPEATED: [&str; 2] = ["caller", "toolset_name"];

/// Form of the answer to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AnswerForm {
    /// The API's usual form.
    #[default]
    Usual,
    /// OpenAI's legacy `function_call`.
    Legacy,
    /// OpenAI's custom tools, which take text instead of arguments.
    Custom,
    /// With the snake_case keys of Google's Python SDK.
    Snake,
    /// OpenAI's `local_shell`, the first form of its shell.
    LocalShell,
    /// OpenAI's shell.
    Shell,
    /// OpenAI's `apply_patch`.
    Patch,
}

impl ModelCall {
    fn new(id: Option<Arc<str>>, name: Option<&str>, arguments: Value) -> Self {
        let name = name.unwrap_or_default().into();
        let repeated = Map::new();
        Self { id, name, arguments, form: AnswerForm::Usual, is_broken: false, repeated }
    }

    /// Keeps the fields that its answer may have to repeat.
    fn repeating(mut self, written: &Value) -> Self {
        let told = REPEATED.into_iter().filter_map(|key| Some((key, written.get(key)?)));
        let told = told.filter(|(_, value)| !value.is_null());
        self.repeated.extend(told.map(|(key, value)| (key.to_owned(), value.clone())));
        self
    }

    /// Copies a repeated field into an answer.
    fn repeat(&self, answer: &mut Value, key: &str) {
        if let Some(value) = self.repeated.get(key) {
            answer[key] = value.clone();
        }
    }

    fn form(self, form: AnswerForm) -> Self {
        Self { form, ..self }
    }

    /// Whether the message broke off before the call was complete. Such a call
    /// does not run; its answer says why.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn request(&self, context: &Arc<Context>) -> CallRequest {
        let request = CallRequest::new(Arc::clone(&self.name), self.arguments.clone())
            .context(Arc::clone(context));
        match &self.id {
            Some(id) => request.call_ref(Arc::clone(id)),
            None => request,
        }
    }
}

/// A model's message, parsed.
#[derive(Clone, Debug)]
pub struct Turn {
    format: TurnFormat,
    calls: Vec<ModelCall>,
    /// The message as the conversation is to store it.
    message: Value,
    is_mended: bool,
}

impl Turn {
    /// Parses a model's message, or the whole response of its API.
    pub fn read(message: Value) -> Result<Self, Error> {
        let format = TurnFormat::of(&message).ok_or_else(|| {
            let unknown = "this is no message of Anthropic, OpenAI or Gemini; name its format";
            unreadable(refusal(&message).unwrap_or_else(|| unknown.to_owned()))
        })?;
        Self::read_as(format, message)
    }

    /// Parses a model's message of a known format.
    pub fn read_as(format: TurnFormat, answer: Value) -> Result<Self, Error> {
        if let Some(why) = refusal(&answer) {
            return Err(unreadable(why));
        }
        let mut ids = Ids::default();
        let (message, calls) = format.own().read(answer, &mut ids).map_err(unreadable)?;
        Ok(Self { format, calls, message, is_mended: ids.mended })
    }

    /// The format of the message.
    pub fn format(&self) -> TurnFormat {
        self.format
    }

    /// The calls in the message, in order.
    pub fn calls(&self) -> &[ModelCall] {
        &self.calls
    }

    /// The message as the conversation is to store it.
    pub fn message(&self) -> &Value {
        &self.message
    }

    /// Whether the message had to be repaired: calls without an id, or with
    /// duplicate ids, got new ones.
    pub fn is_mended(&self) -> bool {
        self.is_mended
    }

    /// The calls as a batch in this context.
    pub fn batch(&self, context: impl Into<Arc<Context>>) -> Batch {
        let context = context.into();
        let mut batch = Batch::new(self.calls.iter().map(|call| call.request(&context)));
        let broken = self.calls.iter().enumerate().filter(|(_, call)| call.is_broken);
        batch.refused = broken.map(|(at, _)| (at, sanitize::broke_off())).collect();
        batch
    }

    /// Marks calls (by index, from 0) as incomplete, if that is known from
    /// elsewhere: [`ModelCall::is_broken`].
    #[must_use]
    pub fn broken_off(mut self, calls: &[usize]) -> Self {
        for at in calls {
            if let Some(call) = self.calls.get_mut(*at) {
                call.is_broken = true;
            }
        }
        self
    }

    /// Writes the messages that the model is to read next; `results` are in the
    /// order of the calls.
    pub fn answer(self, results: Vec<CallResult>, lang: Lang) -> TurnAnswer {
        let messages = messages(self.format, &self.calls, &results, lang);
        let assistant = self.is_mended.then_some(self.message);
        TurnAnswer { messages, assistant, results, is_whole: true }
    }
}

fn messages(
    format: TurnFormat,
    calls: &[ModelCall],
    results: &[CallResult],
    lang: Lang,
) -> Vec<Value> {
    if calls.is_empty() {
        return Vec::new();
    }
    format.own().messages(&mut calls.iter().zip(results), lang)
}

/// Why there is no message, where an API has answered with an error in its place.
fn refusal(answer: &Value) -> Option<String> {
    let has = |key: &&str| match &answer[*key] {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    let error = answer.get("error").filter(|error| !error.is_null())?;
    let message = ["choices", "content", "candidates", "parts", "output", "tool_calls"];
    (!message.iter().any(has)).then(|| reason::failure(error))
}

fn unreadable(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArguments, why)
}

/// The outcome of a turn.
#[derive(Clone, Debug)]
pub struct TurnAnswer {
    /// The messages that the model is to read next, in order: messages for the
    /// conversation, or input items for OpenAI's Responses. Empty if it called
    /// no tool.
    pub messages: Vec<Value>,
    /// The model's own message, if it had to be repaired: calls without an id
    /// or with duplicate ids got new ones, and what the API would refuse was
    /// fixed. The conversation must store this one instead. Always set for a
    /// streamed turn.
    pub assistant: Option<Value>,
    /// The results, one per call, in order.
    pub results: Vec<CallResult>,
    /// Whether the model's message was complete; only a stream can break off.
    pub is_whole: bool,
}

impl Engine {
    /// Runs the calls of a model's message as one batch, and writes the message
    /// that the model is to read next.
    pub async fn turn(
        &self,
        turn: Turn,
        context: impl Into<Arc<Context>>,
        lang: Lang,
    ) -> TurnAnswer {
        let results = self.call_batch(turn.batch(context)).await;
        turn.answer(results, lang)
    }
}
