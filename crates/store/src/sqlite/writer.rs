//! The writer thread: the only one that writes records.
//!
//! It owns the write connection, and keeps a batch until it is committed: if the disk is
//! full or another process holds the lock, it retries, nothing is lost, and the queue
//! fills up until backpressure stops the engine. Intents do not wait like that: the
//! caller is told the result of the first attempt, and an intent that arrives during an
//! outage triggers an attempt at once.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use windlass::{CallRecord, Error};

use super::batch::{BatchWriter, Entered};
use super::fault::storage;
use super::options::Options;
use crate::fault::unavailable;
use crate::queue::{
    Begin, Interrupted, KeepOutput, Next, Probe, Progress, ThreadQueue, Work, answer,
};

/// Maximum rows in one transaction: more would delay the visibility of records.
const TRANSACTION_ROWS: usize = 8192;

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Lock timeout during an outage: whoever wants to begin a call should not wait long to
/// hear that it cannot.
const OUTAGE_PATIENCE: Duration = Duration::from_millis(500);

pub(crate) struct Writer {
    batch_writer: BatchWriter,
    path: PathBuf,
    options: Options,
    queue: Arc<ThreadQueue>,
    progress: watch::Sender<Progress>,
    interrupted: Arc<Interrupted>,
    outage: Option<Outage>,
    /// Pending health checks, which the next attempt answers.
    probes: Vec<Probe>,
    /// Some orphaned intents could not be closed yet.
    orphans_left: bool,
}

/// An outage, in which nothing can be written.
struct Outage {
    since: Instant,
    pause: Duration,
}

impl Writer {
    pub(crate) fn new(
        batch_writer: BatchWriter,
        path: PathBuf,
        options: Options,
        queue: Arc<ThreadQueue>,
        progress: watch::Sender<Progress>,
        interrupted: Arc<Interrupted>,
    ) -> Self {
        Self {
            batch_writer,
            path,
            options,
            queue,
            progress,
            interrupted,
            outage: None,
            probes: Vec::new(),
            orphans_left: false,
        }
    }

    /// Closes orphaned intents. If that fails, for instance because the disk is full, the
    /// store is still readable, and each later successful commit triggers another
    /// attempt.
    pub(crate) fn close_orphans(&mut self) {
        let give_up = self.give_up_after(self.options.busy_timeout);
        let (interrupted, place) = (&self.interrupted, self.path.display());
        let closed = |records| interrupted.add(&place, records);
        let end = self.batch_writer.close_orphans(&give_up, closed);
        self.orphans_left = end.is_err();
        if let Err(cause) = end {
            let error = storage(&self.path, "close the calls that were interrupted", cause);
            tracing::error!(%error, "interrupted calls stay open until they can be written");
        }
    }

    /// Writes until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let queue = Arc::clone(&self.queue);
        let _end = queue.end_on_drop();
        let mut work = Work::with_room(self.options.queue);
        let mut taken = Instant::now();
        while queue.next(&mut work, taken) == Next::Write {
            taken = Instant::now();
            self.write_outputs(&mut work.outputs);
            self.probe(mem::take(&mut work.probes));
            let lost = self.write(mem::take(&mut work.begins), &work.records);
            if lost > 0 {
                tracing::error!(
                    lost = lost + queue.end(),
                    file = %self.path.display(),
                    "the record store closes without its last records"
                );
                return;
            }
            work.records.clear();
        }
    }

    /// Writes a batch, however long that takes. Returns how many records are left because
    /// the store closes.
    fn write(&mut self, mut begins: Vec<Begin>, mut records: &[CallRecord]) -> usize {
        loop {
            self.make_known(&mut begins);
            if begins.is_empty() && records.is_empty() {
                return 0;
            }
            let (part, rest) = records.split_at(records.len().min(TRANSACTION_ROWS));
            let give_up = self.give_up_after(self.patience());
            match self.batch_writer.enter(&begins, part, &give_up) {
                Ok(entered) => {
                    self.succeeded(part.len(), mem::take(&mut begins), entered);
                    records = rest;
                }
                Err(cause) => {
                    self.failed(cause, mem::take(&mut begins));
                    if records.is_empty() {
                        return 0;
                    }
                    if self.queue.closes_for(self.options.close_timeout) {
                        return records.len();
                    }
                    self.pause(&mut begins);
                }
            }
        }
    }

    /// Takes the owner's lock before the first intent is written, so that others see that
    /// its owner is alive. Intents whose caller has gone away meanwhile are dropped.
    fn make_known(&mut self, begins: &mut Vec<Begin>) {
        begins.retain(|begin| !begin.done.is_closed());
        if begins.is_empty() {
            return;
        }
        if let Err(cause) = self.batch_writer.hold() {
            let error =
                unavailable(format!("cannot lock a file beside {}: {cause}", self.path.display()))
                    .with_source(cause);
            Work::of(mem::take(begins)).refuse(&error);
        }
    }

    fn succeeded(&mut self, records: usize, begins: Vec<Begin>, entered: Entered) {
        if let Some(outage) = self.outage.take() {
            tracing::info!(
                file = %self.path.display(),
                seconds = outage.since.elapsed().as_secs_f64(),
                "the record store can be written again"
            );
        }
        self.queue.committed(records);
        self.progress.send_modify(|progress| progress.succeeded(records));
        self.answer_probes(&Ok(()));
        self.interrupted.add(&self.path.display(), entered.interrupted);
        for (begin, begun) in begins.into_iter().zip(entered.begun) {
            // The caller may have gone away; the call's record is written all the same.
            let _ = begin.done.send(Ok(begun));
        }
        if self.orphans_left {
            self.close_orphans();
        }
    }

    /// Reports a failure to those who wait.
    fn failed(&mut self, cause: rusqlite::Error, begins: Vec<Begin>) {
        let error = storage(&self.path, "write call records", cause);
        self.outage.get_or_insert_with(|| {
            tracing::error!(%error, "call records are kept in memory until they can be written");
            Outage { since: Instant::now(), pause: SHORTEST_PAUSE }
        });
        self.progress.send_modify(|progress| progress.failed(error.clone()));
        Work::of(begins).refuse(&error);
        self.answer_probes(&Err(error));
    }

    /// Backs off before the next attempt, longer each time.
    fn pause(&mut self, begins: &mut Vec<Begin>) {
        let Some(outage) = &mut self.outage else { return };
        let pause = outage.pause;
        outage.pause = (pause * 2).min(LONGEST_PAUSE);
        let mut waiting = self.queue.pause(pause, self.options.close_timeout);
        begins.append(&mut waiting.begins);
        self.probes.append(&mut waiting.probes);
        let why = self.progress.borrow().outage.clone();
        if let Some(error) = why {
            waiting.refuse(&error);
        }
    }

    /// When to give up waiting for a lock.
    fn give_up_after(&self, time: Duration) -> impl Fn() -> bool + use<> {
        let (queue, close_timeout) = (Arc::clone(&self.queue), self.options.close_timeout);
        let began = Instant::now();
        move || began.elapsed() >= time || queue.closes_for(close_timeout)
    }

    fn patience(&self) -> Duration {
        let patience = self.options.busy_timeout;
        if self.outage.is_some() { patience.min(OUTAGE_PATIENCE) } else { patience }
    }

    /// Tries to write, to answer health checks.
    fn probe(&mut self, mut probes: Vec<Probe>) {
        if probes.is_empty() {
            return;
        }
        self.probes.append(&mut probes);
        let give_up = self.give_up_after(self.patience());
        match self.batch_writer.probe(&give_up) {
            Ok(()) => self.succeeded(0, Vec::new(), Entered::default()),
            Err(cause) => self.failed(cause, Vec::new()),
        }
    }

    fn answer_probes(&mut self, end: &Result<(), Error>) {
        for probe in self.probes.drain(..) {
            // The caller may have gone away.
            let _ = probe.send(end.clone());
        }
    }

    /// Unlike records, outputs are tried once: the caller is still there to hear of a
    /// failure.
    fn write_outputs(&mut self, outputs: &mut Vec<KeepOutput>) {
        if outputs.is_empty() {
            return;
        }
        let give_up = self.give_up_after(self.patience());
        let end = self
            .batch_writer
            .keep_outputs(outputs, self.options.keep_outputs_bytes, &give_up)
            .map_err(|cause| storage(&self.path, "keep an output", cause));
        answer(outputs.drain(..), &end);
    }
}
