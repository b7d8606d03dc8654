//! Streamed turns: calls start while the model is still writing.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::reason::failure;
use super::sanitize::broke_off;
use super::sse::{SseDecoder, SseEvent};
use super::streamed_calls::{StreamedCalls, WrittenCall};
use super::{MessageStream, ModelCall, Turn, TurnAnswer, TurnFormat, messages, unreadable};
use crate::agent::nested::Tools;
use crate::call::context::Context;
use crate::call::{CallRequest, CallResult};
use crate::engine::{Engine, GrowingBatch};
use crate::error::Error;
use crate::value::name::BatchId;
use crate::value::text::Lang;

/// A model's response while it is streamed. Feed it the bytes of the API's
/// server-sent events as they arrive: each call starts as soon as it is
/// complete and the plan of the batch allows it.
///
/// Dropping it abandons the calls, as dropping a batch does.
pub struct OpenTurn {
    id: BatchId,
    context: Arc<Context>,
    lang: Lang,
    decoder: SseDecoder,
    /// `None` until the first event reveals the format.
    assembly: Option<Assembly>,
    slots: StreamedCalls,
    calls: Vec<ModelCall>,
    /// The tool that the turn belongs to, if it runs inside one.
    within: Option<Tools>,
    prepare: Option<Prepare>,
    /// Complete calls that are held back; `None` if calls start at once.
    held: Option<Vec<ModelCall>>,
    /// Whether any data of the message has arrived.
    has_begun: bool,
    /// Whether an event of the message has arrived.
    has_heard: bool,
    /// Whether the API marked the end of the message.
    is_whole: bool,
    next: mpsc::UnboundedSender<NextCall>,
    batch: AbortOnDropHandle<Vec<CallResult>>,
}

/// Inspects a call before it runs: may change the request, or refuse it.
type Prepare = Box<dyn FnMut(&ModelCall, CallRequest) -> Result<CallRequest, Error> + Send>;

/// A call for the batch.
enum NextCall {
    Run(CallRequest),
    Refuse(CallRequest, Error),
}

impl Engine {
    /// Starts a streamed turn. Without a format, the first event determines it.
    /// Must be called inside a Tokio runtime.
    pub fn open_turn(
        &self,
        format: Option<TurnFormat>,
        context: impl Into<Arc<Context>>,
        lang: Lang,
    ) -> OpenTurn {
        let id = BatchId::at(Timestamp::now());
        let (next, calls) = mpsc::unbounded_channel();
        let batch = tokio::spawn(run(self.clone(), id, calls));
        let assembly = format.map(Assembly::new);
        OpenTurn {
            id,
            context: context.into(),
            lang,
            decoder: SseDecoder::default(),
            slots: assembly.as_ref().map(Assembly::slots).unwrap_or_default(),
            assembly,
            calls: Vec::new(),
            within: None,
            prepare: None,
            held: None,
            has_begun: false,
            has_heard: false,
            is_whole: false,
            next,
            batch: AbortOnDropHandle::new(batch),
        }
    }
}

/// Runs calls as they arrive, until no more can.
async fn run(
    engine: Engine,
    id: BatchId,
    mut calls: mpsc::UnboundedReceiver<NextCall>,
) -> Vec<CallResult> {
    let mut batch = GrowingBatch::new(&engine, id, true);
    loop {
        tokio::select! {
            // Calls that have arrived are planned before another one starts.
            biased;
            next = calls.recv() => match next {
                Some(NextCall::Run(request)) => batch.add(request),
                Some(NextCall::Refuse(request, why)) => batch.refuse(request, why),
                None => break,
            },
            _ = batch.step(), if batch.is_busy() => {}
        }
    }
    while batch.step().await {}
    batch.finish()
}

impl OpenTurn {
    /// The id of the batch of its calls, for following and cancelling them.
    pub fn batch_id(&self) -> BatchId {
        self.id
    }

    /// The calls taken so far.
    pub fn calls(&self) -> &[ModelCall] {
        &self.calls
    }

    /// Registers a function that inspects each call before it runs, in message
    /// order: it may change the request, or refuse it with an error.
    #[must_use]
    pub fn prepare(
        mut self,
        prepare: impl FnMut(&ModelCall, CallRequest) -> Result<CallRequest, Error> + Send + 'static,
    ) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Holds calls back until [`OpenTurn::release`], for callers that have to
    /// store what the model asked for before it happens.
    #[must_use]
    pub fn hold(mut self) -> Self {
        self.held = Some(Vec::new());
        self
    }

    pub(crate) fn within(mut self, tools: Tools) -> Self {
        self.within = Some(tools);
        self
    }

    /// The complete calls that are held back.
    pub fn held(&self) -> impl Iterator<Item = &ModelCall> {
        self.held.iter().flatten()
    }

    /// Starts the calls that are complete by now.
    pub fn release(&mut self) {
        let held = self.held.as_mut().map(std::mem::take).unwrap_or_default();
        self.start(held);
    }

    /// The model's message so far, without incomplete calls.
    pub fn message(&self) -> Option<Value> {
        Some(self.assembly.as_ref()?.message(self.slots.written()))
    }

    /// Whether the API marked the end of the message.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether any part of the message has arrived. Bytes without an event do
    /// not count.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Takes a complete message instead of a stream.
    pub fn read(&mut self, turn: Turn) {
        self.has_begun = true;
        self.assembly = Some(Assembly::Whole(turn.format, turn.message));
        self.is_whole = true;
        self.leave(turn.calls);
    }

    /// Feeds bytes of the stream. An error means that the stream cannot be read
    /// further; what came before counts, running calls continue, and
    /// [`OpenTurn::finish`] answers all.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let told = self.decoder.feed(bytes);
        self.hear(told)
    }

    /// Feeds one parsed event of the stream.
    pub fn feed_event(&mut self, event: Value) -> Result<(), Error> {
        self.hear(vec![SseEvent::Json(event)])
    }

    fn hear(&mut self, told: Vec<SseEvent>) -> Result<(), Error> {
        let mut heard = Ok(());
        self.has_begun |= !told.is_empty();
        for told in told {
            heard = match told {
                SseEvent::Json(event) => self.event(&event),
                SseEvent::Done => {
                    self.slots.end_all();
                    // An end marker alone is not a message.
                    self.is_whole = self.has_heard;
                    Ok(())
                }
                SseEvent::Broken(why) => Err(unreadable(why)),
            };
            if heard.is_err() {
                break;
            }
        }
        let leaving = self.slots.leave();
        self.leave(leaving);
        heard
    }

    /// Starts complete calls, unless calls are held back.
    fn leave(&mut self, leaving: Vec<ModelCall>) {
        match &mut self.held {
            Some(held) => held.extend(leaving),
            None => self.start(leaving),
        }
    }

    fn event(&mut self, event: &Value) -> Result<(), Error> {
        let assembly = match &mut self.assembly {
            Some(assembly) => assembly,
            none => {
                let Some(format) = TurnFormat::of_event(event) else {
                    if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
                        return Err(unreadable(failure(error)));
                    }
                    return Err(unreadable("this is no stream of Anthropic, OpenAI or Gemini"));
                };
                let assembly = none.insert(Assembly::new(format));
                self.slots = assembly.slots();
                assembly
            }
        };
        self.has_heard = true;
        self.is_whole |= assembly.hear(event, &mut self.slots).map_err(unreadable)?;
        match self.slots.is_full {
            true => Err(unreadable("the message has too many calls")),
            false => Ok(()),
        }
    }

    fn start(&mut self, leaving: Vec<ModelCall>) {
        for call in leaving {
            let request = call.request(&self.context);
            let prepared = match &mut self.prepare {
                _ if call.is_broken => Err(broke_off()),
                Some(prepare) => prepare(&call, request.clone()),
                None => Ok(request.clone()),
            };
            let nested = |request| match &self.within {
                Some(tools) => tools.nested(request),
                None => request,
            };
            let next = match prepared {
                Ok(request) => NextCall::Run(nested(request)),
                Err(error) => NextCall::Refuse(nested(request), error),
            };
            self.calls.push(call);
            // Cannot fail: the batch ends only after this side has.
            let _ = self.next.send(next);
        }
    }

    /// Ends the stream: incomplete calls stay incomplete.
    pub fn end(&mut self) {
        let rest = self.decoder.end();
        // Calls are answered even if the rest is unreadable.
        let is_readable = self.hear(rest).is_ok();
        self.is_whole &= is_readable;
        let leaving = self.slots.leave_all();
        self.leave(leaving);
    }

    /// Ends the stream and waits for the calls; an incomplete one gets an error
    /// as its result.
    pub async fn finish(mut self) -> TurnAnswer {
        self.end();
        self.release();
        drop(self.next);
        let results = self.batch.await.unwrap_or_default();
        let format = self.assembly.as_ref().map(Assembly::format);
        let assistant = self.assembly.map(|assembly| assembly.message(self.slots.written()));
        TurnAnswer {
            messages: format
                .map(|format| messages(format, &self.calls, &results, self.lang))
                .unwrap_or_default(),
            assistant,
            results,
            is_whole: self.is_whole,
        }
    }
}

/// The message of a stream.
enum Assembly {
    Streamed(TurnFormat, Box<dyn MessageStream>),
    /// A complete message.
    Whole(TurnFormat, Value),
}

impl Assembly {
    fn new(format: TurnFormat) -> Self {
        Self::Streamed(format, format.own().stream())
    }

    fn format(&self) -> TurnFormat {
        match self {
            Self::Streamed(format, _) | Self::Whole(format, _) => *format,
        }
    }

    /// Collector for its calls.
    fn slots(&self) -> StreamedCalls {
        match self.format().own().marks_ends() {
            true => StreamedCalls::default(),
            false => StreamedCalls::eager(),
        }
    }

    fn hear(&mut self, event: &Value, slots: &mut StreamedCalls) -> Result<bool, String> {
        match self {
            Self::Streamed(_, stream) => stream.hear(event, slots),
            Self::Whole(..) => Err("the message is whole already".to_owned()),
        }
    }

    fn message(&self, calls: Vec<WrittenCall>) -> Value {
        match self {
            Self::Streamed(_, stream) => stream.message(calls),
            Self::Whole(_, message) => message.clone(),
        }
    }
}
