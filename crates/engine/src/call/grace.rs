//! [`Grace`]: more time for a call, given while it runs.
//!
//! A call whose tool asks a person needs minutes where others need seconds, and
//! nobody knows before that it will ask. So whoever passes the question on gives
//! the call its time, and a call that asks nothing keeps the time of all others.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::value::duration;

/// Puts off the end of a call, see [`CallRequest::grace`](crate::CallRequest::grace).
#[derive(Clone, Debug, Default)]
pub struct Grace(Arc<Mutex<Option<Instant>>>);

impl Grace {
    /// Lets the call go on for this long from now, if it would end before.
    pub fn extend(&self, time: Duration) {
        let until = Instant::now() + time.min(duration::MAX);
        let mut latest = self.0.lock();
        *latest = latest.max(Some(until));
    }

    /// The end that was given; none where none was.
    pub(crate) fn until(&self) -> Option<Instant> {
        *self.0.lock()
    }
}
