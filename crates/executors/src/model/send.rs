//! Asks a model: again where it was too busy, another one where it is
//! overloaded (S4.14).

use std::collections::VecDeque;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use windlass::{Error, ErrorKind, Secret, SseDecoder, SseEvent};

use super::{Model, Models, Prompt};
use crate::outbound::Answer;

/// S4.14's wait where the API does not say how long, times the attempt.
const WAIT: Duration = Duration::from_millis(1000);
/// Nobody waits longer than this because an API says so.
const MAX_WAIT: Duration = Duration::from_secs(60);
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

/// The events of an answer, as they come.
pub struct Events {
    /// None once all has come.
    answer: Option<Answer>,
    decoder: SseDecoder,
    ready: VecDeque<Value>,
    is_done: bool,
    /// Why there is no more to read, which is told after what could be read.
    broken: Option<String>,
}

impl Events {
    fn new(answer: Answer) -> Self {
        let (decoder, ready) = (SseDecoder::default(), VecDeque::new());
        Self { answer: Some(answer), decoder, ready, is_done: false, broken: None }
    }

    /// Whether the API has said, in a word of its own, that this is the end.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The next event; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<Value>, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if let Some(why) = self.broken.take() {
                self.answer = None;
                return Err(Error::new(ErrorKind::UpstreamFailed, why));
            }
            let Some(answer) = &mut self.answer else { return Ok(None) };
            let told = match answer.chunk().await? {
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

/// Why a model did not answer.
struct Refused {
    error: Error,
    is_overloaded: bool,
}

impl Models {
    /// Asks a model. `stored` is the key of its provider where somebody has
    /// stored one; `fallback` is who is asked if it is overloaded.
    pub async fn ask(
        &self,
        model: &Model,
        prompt: &Prompt<'_>,
        stored: Option<&Secret>,
        fallback: Option<&str>,
    ) -> Result<Reply, Error> {
        let asked = model;
        let mut model = model.clone();
        let mut attempt = 0;
        loop {
            // A key is for one provider alone.
            let key = stored.filter(|_| model.provider == asked.provider);
            let Refused { error, is_overloaded } = match self.once(&model, prompt, key).await {
                Ok(reply) => return Ok(reply),
                Err(refused) => refused,
            };
            if attempt >= self.0.settings.retries || !error.is_retryable() {
                return Err(error);
            }
            attempt += 1;
            match self.fallback(&model, fallback).filter(|_| is_overloaded) {
                // Its API must read the same messages.
                Some(other) if other.api() == model.api() => model = other,
                _ => {
                    let wait = error.retry_after().unwrap_or(WAIT * attempt);
                    if wait > MAX_WAIT {
                        return Err(error);
                    }
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    async fn once(
        &self,
        model: &Model,
        prompt: &Prompt<'_>,
        stored: Option<&Secret>,
    ) -> Result<Reply, Refused> {
        let failed = |error| Refused { error, is_overloaded: false };
        let key = self.key(model, stored);
        let request = model.api().request(model, prompt, key).map_err(failed)?;
        let request = request.without_redirects().read_timeout(self.0.settings.read_timeout);
        let answer = self.0.outbound.send(request).await.map_err(failed)?;
        let status = answer.status();
        let is_overloaded =
            status.as_u16() == OVERLOADED || status == StatusCode::SERVICE_UNAVAILABLE;
        let answer = answer.checked().await;
        let answer =
            answer.map_err(|error| Refused { error: without(error, key), is_overloaded })?;
        let is_stream = answer.media_type() == "text/event-stream";
        let mut events = Events::new(answer);
        if is_stream {
            // An API that is overloaded may say so in its first event.
            if let Some(first) = events.next().await.map_err(failed)? {
                if let Some(refused) = refusal(&first) {
                    return Err(refused);
                }
                events.ready.push_front(first);
            }
        } else if let Some(answer) = events.answer.take() {
            let bytes = answer.bytes().await.map_err(failed)?;
            let whole = serde_json::from_slice(&bytes).map_err(|why| {
                let why = format!("the model's answer is not JSON: {why}");
                failed(Error::new(ErrorKind::UpstreamFailed, why))
            })?;
            events.ready.push_back(whole);
        }
        Ok(Reply { model: model.clone(), events, is_stream })
    }
}

/// The error without the key, should the API have repeated it.
fn without(error: Error, key: Option<&Secret>) -> Error {
    let Some(key) = key.filter(|key| error.message().contains(key.expose())) else { return error };
    let hidden = Error::new(error.kind(), error.message().replace(key.expose(), "[hidden]"));
    match error.retry_after() {
        Some(after) => hidden.with_retry_after(after),
        None => hidden,
    }
}

/// The error that an event is.
fn refusal(event: &Value) -> Option<Refused> {
    let error = event.get("error").filter(|error| !error.is_null())?;
    let why = error["message"].as_str().unwrap_or("no reason given");
    let kind = error["type"].as_str().or(error["code"].as_str()).unwrap_or_default();
    let is_overloaded = kind == "overloaded_error" || kind == "server_is_overloaded";
    let kind = match kind {
        "rate_limit_error" | "rate_limit_exceeded" => ErrorKind::RateLimited,
        "authentication_error" | "permission_error" => ErrorKind::CredentialInvalid,
        "invalid_request_error" | "not_found_error" => ErrorKind::UpstreamRejected,
        _ => ErrorKind::UpstreamFailed,
    };
    Some(Refused {
        error: Error::new(kind, format!("the model's API failed: {why}")),
        is_overloaded,
    })
}
