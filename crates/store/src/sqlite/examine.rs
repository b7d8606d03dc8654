//! Read-only health check of a SQLite file.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use windlass::Error;

use super::fault::storage;
use super::schema;

/// Maximum number of integrity errors reported.
const MAX_DAMAGE: usize = 5;

/// The result of a health check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// Number of applied migrations; 0 if there are no tables yet.
    pub version: u64,
    /// Number of migrations that this program knows.
    pub known: u64,
    /// Integrity errors.
    pub damage: Vec<String>,
    /// Why it cannot be written to.
    pub read_only: Option<String>,
    /// The database's time, if it has a clock of its own.
    pub clock: Option<Timestamp>,
}

/// Checks whether a SQLite file is ours, intact and writable.
///
/// # Errors
///
/// If it cannot be opened, belongs to another program, or was written by a newer version.
pub fn examine_file(path: &Path) -> Result<Examination, Error> {
    let fault = |cause| storage(path, "examine the database", cause);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(fault)?;
    schema::check(&connection, path)?;
    let (version, known) = schema::versions(&connection).map_err(fault)?;
    let damage = quick_check(&connection).map_err(fault)?;
    Ok(Examination {
        version,
        known,
        damage,
        read_only: cannot_write(path).err().map(|cause| cause.to_string()),
        clock: None,
    })
}

fn quick_check(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA quick_check({MAX_DAMAGE})"))?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let lines: Vec<String> = lines.collect::<Result<_, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// Takes the write lock and releases it.
fn cannot_write(path: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Only a write shows that writing works; it is rolled back.
    transaction.execute_batch("CREATE TABLE windlass_examination (unused INTEGER)")?;
    transaction.rollback()
}
