//! The writer task: the only one that writes records.
//!
//! It owns the write connection, and keeps a batch until it is committed: during an
//! outage it reconnects again and again, nothing is lost, and the queue fills up until
//! backpressure stops the engine. Intents do not wait for the end of an outage: their
//! callers are told that the call must not run.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use windlass::{CallRecord, Error};

use super::batch::{self, Committed};
use super::connect::Target;
use super::fault::{Fault, no_answer};
use super::options::PostgresOptions;
use super::retention::GoneUpTo;
use super::rows::Rows;
use super::session::WriterSession;
use super::{outputs, retention};
use crate::queue::{
    Begin, Interrupted, KeepOutput, Next, Probe, Progress, TaskQueue, Work, answer,
};

/// Maximum rows in one transaction: more would delay the visibility of records.
const TRANSACTION_ROWS: usize = 4096;

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Heartbeat interval, at which other owners are checked as well.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Attempts at a transaction before it counts as failed.
const ATTEMPTS: u32 = 3;

/// Attempts of a closing store to write what is left.
const LAST_ATTEMPTS: u32 = 3;

/// Maximum rows deleted in one retention step.
const RETENTION_STEP: i64 = 1000;

pub(crate) struct Writer {
    options: PostgresOptions,
    queue: Arc<TaskQueue>,
    progress: watch::Sender<Progress>,
    interrupted: Arc<Interrupted>,
    session: WriterSession,
    /// The owner id, the same for all connections of the session.
    owner: i32,
    place: Arc<str>,
    outage: Option<Outage>,
    next_beat: Instant,
    gone_up_to: GoneUpTo,
}

/// An outage, in which nothing can be written.
struct Outage {
    since: Instant,
    pause: Duration,
    attempts_while_closing: u32,
}

impl Writer {
    /// Connects, and migrates the database.
    pub(crate) async fn start(
        target: Target,
        options: PostgresOptions,
        queue: Arc<TaskQueue>,
        progress: watch::Sender<Progress>,
        interrupted: Arc<Interrupted>,
    ) -> Result<Self, Error> {
        let place = Arc::clone(&target.place);
        let mut session = WriterSession::new(target);
        let mut closed = Vec::new();
        let beat = session.beat(options.grace, &mut closed).await;
        beat.map_err(|fault| fault.at(&place, "open the record store"))?;
        let (_, owner) =
            session.client().await.map_err(|fault| fault.at(&place, "open the record store"))?;
        let next_beat = Instant::now() + HEARTBEAT;
        let outage = None;
        let writer = Self {
            options,
            queue,
            progress,
            interrupted,
            session,
            owner,
            place,
            outage,
            next_beat,
            gone_up_to: GoneUpTo::default(),
        };
        writer.hand_out(closed);
        Ok(writer)
    }

    /// Our owner id.
    pub(crate) fn owner(&self) -> i32 {
        self.owner
    }

    /// Writes until the queue is closed and empty.
    pub(crate) async fn run(mut self) {
        let queue = Arc::clone(&self.queue);
        let _end = queue.end_on_drop();
        let mut work = Work::with_room(self.options.queue);
        let mut taken = Instant::now();
        loop {
            match queue.next(&mut work, taken, self.next_beat).await {
                Some(Next::End) => break,
                None => {}
                Some(Next::Write) => {
                    taken = Instant::now();
                    self.write_outputs(mem::take(&mut work.outputs)).await;
                    self.answer_probes(mem::take(&mut work.probes)).await;
                    self.write_records(mem::take(&mut work.begins), &work.records).await;
                    work.records.clear();
                }
            }
            if Instant::now() >= self.next_beat {
                // A failure is reported through the progress.
                let _ = self.beat().await;
            }
        }
        self.leave().await;
    }

    /// Stops without having written.
    pub(crate) async fn leave(self) {
        self.session.leave(self.options.connect_timeout).await;
    }

    /// Writes a batch, however long that takes.
    async fn write_records(&mut self, mut begins: Vec<Begin>, mut records: &[CallRecord]) {
        while !begins.is_empty() || !records.is_empty() {
            let rows = Rows::first_of(records, TRANSACTION_ROWS);
            let (part, rest) = records.split_at(rows.len());
            let tried = mem::take(&mut begins);
            match self.commit(&tried, part, &rows).await {
                Ok(committed) => {
                    for (begin, begun) in tried.into_iter().zip(committed.begun) {
                        // The caller may have gone away.
                        let _ = begin.done.send(Ok(begun));
                    }
                    self.succeeded(part.len());
                    self.make_room(committed.kept_calls, part.len()).await;
                    records = rest;
                }
                Err(fault) if tried.is_empty() && fault.is_in_the_data() => {
                    self.write_each(part).await;
                    records = rest;
                }
                Err(fault) => {
                    if !self.failed(fault, Work::of(tried)).await {
                        tracing::error!(
                            lost = records.len(),
                            database = %self.place,
                            "the record store closes without its last records"
                        );
                        return;
                    }
                }
            }
        }
    }

    /// Something in the batch is rejected every time. Writes the records one by one, so
    /// that only the culprit is lost.
    async fn write_each(&mut self, records: &[CallRecord]) {
        for record in records {
            let one = std::slice::from_ref(record);
            loop {
                match self.commit(&[], one, &Rows::of(one)).await {
                    Ok(_) => break,
                    Err(fault) if fault.is_in_the_data() => {
                        let error = fault.at(&self.place, "write a call record");
                        tracing::error!(%error, call = %record.id, "the record of a call is lost");
                        break;
                    }
                    Err(fault) => {
                        if !self.failed(fault, Work::default()).await {
                            return;
                        }
                    }
                }
            }
            self.succeeded(1);
        }
    }

    /// Commits, with retries where they help: the transaction is idempotent.
    async fn commit(
        &mut self,
        begins: &[Begin],
        records: &[CallRecord],
        rows: &Rows<'_>,
    ) -> Result<Committed, Fault> {
        let mut attempt = 1;
        loop {
            match self.try_commit(begins, records, rows).await {
                Err(fault) if fault.is_worth_another_try() && attempt < ATTEMPTS => attempt += 1,
                end => return end,
            }
        }
    }

    async fn try_commit(
        &mut self,
        begins: &[Begin],
        records: &[CallRecord],
        rows: &Rows<'_>,
    ) -> Result<Committed, Fault> {
        let patience = self.patience();
        let (client, owner) = self.session.client().await?;
        let end = timeout(patience, batch::commit(client, owner, begins, records, rows)).await;
        let end = end
            .unwrap_or_else(|_| Err(no_answer(&self.place, "write call records", patience).into()));
        if let Err(fault) = &end {
            self.session.doubt(fault);
        }
        end
    }

    /// A suspended server never answers.
    fn patience(&self) -> Duration {
        self.options.statement_timeout + Duration::from_secs(1)
    }

    fn succeeded(&mut self, records: usize) {
        if let Some(outage) = self.outage.take() {
            tracing::info!(
                database = %self.place,
                seconds = outage.since.elapsed().as_secs_f64(),
                "the record store can be written again"
            );
        }
        self.queue.committed(records);
        self.progress.send_modify(|progress| progress.succeeded(records));
    }

    /// Reports the failure to those who wait, then backs off. Returns whether to retry.
    async fn failed(&mut self, fault: Fault, waiting: Work) -> bool {
        let (error, pause) = self.note(fault);
        waiting.refuse(&error);
        let (waiting, closing) = self.queue.pause(SHORTEST_PAUSE, pause).await;
        waiting.refuse(&error);
        let Some(outage) = &mut self.outage else { return true };
        if closing {
            outage.attempts_while_closing += 1;
        }
        outage.attempts_while_closing < LAST_ATTEMPTS
    }

    /// Begins an outage. From now on intents are refused without an attempt.
    fn note(&mut self, fault: Fault) -> (Error, Duration) {
        let error = fault.at(&self.place, "write call records");
        let outage = self.outage.get_or_insert_with(|| {
            tracing::error!(%error, "call records are kept in memory until they can be written");
            Outage { since: Instant::now(), pause: SHORTEST_PAUSE, attempts_while_closing: 0 }
        });
        let pause = outage.pause;
        outage.pause = (pause * 2).min(LONGEST_PAUSE);
        self.progress.send_modify(|progress| progress.failed(error.clone()));
        (error, pause)
    }

    /// Outputs are tried once, since the caller is still there to hear of a failure.
    async fn write_outputs(&mut self, kept: Vec<KeepOutput>) {
        if kept.is_empty() {
            return;
        }
        let end = self.try_outputs(&kept).await;
        let end = end.map_err(|fault| fault.at(&self.place, "keep an output"));
        answer(kept, &end);
    }

    async fn try_outputs(&mut self, kept: &[KeepOutput]) -> Result<(), Fault> {
        let (patience, room) = (self.patience(), self.options.keep_outputs_bytes);
        let (client, _) = self.session.client().await?;
        let end = timeout(patience, outputs::keep(client, kept, room)).await;
        let end =
            end.unwrap_or_else(|_| Err(no_answer(&self.place, "keep an output", patience).into()));
        if let Err(fault) = &end {
            self.session.doubt(fault);
        }
        end
    }

    /// Deletes old data. It is no problem if that fails: the next write shows the error.
    async fn make_room(&mut self, kept_calls: i64, added: usize) {
        let keep = self.options.keep_records;
        if u64::try_from(kept_calls).unwrap_or_default() <= keep {
            return;
        }
        // More than was added, to catch up.
        let step = i64::try_from(added * 2).unwrap_or(RETENTION_STEP).max(RETENTION_STEP);
        let Ok((client, _)) = self.session.client().await else { return };
        if let Err(cause) = retention::forget_calls(client, keep, step, &mut self.gone_up_to).await
        {
            tracing::warn!(%cause, database = %self.place, "old records cannot be removed");
        }
    }

    /// Writes our owner row, as a health check of writing.
    async fn answer_probes(&mut self, probes: Vec<Probe>) {
        if probes.is_empty() {
            return;
        }
        let end = self.beat().await;
        for probe in probes {
            // The caller may have gone away.
            let _ = probe.send(end.clone());
        }
    }

    /// Writes the heartbeat, closes the calls of dead owners, and deletes old keys.
    /// Detects the beginning and the end of an outage.
    async fn beat(&mut self) -> Result<(), Error> {
        let patience = self.patience();
        let (grace, keep_keys) = (self.options.grace, self.options.keep_keys);
        let mut closed = Vec::new();
        let work = async {
            self.session.beat(grace, &mut closed).await?;
            let (client, _) = self.session.client().await?;
            retention::forget_keys(client, keep_keys, RETENTION_STEP).await?;
            Ok(())
        };
        let end = timeout(patience, work).await;
        let end = end
            .unwrap_or_else(|_| Err(no_answer(&self.place, "write call records", patience).into()));
        let end = match end {
            Ok(()) => {
                self.succeeded(0);
                Ok(())
            }
            Err(fault) => {
                self.session.doubt(&fault);
                let (error, _) = self.note(fault);
                self.queue.impatient().refuse(&error);
                Err(error)
            }
        };
        self.hand_out(closed);
        self.next_beat = Instant::now() + HEARTBEAT;
        end
    }

    fn hand_out(&self, closed: Vec<CallRecord>) {
        self.interrupted.add(&self.place, closed);
    }
}
