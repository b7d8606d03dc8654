//! Closes orphans: intents whose process has died become records of interrupted calls.
//!
//! Whoever opens a store does this for all dead processes. Several may try at once: each
//! reads what is left within its own transaction, so every orphan is closed once. The
//! intents of a living process are never touched.

use rusqlite::Connection;
use uuid::Uuid;
use windlass::{CallRecord, Intent};

use super::connect::lock;
use super::intents;
use super::owner::Owner;
use super::retention;
use super::rows::insert_new;
use super::stats::Counts;

/// Maximum number of intents closed in one transaction.
const TRANSACTION_ROWS: usize = 8192;

/// Closes the intents of all dead owners, and passes each batch to `closed` once it is
/// committed.
pub(crate) fn close_all(
    connection: &Connection,
    owner: &Owner,
    give_up: &dyn Fn() -> bool,
    mut closed: impl FnMut(Vec<CallRecord>),
) -> rusqlite::Result<()> {
    let mut gone = intents::owners(connection)?;
    gone.extend(owner.others());
    gone.sort_unstable();
    gone.dedup();
    gone.retain(|&other| owner.is_dead(other));
    for dead in gone {
        while has_intents(connection, dead)? {
            let transaction = lock(connection, give_up)?;
            let records = close(&transaction, dead)?;
            transaction.commit()?;
            closed(records);
        }
        owner.bury(dead);
    }
    Ok(())
}

/// Closes intents of a dead owner: usually all, or as many as fit into a transaction.
pub(crate) fn close(connection: &Connection, dead: Uuid) -> rusqlite::Result<Vec<CallRecord>> {
    let mut counts = Counts::default();
    let mut closed = Vec::new();
    for intent in intents::of_owner(connection, dead, TRANSACTION_ROWS)? {
        let record = Intent::interrupted(intent);
        // If the record exists nevertheless, the call has finished.
        if insert_new(connection, &record)? {
            counts.add(&record);
            intents::forget(connection, &record)?;
            closed.push(record);
        } else {
            intents::forget(connection, &record)?;
        }
    }
    counts.write(connection)?;
    retention::add_records(connection, &counts)?;
    Ok(closed)
}

fn has_intents(connection: &Connection, owner: Uuid) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM intents WHERE owner = ?)",
        [owner.as_bytes()],
        |row| row.get(0),
    )
}
