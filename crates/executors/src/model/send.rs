//! Sends model requests, with retries, backoff, and a fallback model if one is
//! overloaded.

use std::collections::VecDeque;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use windlass::{Error, ErrorKind, Secret, SseDecoder, SseEvent, Veil, lenient_json};

use super::refusal::{Again, Refused, without};
use super::{Model, Models, Payer, Prompt};
use crate::outbound::{Answer, on_behalf};

/// Backoff if the API sends no `Retry-After`, multiplied by the attempt.
const WAIT: Duration = Duration::from_millis(1000);
/// Upper bound for the API's `Retry-After`.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// How long to wait for the end of a complete response, so that its connection can go
/// back into the pool.
const FAREWELL: Duration = Duration::from_millis(50);
/// Anthropic's status for "overloaded".
const OVERLOADED: u16 = 529;

/// A model's answer.
pub struct Reply {
    /// The model that answers: the one that was asked, or its fallback.
    pub model: Model,
    /// The events of the stream; a single one if the answer is not streamed.
    pub events: Events,
    /// Whether the answer is streamed.
    pub is_stream: bool,
}

/// A stream of events. An error event becomes an error.
pub struct Events {
    /// `None` once the response has ended.
    answer: Option<Answer>,
    decoder: SseDecoder,
    ready: VecDeque<Value>,
    is_done: bool,
    /// A transport error, which is reported after all events that could be read.
    broken: Option<String>,
    /// Redacts the API key, in case the API echoes it.
    veil: Veil,
}

impl Events {
    fn new(answer: Answer, key: Option<&Secret>) -> Self {
        let (decoder, ready) = (SseDecoder::default(), VecDeque::new());
        let (answer, veil) = (Some(answer), Veil::new(key));
        Self { answer, decoder, ready, is_done: false, broken: None, veil }
    }

    /// Whether the API has sent its end marker.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Value>, Refused> {
        loop {
            if let Some(mut event) = self.ready.pop_front() {
                self.veil.over_value(&mut event);
                return match Refused::of(&event) {
                    Some(refused) => Err(refused.under(&self.veil)),
                    None => Ok(Some(event)),
                };
            }
            if let Some(why) = self.broken.take() {
                self.answer = None;
                return Err(Refused::broken(Error::new(ErrorKind::UpstreamFailed, why)));
            }
            let Some(answer) = &mut self.answer else { return Ok(None) };
            let chunk = match self.is_done {
                // Errors after the end marker are ignored.
                true => match tokio::time::timeout(FAREWELL, answer.chunk()).await {
                    Ok(Ok(chunk)) => chunk,
                    _ => None,
                },
                false => answer.chunk().await.map_err(Refused::broken)?,
            };
            let told = match chunk {
                Some(chunk) => self.decoder.feed(&chunk),
                None => {
                    self.answer = None;
                    self.decoder.end()
                }
            };
            for told in told {
                match told {
                    SseEvent::Json(event) => self.ready.push_back(event),
                    SseEvent::Done => self.is_done = true,
                    SseEvent::Broken(why) => self.broken = Some(why),
                }
            }
        }
    }
}

/// A request with its retries.
pub struct Asking<'a> {
    models: &'a Models,
    asked: &'a Model,
    /// The model that is asked now.
    model: Model,
    payer: Payer<'a>,
    fallback: Option<&'a str>,
    attempt: u32,
}

impl Models {
    /// Sends a prompt to a model, or to `fallback` if that is overloaded.
    pub async fn ask(
        &self,
        model: &Model,
        prompt: &Prompt<'_>,
        payer: Payer<'_>,
        fallback: Option<&str>,
    ) -> Result<Reply, Error> {
        self.asking(model, payer, fallback).ask(prompt).await
    }

    /// A request for callers that retry themselves when a stream breaks off.
    pub fn asking<'a>(
        &'a self,
        model: &'a Model,
        payer: Payer<'a>,
        fallback: Option<&'a str>,
    ) -> Asking<'a> {
        Asking { models: self, asked: model, model: model.clone(), payer, fallback, attempt: 0 }
    }

    async fn once(
        &self,
        model: &Model,
        prompt: &Prompt<'_>,
        payer: Payer<'_>,
    ) -> Result<Reply, Refused> {
        let failed = |error| Refused { error, again: Again::Later };
        let key = self.key(model, payer).map_err(failed)?;
        let request = model.api().own().request(model, prompt, key).map_err(failed)?;
        let request = request.without_redirects().read_timeout(self.0.settings.read_timeout);
        let sent = on_behalf(Some(payer.tenant), self.0.outbound.send(request)).await;
        let answer = sent.map_err(failed)?;
        let status = answer.status();
        let is_overloaded =
            status.as_u16() == OVERLOADED || status == StatusCode::SERVICE_UNAVAILABLE;
        let again = if is_overloaded { Again::Elsewhere } else { Again::Later };
        let answer = answer.checked().await;
        let answer = answer.map_err(|error| Refused { error: without(error, key), again })?;
        let is_stream = answer.media_type() == "text/event-stream";
        let mut events = Events::new(answer, key);
        if !is_stream && let Some(answer) = events.answer.take() {
            let bytes = answer.bytes().await.map_err(failed)?;
            let whole = lenient_json(&String::from_utf8_lossy(&bytes)).map_err(|why| {
                let why = format!("the model's answer is not JSON: {why}");
                failed(Error::new(ErrorKind::UpstreamFailed, why))
            })?;
            events.ready.push_back(whole);
        }
        // An API may report "overloaded" in the first event, or with status 200.
        if let Some(first) = events.next().await? {
            events.ready.push_front(first);
        }
        Ok(Reply { model: model.clone(), events, is_stream })
    }
}

impl Asking<'_> {
    /// Sends the prompt, with retries, until a model answers.
    pub async fn ask(&mut self, prompt: &Prompt<'_>) -> Result<Reply, Error> {
        loop {
            // An API key belongs to one provider only.
            let is_same = self.model.provider == self.asked.provider;
            let stored = self.payer.stored.filter(|_| is_same);
            let payer = Payer { stored, ..self.payer };
            match self.models.once(&self.model, prompt, payer).await {
                Ok(reply) => return Ok(reply),
                Err(refused) => self.again(refused).await?,
            }
        }
    }

    /// Waits for the backoff or switches to the fallback. Returns the error if a retry
    /// makes no sense.
    pub async fn again(&mut self, refused: Refused) -> Result<(), Error> {
        let Refused { error, again } = refused;
        if self.attempt >= self.models.0.settings.retries || !error.is_retryable() {
            return Err(error);
        }
        self.attempt += 1;
        let other = self.models.fallback(&self.model, self.fallback).ok().flatten();
        match (again, other) {
            (Again::AtOnce, _) => {}
            (Again::Elsewhere, Some(other)) => self.model = other,
            _ => {
                let wait = error.retry_after().unwrap_or(WAIT * self.attempt);
                if wait > MAX_WAIT {
                    return Err(error);
                }
                tokio::time::sleep(wait).await;
            }
        }
        Ok(())
    }
}
