//! Notification about each finished model request, for tracing.

use std::time::{Duration, Instant, SystemTime};

use windlass::{Call, Error, ErrorKind, Usage};

use super::{Finish, Model, Models, Prompt, Tally};

/// A finished model request.
#[non_exhaustive]
pub struct Chat<'a> {
    /// The call that made it.
    pub call: &'a Call,
    /// The model that was asked.
    pub model: &'a Model,
    /// The model that answered or began to: the same one, or its fallback.
    pub answered: Option<&'a Model>,
    /// When the request was made.
    pub began: SystemTime,
    /// How long it took, to the end of the answer.
    pub took: Duration,
    /// Maximum number of output tokens.
    pub max_tokens: u64,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// Its usage without cost, if the answer was complete.
    pub usage: Option<Usage>,
    /// Why the answer ended: `stop`, `tool_call`, `length` or `content_filter`.
    pub finish: Option<&'static str>,
    /// Why there is no answer, or why it broke off.
    pub error: Option<ErrorKind>,
}

/// A request in flight. The observer, if there is one, is notified exactly once, even if
/// the request is dropped.
pub(crate) struct Watch<'a>(Option<Watched<'a>>);

struct Watched<'a> {
    models: &'a Models,
    call: &'a Call,
    model: &'a Model,
    max_tokens: u64,
    temperature: Option<f64>,
    began: SystemTime,
    clock: Instant,
    answered: Option<Model>,
    usage: Option<Usage>,
    finish: Option<&'static str>,
    error: Option<ErrorKind>,
}

impl<'a> Watch<'a> {
    /// Starts the clock.
    pub(crate) fn begin(
        models: &'a Models,
        call: &'a Call,
        model: &'a Model,
        prompt: &Prompt<'_>,
    ) -> Self {
        Self(models.observer().map(|_| Watched {
            models,
            call,
            model,
            max_tokens: prompt.max_tokens,
            temperature: prompt.temperature,
            began: SystemTime::now(),
            clock: Instant::now(),
            answered: None,
            usage: None,
            finish: None,
            error: Some(ErrorKind::Cancelled),
        }))
    }

    /// Sets the model that answers.
    pub(crate) fn answered_by(&mut self, model: &Model) {
        if let Some(watched) = &mut self.0 {
            watched.answered = Some(model.clone());
        }
    }

    /// Passes a result through, and notes its error.
    pub(crate) fn checked<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if let (Some(watched), Err(error)) = (&mut self.0, &result) {
            watched.error = Some(error.kind());
        }
        result
    }

    /// The answer has ended or has broken off.
    pub(crate) fn end(self, tally: &Tally, calls_nothing: bool, error: Option<ErrorKind>) {
        let Some(mut watched) = self.0 else { return };
        let finish = match &tally.finish {
            Finish::Usual if calls_nothing => Some("stop"),
            Finish::Usual => Some("tool_call"),
            Finish::Length => Some("length"),
            Finish::Refused(_) => Some("content_filter"),
            Finish::Unreadable(_) => None,
        };
        watched.finish = finish.filter(|_| error.is_none());
        watched.usage = Some(tally.usage);
        watched.error = error;
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let Some(observer) = self.models.observer() else { return };
        observer(&Chat {
            call: self.call,
            model: self.model,
            answered: self.answered.as_ref(),
            began: self.began,
            took: self.clock.elapsed(),
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            usage: self.usage,
            finish: self.finish,
            error: self.error,
        });
    }
}
