//! What the store and its writer share: what waits to be written, and how far
//! the writer has come.
//!
//! Appending takes one short lock. The writer swaps the whole batch for an
//! empty one, so the lock is never held while anything is written.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;
use windlass::{Begun, CallId, CallRecord, Error, Intent, TenantId};

use crate::fault::unavailable;
use crate::options::Options;

/// Records, intents and outputs on their way to the writer.
pub(crate) struct Queue {
    inbox: Mutex<Inbox>,
    /// Wakes the writer.
    wake: Condvar,
    /// Records that were appended and are not committed yet.
    pending: AtomicUsize,
    limit: usize,
    commit_interval: Duration,
    close_timeout: Duration,
}

struct Inbox {
    waiting: Batch,
    /// How many records were ever appended.
    appended: u64,
    /// Somebody waits: do not gather any longer.
    hurry: bool,
    /// Set when the store closes: until when to try to write what is left.
    close_by: Option<Instant>,
    /// There is no writer any more.
    ended: bool,
}

/// What is written together.
pub(crate) struct Batch {
    pub(crate) begins: Vec<Begin>,
    pub(crate) records: Vec<CallRecord>,
    pub(crate) outputs: Vec<KeepOutput>,
}

/// An intent to keep, and who waits for it.
pub(crate) struct Begin {
    pub(crate) intent: Intent,
    pub(crate) done: oneshot::Sender<Result<Begun, Error>>,
}

/// An output to keep, and who waits for it.
pub(crate) struct KeepOutput {
    pub(crate) tenant: TenantId,
    pub(crate) id: CallId,
    pub(crate) bytes: Vec<u8>,
    pub(crate) done: oneshot::Sender<Result<(), Error>>,
}

/// Why an intent is refused where so many wait.
pub(crate) fn too_many_begins(limit: usize) -> Error {
    unavailable(format!("{limit} calls wait for the record store already; try again later"))
}

/// How far the writer has come.
#[derive(Default)]
pub(crate) struct Progress {
    /// How many of the appended records are committed.
    pub(crate) committed: u64,
    /// How many attempts have failed.
    pub(crate) failures: u64,
    /// Why the last one failed.
    pub(crate) error: Option<Error>,
}

/// What the writer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Write,
    End,
}

impl Queue {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            inbox: Mutex::new(Inbox {
                waiting: Batch::new(options),
                appended: 0,
                hurry: false,
                close_by: None,
                ended: false,
            }),
            wake: Condvar::new(),
            pending: AtomicUsize::new(0),
            limit: options.queue.max(1),
            commit_interval: options.commit_interval,
            close_timeout: options.close_timeout,
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
        inbox.waiting.records.push(record);
        let waiting = inbox.waiting.records.len();
        self.pending.fetch_add(1, Ordering::Relaxed);
        drop(inbox);
        if waiting == 1 || waiting == self.enough() {
            self.wake.notify_one();
        }
    }

    /// Takes an intent, to be written at once; refuses it where too many wait.
    pub(crate) fn begin(&self, begin: Begin) -> Result<(), Error> {
        let mut inbox = self.inbox.lock();
        if inbox.waiting.begins.len() >= self.limit {
            return Err(too_many_begins(self.limit));
        }
        // Where there is no writer, dropping it tells who waits.
        if !inbox.ended {
            inbox.waiting.begins.push(begin);
            inbox.hurry = true;
        }
        drop(inbox);
        self.wake.notify_one();
        Ok(())
    }

    /// Takes an output, to be written at once.
    pub(crate) fn keep(&self, output: KeepOutput) {
        let mut inbox = self.inbox.lock();
        if !inbox.ended {
            inbox.waiting.outputs.push(output);
            inbox.hurry = true;
        }
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
        self.inbox.lock().close_by = Some(Instant::now() + self.close_timeout);
        self.wake.notify_one();
    }

    pub(crate) fn keeps_up(&self) -> bool {
        self.pending.load(Ordering::Relaxed) < self.limit
    }

    /// The writer's side: whether the store closes and has tried long enough.
    pub(crate) fn gives_up(&self) -> bool {
        self.inbox.lock().close_by.is_some_and(|end| Instant::now() >= end)
    }

    /// The writer's side: says that records are committed.
    pub(crate) fn committed(&self, records: usize) {
        self.pending.fetch_sub(records, Ordering::Relaxed);
    }

    /// The writer's side: waits until there is something to write, gathers for
    /// the commit interval, and swaps it into the given empty batch. Whatever
    /// waits already has come at `earliest` or later.
    pub(crate) fn next(&self, batch: &mut Batch, earliest: Instant) -> Next {
        let mut inbox = self.inbox.lock();
        let mut first = earliest;
        while inbox.waiting.is_empty() {
            inbox.hurry = false;
            if inbox.close_by.is_some() {
                return Next::End;
            }
            self.wake.wait(&mut inbox);
            first = Instant::now();
        }
        self.gather(&mut inbox, first + self.commit_interval);
        inbox.hurry = false;
        mem::swap(&mut inbox.waiting, batch);
        Next::Write
    }

    fn gather(&self, inbox: &mut MutexGuard<'_, Inbox>, until: Instant) {
        let enough = self.enough();
        while !inbox.hurry && inbox.close_by.is_none() && inbox.waiting.records.len() < enough {
            if self.wake.wait_until(inbox, until).timed_out() {
                break;
            }
        }
    }

    /// The writer's side: waits after a failure, but not when somebody is in a
    /// hurry. Takes the intents that came in the meantime, to be tried with the
    /// records that wait, and returns the outputs, which do not wait for better
    /// times.
    pub(crate) fn pause(&self, time: Duration, begins: &mut Vec<Begin>) -> Vec<KeepOutput> {
        let mut until = Instant::now() + time;
        let mut inbox = self.inbox.lock();
        while !inbox.hurry {
            until = inbox.close_by.map_or(until, |end| end.min(until));
            if self.wake.wait_until(&mut inbox, until).timed_out() {
                break;
            }
        }
        inbox.hurry = false;
        begins.append(&mut inbox.waiting.begins);
        mem::take(&mut inbox.waiting.outputs)
    }

    /// The writer's side: nothing will be written any more. Whoever waits hears
    /// of it. Returns how many records are lost.
    pub(crate) fn end(&self) -> usize {
        let mut inbox = self.inbox.lock();
        inbox.ended = true;
        inbox.waiting.begins.clear();
        inbox.waiting.outputs.clear();
        mem::take(&mut inbox.waiting.records).len()
    }

    /// How many records are worth a commit of their own.
    fn enough(&self) -> usize {
        (self.limit / 2).max(1)
    }
}

impl Batch {
    /// An empty one, with room for what gathers before the writer comes, so
    /// that no append pays for growing the list.
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            begins: Vec::new(),
            records: Vec::with_capacity(options.queue.min(16_384)),
            outputs: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.begins.is_empty() && self.records.is_empty() && self.outputs.is_empty()
    }
}
