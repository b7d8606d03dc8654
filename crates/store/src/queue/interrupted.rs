//! The calls that were closed for processes that have ended, until somebody
//! asks for them.

use std::fmt::Display;
use std::mem;

use parking_lot::Mutex;
use windlass::CallRecord;

/// How many are handed out at the most. All are closed and in the store; this
/// is what is told of them.
const MOST: usize = 10_000;

#[derive(Default)]
pub(crate) struct Interrupted(Mutex<Vec<CallRecord>>);

impl Interrupted {
    /// `place` names the database in the log.
    pub(crate) fn add(&self, place: &dyn Display, records: Vec<CallRecord>) {
        if records.is_empty() {
            return;
        }
        tracing::warn!(
            calls = records.len(),
            database = %place,
            "calls of a process that ended were closed as interrupted"
        );
        let mut kept = self.0.lock();
        let room = MOST.saturating_sub(kept.len());
        kept.extend(records.into_iter().take(room));
    }

    pub(crate) fn take(&self) -> Vec<CallRecord> {
        mem::take(&mut self.0.lock())
    }
}
