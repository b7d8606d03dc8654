//! The one thread that writes.
//!
//! It owns the connection that writes, and a batch stays with it until it is
//! committed: when the disk is full or another process holds the lock, it
//! tries again and again, nothing is lost, and the queue fills up until the
//! engine holds back. Statistics are counted in the same transaction as the
//! records, so the two never disagree.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::watch;
use windlass::{CallRecord, Error, Status, TenantId};

use crate::fault::{is_duplicate, storage};
use crate::options::Options;
use crate::outputs;
use crate::queue::{KeepOutput, Next, Progress, Queue};
use crate::rows::{NEVER_RAN, insert_new, insert_records, status_code};

/// Rows in one transaction: more would keep records out of sight for longer.
const TRANSACTION_ROWS: usize = 8192;

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often a closing store tries to write what is left.
const LAST_ATTEMPTS: u32 = 3;

pub(crate) struct Writer {
    connection: Connection,
    path: PathBuf,
    options: Options,
    queue: Arc<Queue>,
    progress: watch::Sender<Progress>,
    counts: Counts,
    outage: Option<Outage>,
}

/// Calls by tenant, tool, status and run-time bucket.
type Counts = HashMap<(TenantId, Arc<str>, Status, Option<u32>), u64, ahash::RandomState>;

/// A time in which nothing can be written.
struct Outage {
    since: Instant,
    pause: Duration,
    attempts_while_closing: u32,
}

impl Writer {
    pub(crate) fn new(
        connection: Connection,
        path: PathBuf,
        options: Options,
        queue: Arc<Queue>,
        progress: watch::Sender<Progress>,
    ) -> Self {
        Self { connection, path, options, queue, progress, counts: Counts::default(), outage: None }
    }

    /// Writes until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let mut records = Queue::buffer(&self.options);
        let mut outputs = Vec::new();
        let mut taken = Instant::now();
        let queue = Arc::clone(&self.queue);
        while queue.next(&mut records, &mut outputs, taken) == Next::Write {
            taken = Instant::now();
            self.write_outputs(&mut outputs);
            self.write_records(&records);
            records.clear();
        }
    }

    /// Writes a batch, however long it takes.
    fn write_records(&mut self, mut records: &[CallRecord]) {
        while !records.is_empty() {
            let (part, rest) = records.split_at(records.len().min(TRANSACTION_ROWS));
            match self.commit(part) {
                Ok(()) => {
                    self.succeeded(part.len());
                    records = rest;
                }
                Err(cause) => {
                    if !self.failed(cause) {
                        tracing::error!(
                            lost = records.len(),
                            file = %self.path.display(),
                            "the record store closes without its last records"
                        );
                        return;
                    }
                }
            }
        }
    }

    fn commit(&mut self, records: &[CallRecord]) -> rusqlite::Result<()> {
        match self.try_commit(records, insert_all) {
            // Rare, and then worth finding out which one: whatever was
            // committed before stays, and is counted once.
            Err(error) if is_duplicate(&error) => self.try_commit(records, insert_missing),
            end => end,
        }
    }

    fn try_commit(
        &mut self,
        records: &[CallRecord],
        insert: fn(&Transaction<'_>, &[CallRecord], &mut Counts) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        self.counts.clear();
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        insert(&transaction, records, &mut self.counts)?;
        add_counts(&transaction, &self.counts)?;
        transaction.commit()
    }

    fn succeeded(&mut self, records: usize) {
        if let Some(outage) = self.outage.take() {
            tracing::info!(
                file = %self.path.display(),
                seconds = outage.since.elapsed().as_secs_f64(),
                "the record store can be written again"
            );
        }
        self.queue.committed(records);
        self.progress.send_modify(|progress| progress.committed += records as u64);
    }

    /// Tells those who wait, then pauses. Returns whether to try again.
    fn failed(&mut self, cause: rusqlite::Error) -> bool {
        let error = storage(&self.path, "write call records", cause);
        let outage = self.outage.get_or_insert_with(|| {
            tracing::error!(%error, "call records are kept in memory until they can be written");
            Outage { since: Instant::now(), pause: SHORTEST_PAUSE, attempts_while_closing: 0 }
        });
        let pause = outage.pause;
        outage.pause = (pause * 2).min(LONGEST_PAUSE);
        self.progress.send_modify(|progress| {
            progress.failures += 1;
            progress.error = Some(error.clone());
        });
        let (outputs, closing) = self.queue.pause(pause);
        answer(outputs, &Err(error));
        if closing {
            outage.attempts_while_closing += 1;
        }
        outage.attempts_while_closing < LAST_ATTEMPTS
    }

    /// Unlike records, outputs are tried once: whoever asked is still there to
    /// hear that it failed.
    fn write_outputs(&mut self, outputs: &mut Vec<KeepOutput>) {
        if outputs.is_empty() {
            return;
        }
        let end = outputs::keep(&mut self.connection, outputs, self.options.keep_outputs_bytes)
            .map_err(|cause| storage(&self.path, "keep an output", cause));
        answer(outputs.drain(..), &end);
    }
}

fn answer(outputs: impl IntoIterator<Item = KeepOutput>, end: &Result<(), Error>) {
    for output in outputs {
        // Who asked may have gone away.
        let _ = output.done.send(end.clone());
    }
}

fn insert_all(
    transaction: &Transaction<'_>,
    records: &[CallRecord],
    counts: &mut Counts,
) -> rusqlite::Result<()> {
    insert_records(transaction, records)?;
    records.iter().for_each(|record| count(record, counts));
    Ok(())
}

fn insert_missing(
    transaction: &Transaction<'_>,
    records: &[CallRecord],
    counts: &mut Counts,
) -> rusqlite::Result<()> {
    for record in records {
        if insert_new(transaction, record)? {
            count(record, counts);
        }
    }
    Ok(())
}

fn count(record: &CallRecord, counts: &mut Counts) {
    let key =
        (record.caller.tenant.clone(), record.counted_as(), record.status, record.run_bucket());
    *counts.entry(key).or_default() += 1;
}

fn add_counts(transaction: &Transaction<'_>, counts: &Counts) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO call_stats (tenant, tool, status, bucket, count) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET count = count + excluded.count",
    )?;
    for ((tenant, tool, status, bucket), &count) in counts {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let bucket = bucket.map_or(NEVER_RAN, i64::from);
        statement.execute((tenant.as_str(), &**tool, status_code(*status), bucket, count))?;
    }
    Ok(())
}
