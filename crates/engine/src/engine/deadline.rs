//! Deadline and cancellation of a call.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::call::CallOptions;
use crate::call::context::Context;
use crate::call::grace::Grace;
use crate::error::{Error, ErrorKind};
use crate::journal::OpenCall;
use crate::schedule::{ListedCall, RunningCalls};
use crate::tool::Tool;
use crate::value::name::{BatchId, CallId};

/// The deadline of a call, and its cancellation.
pub(crate) struct Deadline<'a> {
    pub(crate) deadline: Instant,
    timeout: Duration,
    request: &'a CallOptions,
    id: CallId,
    batch: Option<BatchId>,
    running: &'a Arc<RunningCalls>,
    /// Entry in the list of running calls; set as soon as the call has to wait,
    /// or somebody could know of it.
    listed: OnceLock<ListedCall>,
}

/// Why a call was stopped.
#[derive(Clone, Copy)]
pub(crate) enum StopReason {
    Deadline,
    Cancelled,
}

impl<'a> Deadline<'a> {
    /// Uses the call's own timeout, else the tool's, else the engine's.
    pub(super) fn new(
        request: &'a CallOptions,
        tool: &Tool,
        open: &mut OpenCall,
        default_timeout: Duration,
        running: &'a Arc<RunningCalls>,
    ) -> Self {
        let timeout = request.timeout.or(tool.spec().timeout).unwrap_or(default_timeout);
        Self {
            deadline: open.until(timeout, request.latest()),
            timeout,
            request,
            id: open.id,
            batch: open.batch,
            running,
            listed: OnceLock::new(),
        }
    }

    /// Runs work until the deadline or cancellation, when it is dropped; work
    /// that completes at the same moment wins. Work that completes at its first
    /// poll needs neither a timer nor a list entry.
    pub(crate) async fn run<T>(
        &self,
        context: &Context,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, StopReason> {
        if self.is_cancelled() {
            return Err(StopReason::Cancelled);
        }
        let first = std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx)));
        if let Poll::Ready(done) = first.await {
            return Ok(done);
        }
        // Boxed: timers and list entries are large, and most calls need
        // neither.
        Box::pin(self.wait_for(context, work)).await
    }

    async fn wait_for<T>(
        &self,
        context: &Context,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, StopReason> {
        let listed = self.list(context);
        tokio::select! {
            biased;
            done = self.in_time(work) => done,
            () = listed.cancel.cancelled() => Err(StopReason::Cancelled),
            () = cancelled(self.request.parent()) => Err(StopReason::Cancelled),
        }
    }

    /// Awaits work until the deadline, which may be extended meanwhile.
    async fn in_time<T>(
        &self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, StopReason> {
        let mut deadline = self.deadline;
        loop {
            if let Ok(done) = tokio::time::timeout_at(deadline, work.as_mut()).await {
                return Ok(done);
            }
            let given = self.request.own_grace().and_then(Grace::until);
            deadline = given.filter(|later| *later > deadline).ok_or(StopReason::Deadline)?;
        }
    }

    /// The error of a stopped call.
    pub(crate) fn error(&self, stop: StopReason, tool: &Tool) -> Error {
        let given = self.request.own_grace().and_then(Grace::until);
        let more = given.map(|later| later.saturating_duration_since(self.deadline));
        stop.error(tool, self.timeout + more.unwrap_or_default())
    }

    /// Adds the call to the list of calls that can be cancelled.
    pub(crate) fn list(&self, context: &Context) -> &ListedCall {
        let own = self.request.cancel.as_ref();
        self.listed.get_or_init(|| self.running.list(self.id, context, self.batch, own))
    }

    /// Fails if the deadline has passed. Only a call that has waited can have
    /// missed it.
    pub(crate) fn check(&self, tool: &Tool) -> Result<(), Error> {
        if self.listed.get().is_none() {
            return Ok(());
        }
        if self.is_cancelled() {
            return Err(StopReason::Cancelled.error(tool, self.timeout));
        }
        if Instant::now() >= self.deadline {
            return Err(StopReason::Deadline.error(tool, self.timeout));
        }
        Ok(())
    }

    pub(super) fn is_cancelled(&self) -> bool {
        let is_cancelled = CancellationToken::is_cancelled;
        self.request.cancel.as_ref().is_some_and(is_cancelled)
            || self.request.parent().is_some_and(is_cancelled)
            || self.listed.get().is_some_and(|listed| listed.cancel.is_cancelled())
    }
}

/// Completes when a token is cancelled; never without a token.
async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

impl StopReason {
    /// The error of a stopped call.
    pub(super) fn error(self, tool: &Tool, timeout: Duration) -> Error {
        match self {
            Self::Cancelled => Error::new(ErrorKind::Cancelled, "the call was cancelled"),
            Self::Deadline => Error::new(
                ErrorKind::Timeout,
                format!("Tool {} timed out after {}ms", tool.name(), timeout.as_millis()),
            ),
        }
    }
}
