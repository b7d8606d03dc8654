//! What the store and its writer share: the records that wait, and how far
//! the writer has come.
//!
//! Appending takes one short lock. The writer swaps the whole list for an
//! empty one, so the lock is never held while anything is written.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;
use windlass::{CallId, CallRecord, Error, TenantId};

use crate::options::Options;

/// Records on their way to the writer.
pub(crate) struct Queue {
    inbox: Mutex<Inbox>,
    /// Wakes the writer.
    wake: Condvar,
    /// Records that were appended and are not committed yet.
    pending: AtomicUsize,
    limit: usize,
    commit_interval: Duration,
}

struct Inbox {
    records: Vec<CallRecord>,
    outputs: Vec<KeepOutput>,
    /// How many records were ever appended.
    appended: u64,
    /// Somebody waits: do not gather any longer.
    hurry: bool,
    closing: bool,
}

/// An output to keep, and who waits for it.
pub(crate) struct KeepOutput {
    pub(crate) tenant: TenantId,
    pub(crate) id: CallId,
    pub(crate) bytes: Vec<u8>,
    pub(crate) done: oneshot::Sender<Result<(), Error>>,
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
                records: Self::buffer(options),
                outputs: Vec::new(),
                appended: 0,
                hurry: false,
                closing: false,
            }),
            wake: Condvar::new(),
            pending: AtomicUsize::new(0),
            limit: options.queue.max(1),
            commit_interval: options.commit_interval,
        }
    }

    /// Room for what gathers before the writer comes, so that no append pays
    /// for growing the list.
    pub(crate) fn buffer(options: &Options) -> Vec<CallRecord> {
        Vec::with_capacity(options.queue.min(16_384))
    }

    /// Takes a record. The writer is woken by the first record and by the one
    /// that fills half of the queue, not by those between: a burst of calls
    /// shares its processors with nobody.
    pub(crate) fn append(&self, record: CallRecord) {
        let mut inbox = self.inbox.lock();
        inbox.records.push(record);
        inbox.appended += 1;
        let waiting = inbox.records.len();
        self.pending.fetch_add(1, Ordering::Relaxed);
        drop(inbox);
        if waiting == 1 || waiting == self.enough() {
            self.wake.notify_one();
        }
    }

    /// Takes an output, to be written at once.
    pub(crate) fn keep(&self, output: KeepOutput) {
        let mut inbox = self.inbox.lock();
        inbox.outputs.push(output);
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

    /// The writer's side: says that records are committed.
    pub(crate) fn committed(&self, records: usize) {
        self.pending.fetch_sub(records, Ordering::Relaxed);
    }

    /// The writer's side: waits until there is something to write, gathers for
    /// the commit interval, and swaps it into the given empty lists. Whatever
    /// waits already has come at `earliest` or later.
    pub(crate) fn next(
        &self,
        records: &mut Vec<CallRecord>,
        outputs: &mut Vec<KeepOutput>,
        earliest: Instant,
    ) -> Next {
        let mut inbox = self.inbox.lock();
        let mut first = earliest;
        while inbox.is_empty() {
            inbox.hurry = false;
            if inbox.closing {
                return Next::End;
            }
            self.wake.wait(&mut inbox);
            first = Instant::now();
        }
        self.gather(&mut inbox, first + self.commit_interval);
        inbox.hurry = false;
        mem::swap(&mut inbox.records, records);
        mem::swap(&mut inbox.outputs, outputs);
        Next::Write
    }

    fn gather(&self, inbox: &mut MutexGuard<'_, Inbox>, until: Instant) {
        while !inbox.hurry && !inbox.closing && inbox.records.len() < self.enough() {
            if self.wake.wait_until(inbox, until).timed_out() {
                break;
            }
        }
    }

    /// The writer's side: waits after a failure, but not when somebody is in a
    /// hurry. Returns the outputs that came in the meantime, which do not wait
    /// for better times, and whether the store is closing.
    pub(crate) fn pause(&self, time: Duration) -> (Vec<KeepOutput>, bool) {
        let until = Instant::now() + time;
        let mut inbox = self.inbox.lock();
        while !inbox.hurry && !inbox.closing {
            if self.wake.wait_until(&mut inbox, until).timed_out() {
                break;
            }
        }
        inbox.hurry = false;
        (mem::take(&mut inbox.outputs), inbox.closing)
    }

    /// How many records are worth a commit of their own.
    fn enough(&self) -> usize {
        (self.limit / 2).max(1)
    }
}

impl Inbox {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.outputs.is_empty()
    }
}
