//! Write-behind queue between a store and its writer: pending work, and the writer's
//! progress.
//!
//! Appending takes one short lock. The writer swaps the whole list for an empty one, so
//! the lock is never held during I/O.
//!
//! Counting and limits are the same for every store. Writers differ in how they wait: on
//! a thread of their own (`thread`), or in a task (`task`).

mod interrupted;
mod progress;
#[cfg(feature = "postgres")]
mod task;
mod thread;
mod work;

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use windlass::{CallRecord, Error};

pub(crate) use interrupted::Interrupted;
pub(crate) use progress::Progress;
#[cfg(feature = "postgres")]
pub(crate) use task::TaskQueue;
pub(crate) use thread::ThreadQueue;
pub(crate) use work::{Begin, KeepOutput, Probe, Work, answer};

use crate::fault::unavailable;

/// Pending work for the writer, which `W` wakes.
pub(crate) struct Queue<W: Wake> {
    inbox: Mutex<Inbox>,
    wake: W,
    /// Records that were appended but not committed yet.
    pending: AtomicUsize,
    limit: usize,
    commit_interval: Duration,
}

/// Wakes the writer.
pub(crate) trait Wake: Default {
    fn wake(&self);
}

#[derive(Default)]
struct Inbox {
    work: Work,
    /// Number of records ever appended.
    appended: u64,
    /// Somebody waits for a flush: do not gather any longer.
    hurry: bool,
    /// When the store began to close.
    closing: Option<Instant>,
    /// The writer is gone.
    ended: bool,
}

/// What the writer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Write,
    End,
}

/// Ends the queue when the writer ends or panics, so that nobody waits for ever.
pub(crate) struct EndOnDrop<'a, W: Wake>(&'a Queue<W>);

impl<W: Wake> Queue<W> {
    /// A queue with a limit on records and a commit interval.
    pub(crate) fn new(limit: usize, commit_interval: Duration) -> Self {
        let limit = limit.max(1);
        let inbox = Inbox { work: Work::with_room(limit), ..Inbox::default() };
        Self {
            inbox: Mutex::new(inbox),
            wake: W::default(),
            pending: AtomicUsize::new(0),
            limit,
            commit_interval,
        }
    }

    /// Appends a record. The writer is woken by the first record and by the one that
    /// fills half of the queue, but not by those between, which would cost a burst of
    /// calls its CPU time.
    ///
    /// In a long outage the engine starts no calls, but each call that it refuses leaves
    /// a record as well. To bound that, beyond twice the limit only calls that ran are
    /// recorded.
    pub(crate) fn append(&self, record: CallRecord) {
        if record.attempts == 0 && self.pending.load(Ordering::Relaxed) >= 2 * self.limit {
            tracing::debug!(call = %record.id, "a refused call is not recorded: too many wait");
            return;
        }
        let mut inbox = self.inbox.lock();
        inbox.appended += 1;
        if inbox.ended {
            // The writer is gone; a flush reports it.
            return;
        }
        inbox.work.records.push(record);
        let waiting = inbox.work.records.len();
        self.pending.fetch_add(1, Ordering::Relaxed);
        drop(inbox);
        if waiting == 1 || waiting == self.enough() {
            self.wake.wake();
        }
    }

    /// Appends an intent, to be written at once: those that arrive while the writer is
    /// busy form the next group commit. Refuses it if too many are pending.
    pub(crate) fn begin(&self, begin: Begin) -> Result<(), Error> {
        let mut inbox = self.inbox.lock();
        let (waiting, limit) = (inbox.work.begins.len(), self.limit);
        if waiting >= limit {
            let why = format!("{limit} calls wait for the record store already; try again later");
            return Err(unavailable(why));
        }
        inbox.hasten(|work| work.begins.push(begin));
        drop(inbox);
        self.wake.wake();
        Ok(())
    }

    /// Appends an output, to be written at once.
    fn keep(&self, output: KeepOutput) {
        self.inbox.lock().hasten(|work| work.outputs.push(output));
        self.wake.wake();
    }

    /// Appends a health check of writing.
    pub(crate) fn probe(&self, probe: Probe) {
        self.inbox.lock().hasten(|work| work.probes.push(probe));
        self.wake.wake();
    }

    /// Number of records that were appended but not committed yet.
    pub(crate) fn left(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Requests a flush. Returns how many records must be committed for it to be
    /// complete.
    pub(crate) fn hurry(&self) -> u64 {
        let mut inbox = self.inbox.lock();
        let appended = inbox.appended;
        let idle = self.pending.load(Ordering::Relaxed) == 0;
        inbox.hurry |= !idle;
        drop(inbox);
        if !idle {
            self.wake.wake();
        }
        appended
    }

    /// Lets the writer flush the rest and stop.
    pub(crate) fn close(&self) {
        self.inbox.lock().closing = Some(Instant::now());
        self.wake.wake();
    }

    pub(crate) fn keeps_up(&self) -> bool {
        self.pending.load(Ordering::Relaxed) < self.limit
    }

    /// Called by the writer: records were committed.
    pub(crate) fn committed(&self, records: usize) {
        self.pending.fetch_sub(records, Ordering::Relaxed);
    }

    /// Called by the writer: nothing more will be written. Wakes everybody who waits, and
    /// returns the number of lost records.
    pub(crate) fn end(&self) -> usize {
        let mut inbox = self.inbox.lock();
        inbox.ended = true;
        mem::take(&mut inbox.work).records.len()
    }

    /// Called by the writer: a guard that ends the queue with it.
    pub(crate) fn end_on_drop(&self) -> EndOnDrop<'_, W> {
        EndOnDrop(self)
    }

    /// Whether to commit without gathering any longer.
    fn is_due(&self, inbox: &Inbox) -> bool {
        inbox.is_pressed() || inbox.work.records.len() >= self.enough()
    }

    /// How many records make a commit worthwhile.
    fn enough(&self) -> usize {
        (self.limit / 2).max(1)
    }
}

impl<W: Wake> Drop for EndOnDrop<'_, W> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Inbox {
    /// Appends work for which somebody waits. If the writer is gone, it is dropped, which
    /// tells them.
    fn hasten(&mut self, put: impl FnOnce(&mut Work)) {
        if !self.ended {
            put(&mut self.work);
            self.hurry = true;
        }
    }

    /// What the writer does next; `None` if it has to wait.
    fn next(&mut self) -> Option<Next> {
        if !self.work.is_empty() {
            return Some(Next::Write);
        }
        self.hurry = false;
        self.closing.map(|_| Next::End)
    }

    fn is_pressed(&self) -> bool {
        self.hurry || self.closing.is_some()
    }

    /// Swaps all pending work for the given empty lists.
    fn hand_over(&mut self, work: &mut Work) {
        self.hurry = false;
        mem::swap(&mut self.work, work);
    }

    /// Takes the pending work that must not wait for the end of an outage.
    fn hand_over_impatient(&mut self) -> Work {
        self.hurry = false;
        Work {
            begins: mem::take(&mut self.work.begins),
            outputs: mem::take(&mut self.work.outputs),
            probes: mem::take(&mut self.work.probes),
            records: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{Notify, oneshot};
    use windlass::{CallId, TenantId};

    use super::*;

    async fn ended<W: Wake>() {
        let queue = Queue::<W>::new(1, Duration::ZERO);
        let (tenant, id) = (TenantId::default(), CallId::at(jiff::Timestamp::now()));
        let keep = |done| KeepOutput { tenant: tenant.clone(), id, bytes: Some(Vec::new()), done };
        let (early, waits) = oneshot::channel();
        queue.keep(keep(early));
        drop(queue.end_on_drop());
        assert!(waits.await.is_err());
        let (late, waits) = oneshot::channel();
        queue.keep(keep(late));
        assert!(waits.await.is_err());
    }

    #[tokio::test]
    async fn nobody_waits_for_a_writer_that_has_ended() {
        ended::<parking_lot::Condvar>().await;
        ended::<Notify>().await;
    }
}
