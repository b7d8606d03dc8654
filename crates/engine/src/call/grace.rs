//! [`Grace`]: deadline extensions for a running call.
//!
//! A tool that asks a person a question (elicitation) needs minutes where
//! others need seconds, and nobody knows in advance that it will ask. So the
//! deadline is extended when a question is passed on, and all other calls keep
//! their timeout.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::value::duration;

/// Extends the deadline of a call, see
/// [`CallRequest::grace`](crate::CallRequest::grace).
#[derive(Clone, Debug, Default)]
pub struct Grace(Arc<Mutex<Option<Instant>>>);

impl Grace {
    /// Lets the call run for at least this long from now.
    pub fn extend(&self, time: Duration) {
        let until = Instant::now() + time.min(duration::MAX);
        let mut latest = self.0.lock();
        *latest = latest.max(Some(until));
    }

    /// The extended deadline, if there is one.
    pub(crate) fn until(&self) -> Option<Instant> {
        *self.0.lock()
    }
}
