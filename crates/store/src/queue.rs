//! What a store and its writer share: the work that waits, and how far the
//! writer has come.
//!
//! Appending takes one short lock. The writer swaps the whole list for an
//! empty one, so the lock is never held while anything is written.
//!
//! What is counted and bounded is the same for every store. Writers differ in
//! how they wait: on a thread of their own (`thread`), or in a task (`task`).

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

/// Work on its way to the writer, whom `W` wakes.
pub(crate) struct Queue<W: Wake> {
    inbox: Mutex<Inbox>,
    wake: W,
    /// Records that were appended and are not committed yet.
    pending: AtomicUsize,
    limit: usize,
    commit_interval: Duration,
}

/// Wakes a writer that waits, now or as soon as it does.
pub(crate) trait Wake: Default {
    fn wake(&self);
}

#[derive(Default)]
struct Inbox {
    work: Work,
    /// How many records were ever appended.
    appended: u64,
    /// Somebody waits: do not gather any longer.
    hurry: bool,
    /// Since when the store closes.
    closing: Option<Instant>,
    /// There is no writer any more.
    ended: bool,
}

/// What the writer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Write,
    End,
}

/// Ends a queue when the writer goes away, also when it panics, so that nobody
/// waits for ever.
pub(crate) struct EndOnDrop<'a, W: Wake>(&'a Queue<W>);

impl<W: Wake> Queue<W> {
    /// A queue that is full with so many records, and whose writer gathers for
    /// so long.
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

    /// Takes a record. The writer is woken by the first record and by the one
    /// that fills half of the queue, not by those between: a burst of calls
    /// shares its processors with nobody.
    ///
    /// In a long outage the engine starts no calls, but each one that it refuses
    /// leaves a record, too. There must be an end to that: beyond twice the limit
    /// only calls that ran are still recorded.
    pub(crate) fn append(&self, record: CallRecord) {
        if record.attempts == 0 && self.pending.load(Ordering::Relaxed) >= 2 * self.limit {
            tracing::debug!(call = %record.id, "a refused call is not recorded: too many wait");
            return;
        }
        let mut inbox = self.inbox.lock();
        inbox.appended += 1;
        if inbox.ended {
            // Nothing takes it any more, as a flush will say.
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

    /// Takes an intent, to be written at once: what gathers while the writer
    /// is busy is the group that it commits next. Refuses it where too many
    /// wait.
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

    /// Takes an output, to be written at once.
    fn keep(&self, output: KeepOutput) {
        self.inbox.lock().hasten(|work| work.outputs.push(output));
        self.wake.wake();
    }

    /// Takes somebody who wants to know whether anything can be written.
    pub(crate) fn probe(&self, probe: Probe) {
        self.inbox.lock().hasten(|work| work.probes.push(probe));
        self.wake.wake();
    }

    /// How many records were appended and are not committed yet.
    pub(crate) fn left(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Lets the writer write now. Returns how many records must be committed
    /// for everything appended so far to be kept.
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

    /// Lets the writer write what is left and end.
    pub(crate) fn close(&self) {
        self.inbox.lock().closing = Some(Instant::now());
        self.wake.wake();
    }

    pub(crate) fn keeps_up(&self) -> bool {
        self.pending.load(Ordering::Relaxed) < self.limit
    }

    /// The writer's side: says that records are committed.
    pub(crate) fn committed(&self, records: usize) {
        self.pending.fetch_sub(records, Ordering::Relaxed);
    }

    /// The writer's side: nothing will be written any more. Whoever waits hears
    /// of it. Returns how many records are lost.
    pub(crate) fn end(&self) -> usize {
        let mut inbox = self.inbox.lock();
        inbox.ended = true;
        mem::take(&mut inbox.work).records.len()
    }

    /// The writer's side: ends the queue with the writer.
    pub(crate) fn end_on_drop(&self) -> EndOnDrop<'_, W> {
        EndOnDrop(self)
    }

    /// Whether to commit without gathering any more.
    fn is_due(&self, inbox: &Inbox) -> bool {
        inbox.is_pressed() || inbox.work.records.len() >= self.enough()
    }

    /// How many records are worth a commit of their own.
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
    /// Takes work for which somebody waits. Where there is no writer, dropping
    /// it tells them.
    fn hasten(&mut self, put: impl FnOnce(&mut Work)) {
        if !self.ended {
            put(&mut self.work);
            self.hurry = true;
        }
    }

    /// What the writer does; nothing as long as it has to wait.
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

    /// Swaps all that waits for the given empty lists.
    fn hand_over(&mut self, work: &mut Work) {
        self.hurry = false;
        mem::swap(&mut self.work, work);
    }

    /// Hands over what waits, but not for better times.
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
