//! Asks a model: again where it was too busy, another one where it is
//! overloaded (S4.14).

use std::collections::VecDeque;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use windlass::{Error, ErrorKind, Secret, SseDecoder, SseEvent, Veil, lenient_json};

use super::refusal::{Again, Refused, without};
use super::{Model, Models, Payer, Prompt};
use crate::outbound::{Answer, on_behalf};

/// S4.14's wait where the API does not say how long, times the attempt.
const WAIT: Duration = Duration::from_millis(1000);
/// Nobody waits longer than this because an API says so.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// How long a connection that has brought everything may take to end, so that it
/// can be used again.
const FAREWELL: Duration = Duration::from_millis(50);
/// What Anthropic answers when it is overloaded.
const OVERLOADED: u16 = 529;

/// What a model answers.
pub struct Reply {
    /// Who answered: the model that was asked, or the one in its place.
    pub model: Model,
    /// The events of its answer; a single one where it came at once.
    pub events: Events,
    /// Whether the events are those of a stream.
    pub is_stream: bool,
}

/// The events of an answer, as they come. An event that is an error is one.
pub struct Events {
    /// None once all has come.
    answer: Option<Answer>,
    decoder: SseDecoder,
    ready: VecDeque<Value>,
    is_done: bool,
    /// Why there is no more to read, which is told after what could be read.
    broken: Option<String>,
    /// Hides the key, should the API repeat it.
    veil: Veil,
}

impl Events {
    fn new(answer: Answer, key: Option<&Secret>) -> Self {
        let (decoder, ready) = (SseDecoder::default(), VecDeque::new());
        let (answer, veil) = (Some(answer), Veil::new(key));
        Self { answer, decoder, ready, is_done: false, broken: None, veil }
    }

    /// Whether the API has said, in a word of its own, that this is the end.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The next event; nothing at the end.
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
                // What goes wrong after the end is no matter.
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

/// A question that may have to be asked again.
pub struct Asking<'a> {
    models: &'a Models,
    asked: &'a Model,
    /// Who is asked now.
    model: Model,
    payer: Payer<'a>,
    fallback: Option<&'a str>,
    attempt: u32,
}

impl Models {
    /// Asks a model; `fallback` is who is asked if it is overloaded.
    pub async fn ask(
        &self,
        model: &Model,
        prompt: &Prompt<'_>,
        payer: Payer<'_>,
        fallback: Option<&str>,
    ) -> Result<Reply, Error> {
        self.asking(model, payer, fallback).ask(prompt).await
    }

    /// The same for whoever may have to ask again, because an answer breaks off.
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
        let request = model.api().request(model, prompt, key).map_err(failed)?;
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
        // An API may say in its first event, or with a status of success, that it
        // is overloaded.
        if let Some(first) = events.next().await? {
            events.ready.push_front(first);
        }
        Ok(Reply { model: model.clone(), events, is_stream })
    }
}

impl Asking<'_> {
    /// Asks until somebody answers, as often as was set.
    pub async fn ask(&mut self, prompt: &Prompt<'_>) -> Result<Reply, Error> {
        loop {
            // A key is for one provider alone.
            let is_same = self.model.provider == self.asked.provider;
            let stored = self.payer.stored.filter(|_| is_same);
            let payer = Payer { stored, ..self.payer };
            match self.models.once(&self.model, prompt, payer).await {
                Ok(reply) => return Ok(reply),
                Err(refused) => self.again(refused).await?,
            }
        }
    }

    /// Waits until it may be asked again, or chooses who is asked instead. Gives
    /// the error back where neither makes sense.
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
