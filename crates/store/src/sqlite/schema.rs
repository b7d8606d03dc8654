//! Database schema and migrations.
//!
//! `user_version` is the number of applied migrations; `application_id` marks the
//! database as ours, so that a mistyped path does not add our tables to the database of
//! another program.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};
use windlass::Error;

use super::fault::storage;
use crate::fault::unavailable;

/// `WNDL`.
const APPLICATION_ID: i32 = 0x574e_444c;

/// One script for each version; scripts are only added, never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_calls.sql"),
    include_str!("../../migrations/0002_intents.sql"),
    include_str!("../../migrations/0003_documents.sql"),
    include_str!("../../migrations/0004_model_usage.sql"),
    include_str!("../../migrations/0005_write_probe.sql"),
    include_str!("../../migrations/0006_tenant_records.sql"),
    include_str!("../../migrations/0007_document_owners.sql"),
    include_str!("../../migrations/0008_forgotten_events.sql"),
    include_str!("../../migrations/0009_call_lists.sql"),
];

/// Rejects a file that is not a database, belongs to another program, or was written by a
/// newer version. Changes nothing.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<(), Error> {
    let fault = |cause| storage(path, "open the record store", cause);
    let (version, tables) = state(connection).map_err(fault)?;
    let application = number(connection, "PRAGMA application_id").map_err(fault)?;
    let ours = application == i64::from(APPLICATION_ID);
    if !ours && (application != 0 || version != 0 || tables > 0) {
        return Err(unavailable(format!(
            "cannot open the record store: {} is the database of another program; name another file",
            path.display()
        )));
    }
    if version > MIGRATIONS.len() as i64 {
        return Err(unavailable(format!(
            "cannot open the record store: {} has version {version}, this windlass knows versions up to {}; use a newer windlass, or name another file",
            path.display(),
            MIGRATIONS.len()
        )));
    }
    Ok(())
}

/// Applies missing migrations in one transaction. Processes that start together wait for
/// one another at the lock, and the later ones find nothing left to do.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), Error> {
    let fault = |cause| storage(path, "prepare the tables of the record store", cause);
    if state(connection).map_err(fault)?.0 == MIGRATIONS.len() as i64 {
        return Ok(());
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
    check(&transaction, path)?;
    let (version, _) = state(&transaction).map_err(fault)?;
    let seen = usize::try_from(version).unwrap_or_default();
    let apply = || {
        for script in &MIGRATIONS[seen..] {
            transaction.execute_batch(script)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)
    };
    apply().map_err(fault)?;
    transaction.commit().map_err(fault)
}

/// Number of applied migrations, and of known ones.
pub(crate) fn versions(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    let (version, _) = state(connection)?;
    Ok((u64::try_from(version).unwrap_or_default(), MIGRATIONS.len() as u64))
}

/// The version and the number of tables.
fn state(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    Ok((
        number(connection, "PRAGMA user_version")?,
        number(connection, "SELECT count(*) FROM sqlite_schema")?,
    ))
}

fn number(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.query_row(sql, [], |row| row.get(0))
}
