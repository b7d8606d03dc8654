//! How long a call may go on: until its deadline, or until it is cancelled.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind};
use crate::schedule::Listed;
use crate::tool::Tool;

/// The end of a call's time.
pub(super) struct Until<'a> {
    pub(super) deadline: Instant,
    pub(super) timeout: Duration,
    pub(super) cancel: Option<&'a CancellationToken>,
}

/// Why work was stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Deadline,
    Cancelled,
}

impl Until<'_> {
    /// Runs work until the end. Work that is done wins; work that is not is
    /// dropped. Work that is done at once needs neither a timer nor a place in
    /// the list of calls.
    pub(super) async fn run<T>(
        &self,
        mut work: Pin<&mut impl Future<Output = T>>,
        list: impl FnOnce() -> Listed,
    ) -> Result<T, Stop> {
        if self.cancel.is_some_and(CancellationToken::is_cancelled) {
            return Err(Stop::Cancelled);
        }
        let first = std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx)));
        if let Poll::Ready(done) = first.await {
            return Ok(done);
        }
        let listed = list();
        tokio::select! {
            biased;
            done = tokio::time::timeout_at(self.deadline, work) => done.map_err(|_| Stop::Deadline),
            () = listed.cancel.cancelled() => Err(Stop::Cancelled),
        }
    }

    /// Refuses to begin what has no time left. Only a call that has waited can
    /// have lost its time.
    pub(super) fn check(&self, tool: &Tool, waited: bool) -> Result<(), Error> {
        if !waited {
            return Ok(());
        }
        if self.cancel.is_some_and(CancellationToken::is_cancelled) {
            return Err(Stop::Cancelled.error(tool, self.timeout));
        }
        if Instant::now() >= self.deadline {
            return Err(Stop::Deadline.error(tool, self.timeout));
        }
        Ok(())
    }
}

impl Stop {
    /// The error of a call that was stopped.
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
