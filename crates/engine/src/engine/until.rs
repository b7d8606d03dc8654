//! How long a call may go on: until its deadline, or until it is cancelled.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind};
use crate::tool::Tool;

/// The end of a call's time.
pub(super) struct Until<'a> {
    pub(super) deadline: Instant,
    pub(super) timeout: Duration,
    pub(super) cancel: Option<&'a CancellationToken>,
}

/// Why work was stopped.
pub(super) enum Stop {
    Deadline,
    Cancelled,
}

impl Until<'_> {
    /// Runs work until the end. Work that is done wins; work that is not is
    /// dropped.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Stop> {
        let work = tokio::time::timeout_at(self.deadline, work);
        match self.cancel {
            None => work.await.map_err(|_| Stop::Deadline),
            Some(token) if token.is_cancelled() => Err(Stop::Cancelled),
            Some(token) => tokio::select! {
                biased;
                done = work => done.map_err(|_| Stop::Deadline),
                () = token.cancelled() => Err(Stop::Cancelled),
            },
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
