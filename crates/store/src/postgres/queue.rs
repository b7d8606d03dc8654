//! What the store and its writer share: the work that waits, and how far the
//! writer has come.
//!
//! Appending takes one short lock. The writer swaps the whole list for an
//! empty one, so the lock is never held while anything is written.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};
use windlass::{CallRecord, Error};

use super::options::PostgresOptions;
use crate::queue::too_many_begins;
pub(crate) use crate::queue::{Begin, KeepOutput};

/// Work on its way to the writer.
pub(crate) struct Queue {
    inbox: Mutex<Inbox>,
    /// Wakes the writer.
    wake: Notify,
    /// Records that were appended and are not committed yet.
    pending: AtomicUsize,
    limit: usize,
    commit_interval: Duration,
}

#[derive(Default)]
struct Inbox {
    work: Work,
    /// How many records were ever appended.
    appended: u64,
    /// Somebody waits: do not gather any longer.
    hurry: bool,
    closing: bool,
}

/// What is to be written.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) records: Vec<CallRecord>,
    pub(crate) begins: Vec<Begin>,
    pub(crate) outputs: Vec<KeepOutput>,
}

/// How far the writer has come.
#[derive(Default)]
pub(crate) struct Progress {
    /// How many of the appended records are committed, or given up.
    pub(crate) committed: u64,
    /// How many attempts have failed.
    pub(crate) failures: u64,
    /// Why the last one failed; none once one has succeeded.
    pub(crate) outage: Option<Error>,
}

/// What the writer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Write,
    /// Nothing has come until the given time.
    Rest,
    End,
}

impl Queue {
    pub(crate) fn new(options: &PostgresOptions) -> Self {
        Self {
            inbox: Mutex::default(),
            wake: Notify::new(),
            pending: AtomicUsize::new(0),
            limit: options.queue.max(1),
            commit_interval: options.commit_interval,
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
        inbox.work.records.push(record);
        inbox.appended += 1;
        let waiting = inbox.work.records.len();
        self.pending.fetch_add(1, Ordering::Relaxed);
        drop(inbox);
        if waiting == 1 || waiting == self.enough() {
            self.wake.notify_one();
        }
    }

    /// Takes an intent, to be written at once: what gathers while the writer
    /// is busy is the group that it commits next. Refuses it where too many
    /// wait.
    pub(crate) fn begin(&self, begin: Begin) -> Result<(), Error> {
        if self.inbox.lock().work.begins.len() >= self.limit {
            return Err(too_many_begins(self.limit));
        }
        self.hasten(|work| work.begins.push(begin));
        Ok(())
    }

    /// Takes an output, to be written at once.
    pub(crate) fn keep(&self, output: KeepOutput) {
        self.hasten(|work| work.outputs.push(output));
    }

    fn hasten(&self, put: impl FnOnce(&mut Work)) {
        let mut inbox = self.inbox.lock();
        put(&mut inbox.work);
        inbox.hurry = true;
        drop(inbox);
        self.wake.notify_one();
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
            self.wake.notify_one();
        }
        appended
    }

    /// Lets the writer write what is left and end.
    pub(crate) fn close(&self) {
        self.inbox.lock().closing = true;
        self.wake.notify_one();
    }

    pub(crate) fn keeps_up(&self) -> bool {
        self.pending.load(Ordering::Relaxed) < self.limit
    }

    /// How many records were never committed.
    pub(crate) fn left(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// The writer's side: says that records are committed.
    pub(crate) fn committed(&self, records: usize) {
        self.pending.fetch_sub(records, Ordering::Relaxed);
    }

    /// The writer's side: waits until there is something to write, gathers for
    /// the commit interval, and swaps it into the given empty lists. Whatever
    /// waits already has come at `earliest` or later.
    pub(crate) async fn next(&self, work: &mut Work, earliest: Instant, rest: Instant) -> Next {
        let mut first = earliest;
        loop {
            {
                let mut inbox = self.inbox.lock();
                if !inbox.work.is_empty() {
                    break;
                }
                inbox.hurry = false;
                if inbox.closing {
                    return Next::End;
                }
            }
            if timeout_at(rest, self.wake.notified()).await.is_err() {
                return Next::Rest;
            }
            first = Instant::now();
        }
        self.gather(first + self.commit_interval).await;
        let mut inbox = self.inbox.lock();
        inbox.hurry = false;
        mem::swap(&mut inbox.work, work);
        Next::Write
    }

    async fn gather(&self, until: Instant) {
        let enough = |inbox: &Inbox| {
            inbox.hurry || inbox.closing || inbox.work.records.len() >= self.enough()
        };
        while !enough(&self.inbox.lock()) {
            if timeout_at(until, self.wake.notified()).await.is_err() {
                break;
            }
        }
    }

    /// The writer's side: waits after a failure, but only for `least` when
    /// somebody is in a hurry. Returns what came in the meantime and does not
    /// wait for better times, and whether the store is closing.
    pub(crate) async fn pause(&self, least: Duration, time: Duration) -> (Work, bool) {
        let until = Instant::now() + time;
        sleep(least).await;
        let pressed = |inbox: &Inbox| inbox.hurry || inbox.closing;
        while !pressed(&self.inbox.lock()) {
            if timeout_at(until, self.wake.notified()).await.is_err() {
                break;
            }
        }
        (self.impatient(), self.inbox.lock().closing)
    }

    /// The writer's side: what waits, but not for better times.
    pub(crate) fn impatient(&self) -> Work {
        let mut inbox = self.inbox.lock();
        inbox.hurry = false;
        Work {
            records: Vec::new(),
            begins: mem::take(&mut inbox.work.begins),
            outputs: mem::take(&mut inbox.work.outputs),
        }
    }

    /// How many records are worth a commit of their own.
    fn enough(&self) -> usize {
        (self.limit / 2).max(1)
    }
}

impl Work {
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.begins.is_empty() && self.outputs.is_empty()
    }

    /// Tells those who wait that it will not be.
    pub(crate) fn refuse(self, error: &Error) {
        for begin in self.begins {
            // Who asked may have gone away.
            let _ = begin.done.send(Err(error.clone()));
        }
        for output in self.outputs {
            let _ = output.done.send(Err(error.clone()));
        }
    }
}
