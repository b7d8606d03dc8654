//! Looks at a database without changing it, for whoever wants to know whether
//! a store could work with it.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use windlass::Error;

use super::fault::storage;
use super::schema;

/// How many complaints about damage are told.
const MAX_DAMAGE: usize = 5;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// Migrations that the database has seen; none where it has no tables yet.
    pub version: u64,
    /// Migrations that this program knows.
    pub known: u64,
    /// What is damaged.
    pub damage: Vec<String>,
    /// Why it cannot be written to.
    pub read_only: Option<String>,
    /// What time it is there, where it has a clock of its own.
    pub clock: Option<Timestamp>,
}

/// Looks at a SQLite file: whether it is ours, whole, and can be written to.
///
/// # Errors
///
/// Where it cannot be opened, is another program's, or was written by a newer
/// windlass.
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

/// Takes the lock of a writer and gives it back.
fn cannot_write(path: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Only what is written shows that writing works; it is taken back.
    transaction.execute_batch("CREATE TABLE windlass_examination (unused INTEGER)")?;
    transaction.rollback()
}
