//! The one task that writes.
//!
//! It owns the connection that writes, and a batch stays with it until it is
//! committed: while the server is away it connects again and again, nothing is
//! lost, and the queue fills up until the engine holds back. Intents do not
//! wait for better times: whoever asked is told that the call must not run.

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
use super::session::Session;
use super::{outputs, retention};
use crate::queue::{
    Begin, Interrupted, KeepOutput, Next, Probe, Progress, TaskQueue, Work, answer,
};

/// Rows in one transaction: more would keep records out of sight for longer.
const TRANSACTION_ROWS: usize = 4096;

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often the writer says that its process lives, and looks for others
/// that do not.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How often a transaction is tried before it has failed.
const ATTEMPTS: u32 = 3;

/// How often a closing store tries to write what is left.
const LAST_ATTEMPTS: u32 = 3;

/// Rows that retention removes in one step.
const RETENTION_STEP: i64 = 1000;

pub(crate) struct Writer {
    options: PostgresOptions,
    queue: Arc<TaskQueue>,
    progress: watch::Sender<Progress>,
    interrupted: Arc<Interrupted>,
    session: Session,
    /// The session's, which is the same for all its connections.
    owner: i32,
    place: Arc<str>,
    outage: Option<Outage>,
    next_beat: Instant,
    gone_up_to: GoneUpTo,
}

/// A time in which nothing can be written.
struct Outage {
    since: Instant,
    pause: Duration,
    attempts_while_closing: u32,
}

impl Writer {
    /// Connects, and brings the database up to date.
    pub(crate) async fn start(
        target: Target,
        options: PostgresOptions,
        queue: Arc<TaskQueue>,
        progress: watch::Sender<Progress>,
        interrupted: Arc<Interrupted>,
    ) -> Result<Self, Error> {
        let place = Arc::clone(&target.place);
        let mut session = Session::new(target);
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

    /// Who we are.
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
                // Whoever has to know finds it in the progress.
                let _ = self.beat().await;
            }
        }
        self.leave().await;
    }

    /// Ends without having written.
    pub(crate) async fn leave(self) {
        self.session.leave(self.options.connect_timeout).await;
    }

    /// Writes a batch, however long it takes.
    async fn write_records(&mut self, mut begins: Vec<Begin>, mut records: &[CallRecord]) {
        while !begins.is_empty() || !records.is_empty() {
            let rows = Rows::first_of(records, TRANSACTION_ROWS);
            let (part, rest) = records.split_at(rows.len());
            let tried = mem::take(&mut begins);
            match self.commit(&tried, part, &rows).await {
                Ok(committed) => {
                    for (begin, begun) in tried.into_iter().zip(committed.begun) {
                        // Who asked may have gone away.
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

    /// Something in a batch is refused, whenever it is tried. One by one, so
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

    /// Commits, again where that helps: all of it may be done twice.
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

    /// A server that is stopped and not gone answers never.
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

    /// Tells those who wait, then pauses. Returns whether to try again.
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

    /// Notes that nothing can be written. From now on intents are refused
    /// without being tried.
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

    /// Outputs are tried once: whoever asked is still there to hear that it
    /// failed.
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

    /// Lets go of what is too old. It can wait: a failure shows elsewhere too.
    async fn make_room(&mut self, kept_calls: i64, added: usize) {
        let keep = self.options.keep_records;
        if u64::try_from(kept_calls).unwrap_or_default() <= keep {
            return;
        }
        // More than came, so that it catches up.
        let step = i64::try_from(added * 2).unwrap_or(RETENTION_STEP).max(RETENTION_STEP);
        let Ok((client, _)) = self.session.client().await else { return };
        if let Err(cause) = retention::forget_calls(client, keep, step, &mut self.gone_up_to).await
        {
            tracing::warn!(%cause, database = %self.place, "old records cannot be removed");
        }
    }

    /// Writes the row of the owner, for those who want to know whether that works.
    async fn answer_probes(&mut self, probes: Vec<Probe>) {
        if probes.is_empty() {
            return;
        }
        let end = self.beat().await;
        for probe in probes {
            // Who asked may have gone away.
            let _ = probe.send(end.clone());
        }
    }

    /// Says that this process lives, closes the calls of those that do not,
    /// and lets old keys go. Finds out that the server is away, or back.
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
