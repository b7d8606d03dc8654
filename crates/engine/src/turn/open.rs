//! A turn that is still being written: its calls begin while the model goes on.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::slots::{Leaving, Slots};
use super::sse::{Decoder, Told};
use super::{
    ModelCall, TurnAnswer, TurnFormat, anthropic, chat, gemini, messages, responses, unreadable,
};
use crate::call::{CallRequest, CallResult};
use crate::context::Context;
use crate::engine::{Engine, GrowingBatch};
use crate::error::{Error, ErrorKind};
use crate::name::BatchId;
use crate::text::Lang;

/// A model's answer while it streams in. Feed it the bytes of the API's
/// server-sent events as they come: each call begins as soon as it is complete
/// and the plan of the batch allows it.
///
/// Dropping it gives the calls up, as dropping a batch does.
pub struct OpenTurn {
    id: BatchId,
    context: Arc<Context>,
    lang: Lang,
    decoder: Decoder,
    /// None until the first event tells the format.
    assembly: Option<Assembly>,
    slots: Slots,
    calls: Vec<ModelCall>,
    /// Whether the API said that this is the end.
    is_whole: bool,
    next: mpsc::UnboundedSender<Next>,
    batch: AbortOnDropHandle<Vec<CallResult>>,
}

/// A call for the batch.
enum Next {
    Run(CallRequest),
    Refuse(CallRequest, Error),
}

impl Engine {
    /// Begins a turn whose message is still being written. Without a format,
    /// the first event tells it. Must be called inside a Tokio runtime.
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
            decoder: Decoder::default(),
            slots: assembly.as_ref().map(Assembly::slots).unwrap_or_default(),
            assembly,
            calls: Vec::new(),
            is_whole: false,
            next,
            batch: AbortOnDropHandle::new(batch),
        }
    }
}

/// Runs calls as they come, until no more can.
async fn run(
    engine: Engine,
    id: BatchId,
    mut calls: mpsc::UnboundedReceiver<Next>,
) -> Vec<CallResult> {
    let mut batch = GrowingBatch::new(&engine, id, true);
    loop {
        tokio::select! {
            // A call that has come is planned before another one begins.
            biased;
            next = calls.recv() => match next {
                Some(Next::Run(request)) => batch.add(request),
                Some(Next::Refuse(request, why)) => batch.refuse(request, why),
                None => break,
            },
            _ = batch.step(), if batch.is_busy() => {}
        }
    }
    while batch.step().await {}
    batch.finish()
}

impl OpenTurn {
    /// The id of the batch that its calls are, by which they can be followed
    /// and cancelled.
    pub fn batch_id(&self) -> BatchId {
        self.id
    }

    /// The calls that have been taken so far.
    pub fn calls(&self) -> &[ModelCall] {
        &self.calls
    }

    /// Takes bytes of the stream. An error says that the stream cannot be
    /// read further; calls that have begun go on, and [`OpenTurn::finish`]
    /// answers all.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let told = self.decoder.feed(bytes).map_err(unreadable)?;
        self.hear(told)
    }

    /// Takes one event of the stream, for whoever has read it already.
    pub fn feed_event(&mut self, event: Value) -> Result<(), Error> {
        self.hear(vec![Told::Json(event)])
    }

    fn hear(&mut self, told: Vec<Told>) -> Result<(), Error> {
        let mut heard = Ok(());
        for told in told {
            heard = match told {
                Told::Json(event) => self.event(&event),
                Told::Done => {
                    self.slots.end_all();
                    self.is_whole = true;
                    Ok(())
                }
            };
            if heard.is_err() {
                break;
            }
        }
        let leaving = self.slots.leave();
        self.start(leaving);
        heard
    }

    fn event(&mut self, event: &Value) -> Result<(), Error> {
        let assembly = match &mut self.assembly {
            Some(assembly) => assembly,
            none => {
                let Some(format) = format_of(event) else {
                    return Err(unreadable("this is no stream of Anthropic, OpenAI or Gemini"));
                };
                let assembly = none.insert(Assembly::new(format));
                self.slots = assembly.slots();
                assembly
            }
        };
        self.is_whole |= assembly.hear(event, &mut self.slots).map_err(unreadable)?;
        match self.slots.is_full {
            true => Err(unreadable("the message has too many calls")),
            false => Ok(()),
        }
    }

    fn start(&mut self, leaving: Vec<Leaving>) {
        for leaving in leaving {
            let (call, next) = match leaving {
                Leaving::Whole(call) => {
                    let request = call.request(&self.context);
                    (call, Next::Run(request))
                }
                Leaving::Broken(call) => {
                    let why = "the model's message broke off before this call was complete";
                    let error = Error::new(ErrorKind::InvalidArguments, why);
                    let request = call.request(&self.context);
                    (call, Next::Refuse(request, error))
                }
            };
            self.calls.push(call);
            // The batch ends only after this side has.
            let _ = self.next.send(next);
        }
    }

    /// The stream has ended, or broke off. Waits for the calls; one that was
    /// not complete gets an error as its result.
    pub async fn finish(mut self) -> TurnAnswer {
        let rest = self.decoder.end().unwrap_or_default();
        // Whatever is wrong with the rest, the calls are answered.
        let is_readable = self.hear(rest).is_ok();
        let leaving = self.slots.leave_all();
        self.start(leaving);
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
            is_whole: self.is_whole && is_readable,
        }
    }
}

/// The format that the first event of a stream tells.
fn format_of(event: &Value) -> Option<TurnFormat> {
    let kind = event["type"].as_str().unwrap_or_default();
    match () {
        () if event.get("choices").is_some() => Some(TurnFormat::OpenAi),
        () if event.get("candidates").is_some() => Some(TurnFormat::Gemini),
        () if kind.starts_with("response.") => Some(TurnFormat::Responses),
        () if kind.starts_with("message_") || kind.starts_with("content_block") => {
            Some(TurnFormat::Anthropic)
        }
        () if kind == "ping" || kind == "error" => Some(TurnFormat::Anthropic),
        () => None,
    }
}

/// The message of a stream, by its format.
enum Assembly {
    Anthropic(anthropic::Assembly),
    OpenAi(chat::Assembly),
    Responses(responses::Assembly),
    Gemini(gemini::Assembly),
}

impl Assembly {
    fn new(format: TurnFormat) -> Self {
        match format {
            TurnFormat::Anthropic => Self::Anthropic(Default::default()),
            TurnFormat::OpenAi => Self::OpenAi(Default::default()),
            TurnFormat::Responses => Self::Responses(Default::default()),
            TurnFormat::Gemini => Self::Gemini(Default::default()),
        }
    }

    fn format(&self) -> TurnFormat {
        match self {
            Self::Anthropic(_) => TurnFormat::Anthropic,
            Self::OpenAi(_) => TurnFormat::OpenAi,
            Self::Responses(_) => TurnFormat::Responses,
            Self::Gemini(_) => TurnFormat::Gemini,
        }
    }

    /// Where its calls are written. Chat Completions does not say where a call
    /// ends.
    fn slots(&self) -> Slots {
        match self {
            Self::OpenAi(_) => Slots::eager(),
            _ => Slots::default(),
        }
    }

    fn hear(&mut self, event: &Value, slots: &mut Slots) -> Result<bool, String> {
        match self {
            Self::Anthropic(own) => own.hear(event, slots),
            Self::OpenAi(own) => own.hear(event, slots),
            Self::Responses(own) => own.hear(event, slots),
            Self::Gemini(own) => own.hear(event, slots),
        }
    }

    fn message(self, calls: Vec<super::slots::Written>) -> Value {
        match self {
            Self::Anthropic(own) => own.message(calls),
            Self::OpenAi(own) => own.message(calls),
            Self::Responses(own) => own.message(calls),
            Self::Gemini(own) => own.message(calls),
        }
    }
}
