//! Runs a tool, and again where an attempt failed that may be repeated.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::call::Call;
use crate::call::content::Output;
use crate::engine::Until;
use crate::error::{Error, ErrorKind};
use crate::journal::OpenCall;
use crate::schedule::{Attempt, RetryPolicy, Upstream};

/// The attempts of one call.
pub(crate) struct Attempts<'a, 'u> {
    pub(crate) open: &'a mut OpenCall,
    pub(crate) policy: &'a RetryPolicy,
    pub(crate) upstream: &'u Upstream,
    /// The attempt that is under way. It is the engine's, which may stop it.
    pub(crate) current: &'a mut Option<Attempt<'u>>,
    pub(crate) until: &'a Until<'a>,
}

impl Attempts<'_, '_> {
    /// Runs the tool until an attempt succeeds, or none is left.
    pub(super) async fn run(&mut self, call: &Call) -> Result<Output, Error> {
        let mut began = None;
        loop {
            let error = match run_tool(call).await {
                Ok(output) => {
                    self.current.take().into_iter().for_each(Attempt::answered);
                    return Ok(output);
                }
                Err(error) => error,
            };
            let tenant = self.current.take().map(|attempt| attempt.ended(&error));
            let (Some(tenant), Some(wait)) = (tenant, self.wait_for_next(&error)) else {
                return Err(error);
            };
            let began_at = began.unwrap_or_else(|| self.open.run_began());
            self.open.retried(&error, began_at.elapsed(), wait);
            Box::pin(call.slot().without(tokio::time::sleep(wait))).await;
            if self.until.check(&call.tool).is_err() {
                return Err(error);
            }
            let Ok(next) = self.upstream.enter(tenant) else { return Err(error) };
            *self.current = Some(next);
            self.open.tried_again();
            began = Some(Instant::now());
        }
    }

    /// How long until the next attempt; none where there is none, or no time
    /// for it.
    fn wait_for_next(&self, error: &Error) -> Option<Duration> {
        let wait = self.policy.wait(self.open.attempts(), error, fastrand::f64())?;
        let in_time = self.until.deadline.saturating_duration_since(Instant::now()) > wait;
        (in_time && self.upstream.extra_attempt()).then_some(wait)
    }
}

async fn run_tool(call: &Call) -> Result<Output, Error> {
    let outcome = match AssertUnwindSafe(call.tool.executor().execute(call)).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => Err(panicked(&*panic)),
    };
    match call.veil() {
        Some(veil) => veil.over(outcome),
        None => outcome,
    }
}

/// The error of code that panicked.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned());
    Error::new(ErrorKind::Panicked, format!("the tool panicked: {message}"))
}
