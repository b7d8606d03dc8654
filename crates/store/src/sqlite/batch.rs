//! One transaction of the writer: intents, records, and what follows from them.
//!
//! An intent is deleted in the transaction that stores its call's record. The writer
//! knows which intents are open, so a record without one costs a lookup in memory and no
//! statement.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, Transaction};
use windlass::{Begun, CallId, CallRecord};

use super::connect::lock;
use super::fault::is_duplicate;
use super::file_identity::FileIdentity;
use super::lists::Lists;
use super::owner::Owner;
use super::retention::Retention;
use super::rows::{insert_new, insert_records};
use super::stats::Counts;
use super::{intents, orphans, outputs};
use crate::queue::{Begin, KeepOutput};

/// How much a health check writes: a few pages, as the intent of a call does.
const PROBE_BYTES: i64 = 24 * 1024;

/// Maximum surplus of expired over new keys in one transaction.
const EXPIRE_STEP: usize = 100;

/// Writes batches, a transaction each. `owner` comes last: its lock is released once the
/// connection is closed and nothing is written any more.
pub(crate) struct BatchWriter {
    connection: Connection,
    identity: Arc<FileIdentity>,
    open: HashSet<CallId, ahash::RandomState>,
    counts: Counts,
    retention: Retention,
    keep_keys: Duration,
    owner: Arc<Owner>,
}

/// The result of a transaction.
#[derive(Default)]
pub(crate) struct Entered {
    /// The answer to each intent.
    pub(crate) begun: Vec<Begun>,
    /// Calls of dead processes that were closed on the way.
    pub(crate) interrupted: Vec<CallRecord>,
}

type Insert = fn(&Connection, &[CallRecord], &mut Counts) -> rusqlite::Result<()>;

impl BatchWriter {
    pub(crate) fn new(
        connection: Connection,
        identity: Arc<FileIdentity>,
        owner: Arc<Owner>,
        keep_records: u64,
        keep_keys: Duration,
    ) -> Self {
        Self {
            connection,
            identity,
            open: HashSet::default(),
            counts: Counts::default(),
            retention: Retention::new(keep_records),
            keep_keys,
            owner,
        }
    }

    /// Takes the lock that marks this process as the owner of intents.
    pub(crate) fn hold(&self) -> std::io::Result<()> {
        self.owner.hold()
    }

    /// Commits intents and records in one transaction.
    pub(crate) fn enter(
        &mut self,
        begins: &[Begin],
        records: &[CallRecord],
        give_up: &dyn Fn() -> bool,
    ) -> rusqlite::Result<Entered> {
        match self.try_enter(begins, records, insert_all, give_up) {
            // Rare, so it is then worth finding the duplicate one by one: what was
            // committed before stays, and is counted once.
            Err(error) if is_duplicate(&error) => {
                self.try_enter(begins, records, insert_missing, give_up)
            }
            end => end,
        }
    }

    /// Closes the calls of dead processes.
    pub(crate) fn close_orphans(
        &mut self,
        give_up: &dyn Fn() -> bool,
        closed: impl FnMut(Vec<CallRecord>),
    ) -> rusqlite::Result<()> {
        self.identity.check()?;
        orphans::close_all(&self.connection, &self.owner, give_up, closed)
    }

    /// Commits about as much as a beginning call would: only a commit shows that there is
    /// disk space.
    pub(crate) fn probe(&mut self, give_up: &dyn Fn() -> bool) -> rusqlite::Result<()> {
        self.identity.check()?;
        let transaction = lock(&self.connection, give_up)?;
        transaction
            .prepare_cached("UPDATE write_probe SET filler = randomblob(?)")?
            .execute([PROBE_BYTES])?;
        transaction.commit()?;
        self.identity.check()
    }

    /// Stores outputs, and deletes the oldest until all fit into `room` bytes.
    pub(crate) fn keep_outputs(
        &mut self,
        outputs: &[KeepOutput],
        room: u64,
        give_up: &dyn Fn() -> bool,
    ) -> rusqlite::Result<()> {
        self.identity.check()?;
        outputs::keep(&self.connection, outputs, room, give_up)?;
        self.identity.check()
    }

    fn try_enter(
        &mut self,
        begins: &[Begin],
        records: &[CallRecord],
        insert: Insert,
        give_up: &dyn Fn() -> bool,
    ) -> rusqlite::Result<Entered> {
        self.identity.check()?;
        let transaction = lock(&self.connection, give_up)?;
        let mut entered = Entered::default();
        let mut write = || {
            self.counts.clear();
            entered = begin(&transaction, begins, &self.owner, self.keep_keys)?;
            self.open.extend(kept(begins, &entered.begun));
            insert(&transaction, records, &mut self.counts)?;
            if !self.open.is_empty() {
                for record in records.iter().filter(|record| self.open.contains(&record.id)) {
                    intents::forget(&transaction, record)?;
                }
            }
            self.counts.write(&transaction)?;
            self.retention.make_room(&transaction, &self.counts)
        };
        match write().and_then(|()| transaction.commit()) {
            Ok(()) => {
                // A commit to a deleted file is acknowledged to nobody. The intents count
                // as open: should the file come back, they are deleted with the records
                // of the refused calls.
                self.identity.check()?;
                if !self.open.is_empty() {
                    for record in records {
                        self.open.remove(&record.id);
                    }
                }
                Ok(entered)
            }
            Err(error) => {
                for id in kept(begins, &entered.begun) {
                    self.open.remove(&id);
                }
                self.retention.forget();
                Err(error)
            }
        }
    }
}

/// The calls whose intents were stored.
fn kept(begins: &[Begin], begun: &[Begun]) -> impl Iterator<Item = CallId> {
    let new = begins.iter().zip(begun).filter(|(_, begun)| **begun == Begun::New);
    new.map(|(begin, _)| begin.intent.id)
}

fn begin(
    transaction: &Transaction<'_>,
    begins: &[Begin],
    owner: &Owner,
    keep_keys: Duration,
) -> rusqlite::Result<Entered> {
    let mut entered = Entered::default();
    if begins.is_empty() {
        return Ok(entered);
    }
    let now = Timestamp::now().as_microsecond();
    let keep = i64::try_from(keep_keys.as_micros()).unwrap_or(i64::MAX);
    let oldest_key = now.saturating_sub(keep);
    for Begin { intent, .. } in begins {
        let begun = intents::begin(transaction, intent, owner.id(), now, oldest_key)?;
        if let Begun::Duplicate(id) = begun {
            // There may be nobody else to close the call that this one waits for.
            let tenant = &intent.caller.tenant;
            while let Some(dead) =
                intents::owner_of(transaction, tenant, id)?.filter(|&other| owner.is_dead(other))
            {
                entered.interrupted.extend(orphans::close(transaction, dead)?);
            }
        }
        entered.begun.push(begun);
    }
    if begins.iter().any(|begin| begin.intent.key.is_some()) {
        intents::expire_keys(transaction, oldest_key, begins.len() + EXPIRE_STEP)?;
    }
    Ok(entered)
}

/// Inserts records and lists them. For the benchmark only: see [`crate::bare`].
pub fn insert_listed(connection: &Connection, records: &[CallRecord]) -> rusqlite::Result<()> {
    insert_records(connection, records)?;
    let mut lists = Lists::default();
    records.iter().for_each(|record| lists.add(record));
    lists.write(connection)
}

fn insert_all(
    connection: &Connection,
    records: &[CallRecord],
    counts: &mut Counts,
) -> rusqlite::Result<()> {
    insert_records(connection, records)?;
    records.iter().for_each(|record| counts.add(record));
    Ok(())
}

fn insert_missing(
    connection: &Connection,
    records: &[CallRecord],
    counts: &mut Counts,
) -> rusqlite::Result<()> {
    for record in records {
        if insert_new(connection, record)? {
            counts.add(record);
        }
    }
    Ok(())
}
