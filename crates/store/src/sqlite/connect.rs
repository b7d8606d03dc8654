//! Opens connections for the writer and for readers.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use windlass::Error;

use super::fault::{is_busy, storage};
use super::file_identity::FileIdentity;
use super::options::Options;
use super::schema;
use crate::fault::unavailable;

/// Rows have a few hundred bytes; inserts were measured to be 15 to 20 % faster than with
/// pages of 4096 bytes.
const PAGE_BYTES: u32 = 8192;

/// Checkpoint interval of the write-ahead log, in pages (32 MB).
const CHECKPOINT_PAGES: u32 = 4000;

/// Maximum size of the log file after a checkpoint.
const LOG_BYTES: u32 = 64 * 1024 * 1024;

/// How long the writer waits for a lock before it checks whether to go on waiting.
const LOCK_SLICE: Duration = Duration::from_millis(100);

/// Size of the readers' memory map.
const READER_MAP_BYTES: i64 = 1024 * 1024 * 1024;

/// Page cache of the writer, in KiB.
const CACHE_KIB: u32 = 64 * 1024;

/// The write connection. Creates the file and migrates the schema.
pub fn writer(path: &Path, options: &Options) -> Result<Connection, Error> {
    create(path).map_err(|cause| {
        unavailable(format!("cannot create {}: {cause}", path.display())).with_source(cause)
    })?;
    let fault = |cause| storage(path, "open the record store", cause);
    let mut connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, options).map_err(fault)?;
    schema::check(&connection, path)?;
    set_up(&connection, options).map_err(fault)?;
    schema::migrate(&mut connection, path)?;
    connection.busy_timeout(options.busy_timeout.min(LOCK_SLICE)).map_err(fault)?;
    Ok(connection)
}

/// The write connection, and the identity of the file for later checks.
pub(crate) fn identified(
    path: &Path,
    options: &Options,
) -> Result<(Connection, Arc<FileIdentity>), Error> {
    let gone = |cause: io::Error| {
        unavailable(format!("cannot create {}: {cause}", path.display())).with_source(cause)
    };
    create(path).map_err(gone)?;
    let before = FileIdentity::before(path).map_err(gone)?;
    let connection = writer(path, options)?;
    let identity =
        before.with_log().map_err(|cause| storage(path, "open the record store", cause))?;
    Ok((connection, Arc::new(identity)))
}

/// Another write connection to the file that was opened before.
pub(crate) fn another_writer(
    path: &Path,
    options: &Options,
    identity: &FileIdentity,
) -> rusqlite::Result<Connection> {
    identity.check()?;
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, options)?;
    set_up(&connection, options)?;
    connection.busy_timeout(options.busy_timeout.min(LOCK_SLICE))?;
    identity.check()?;
    Ok(connection)
}

/// Begins a write transaction. Waits for other processes until `give_up` says otherwise,
/// which SQLite's busy timeout could not do. After that, the transaction waits for
/// nobody.
pub(crate) fn lock<'a>(
    connection: &'a Connection,
    give_up: &dyn Fn() -> bool,
) -> rusqlite::Result<Transaction<'a>> {
    loop {
        match Transaction::new_unchecked(connection, TransactionBehavior::Immediate) {
            Err(error) if is_busy(&error) && !give_up() => {}
            end => return end,
        }
    }
}

/// A read-only connection to the file that was opened before.
pub(crate) fn reader(
    path: &Path,
    options: &Options,
    identity: &FileIdentity,
) -> rusqlite::Result<Connection> {
    identity.check()?;
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY, options)?;
    // Reading a page of a large database was measured to be a quarter faster.
    connection.pragma_update(None, "mmap_size", READER_MAP_BYTES)?;
    identity.check()?;
    Ok(connection)
}

/// Without `SQLITE_OPEN_URI`, so that any path is taken literally; without SQLite's
/// mutex, as each connection is used by one thread at a time.
fn open(path: &Path, mode: OpenFlags, options: &Options) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(options.busy_timeout)?;
    Ok(connection)
}

/// Creates the file with access for its owner only: records hold what people asked.
fn create(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    let mut file = fs::OpenOptions::new();
    file.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    match file.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Creates a directory and its parents with access for the owner only, whatever the
/// umask. An existing one is left as it is.
pub fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn set_up(connection: &Connection, options: &Options) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    turn_on_wal(connection, options.busy_timeout)?;
    connection.pragma_update(None, "synchronous", options.synchronous.pragma())?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    connection.pragma_update(None, "cache_size", -i64::from(CACHE_KIB))?;
    connection.pragma_update(None, "foreign_keys", true)
}

/// SQLite does not wait for locks when it changes the journal mode, which matters when
/// several processes start on a new file at once.
fn turn_on_wal(connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
    let give_up = Instant::now() + patience;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if is_busy(&error) && Instant::now() < give_up => {
                thread::sleep(Duration::from_millis(5));
            }
            end => return end,
        }
    }
}
