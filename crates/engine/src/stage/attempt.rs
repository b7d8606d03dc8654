//! Attempts of a call: runs the tool behind its upstream's circuit breaker,
//! with retries.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::call::content::Output;
use crate::call::{Call, CallOptions};
use crate::engine::{Deadline, StopReason};
use crate::error::{Error, ErrorKind};
use crate::journal::OpenCall;
use crate::schedule::{Attempt, RetryPolicy, Upstream};

/// A call in the part of the pipeline that may wait, from admission to its last
/// attempt.
pub(crate) struct Attempts<'o, 'c> {
    pub(crate) request: &'c CallOptions,
    pub(crate) call: &'c Call,
    pub(crate) open: &'o mut OpenCall,
    pub(crate) until: &'c Deadline<'c>,
    upstream: &'c Upstream,
    /// The engine's default retry policy.
    retry: &'c RetryPolicy,
    /// The current attempt, which is reported to the circuit breaker.
    current: Option<Attempt<'c>>,
}

impl<'o, 'c> Attempts<'o, 'c> {
    pub(crate) fn new(
        request: &'c CallOptions,
        call: &'c Call,
        open: &'o mut OpenCall,
        until: &'c Deadline<'c>,
        upstream: &'c Upstream,
        retry: &'c RetryPolicy,
    ) -> Self {
        Self { request, call, open, until, upstream, retry, current: None }
    }

    /// Fails early if the circuit breaker is open.
    pub(super) fn look(&self) -> Result<(), Error> {
        self.upstream.look(&self.call.caller().tenant)
    }

    /// Passes the circuit breaker. From here on the call runs; `waited` is
    /// whether it had to wait for its slot.
    pub(crate) fn enter(&mut self, waited: bool) -> Result<(), Error> {
        self.current = Some(self.upstream.enter(&self.call.caller().tenant)?);
        self.until.check(&self.call.tool)?;
        if self.call.shared.journal.bus.is_heard() {
            self.until.list(&self.call.context);
        }
        self.open.started(waited);
        self.upstream.first_attempt();
        Ok(())
    }

    /// Handles a stop from outside; returns the call's error.
    pub(super) fn stopped(&mut self, stop: StopReason) -> Error {
        match stop {
            StopReason::Deadline => self.current.take().into_iter().for_each(Attempt::timed_out),
            StopReason::Cancelled => self.call.cancel_family(),
        }
        self.until.error(stop, &self.call.tool)
    }

    /// Runs the tool until an attempt succeeds or no retry is left.
    pub(super) async fn run(&mut self) -> Result<Output, Error> {
        let call = self.call;
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
            self.current = Some(next);
            self.open.tried_again();
            began = Some(Instant::now());
        }
    }

    /// Backoff before the next attempt; `None` if there is none, or no time for
    /// it.
    fn wait_for_next(&self, error: &Error) -> Option<Duration> {
        let (request, tool) = (self.request, self.call.tool.spec());
        let policy = RetryPolicy::of(request.own_retry(), request.own_attempts(), tool, self.retry);
        let wait = policy.wait(self.open.attempts(), error, fastrand::f64())?;
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

/// The error of a tool that panicked.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned());
    Error::new(ErrorKind::Panicked, format!("the tool panicked: {message}"))
}
