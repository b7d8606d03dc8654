//! Calls that were closed as interrupted for dead processes, until somebody asks for
//! them.

use std::fmt::Display;
use std::mem;

use parking_lot::Mutex;
use windlass::CallRecord;

/// Maximum number that is reported. All are closed in the store.
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
