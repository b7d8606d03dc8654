//! Notices that a database file was deleted, replaced or moved while it is open.
//!
//! SQLite goes on writing to a file that has no name any more, and says that all
//! is well: whatever is committed then is gone when the process ends. So each
//! commit is framed by a look at what the path names now, by device and inode: a
//! commit is acknowledged only if the file that it went to was still there
//! afterwards. A look costs a few microseconds.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, ffi};

/// What a path names: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(u64, u64);

/// The files of an open database, as they were when it was opened.
#[derive(Debug)]
pub(crate) struct FileIdentity(Vec<(PathBuf, Identity)>);

impl FileIdentity {
    /// Of the file alone, before it is opened.
    pub(crate) fn before(path: &Path) -> io::Result<Self> {
        Ok(Self(vec![(path.to_owned(), identity(path)?)]))
    }

    /// With the write-ahead log and its index, once a connection has them open.
    /// As long as one has, SQLite neither removes nor replaces them.
    ///
    /// # Errors
    ///
    /// Where the file is not the one of before.
    pub(crate) fn with_log(mut self) -> rusqlite::Result<Self> {
        self.check()?;
        let Some((path, _)) = self.0.first() else { return Ok(self) };
        // The log lies beside the file itself, and not beside a link to it.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        for ending in ["-wal", "-shm"] {
            let mut name = real.clone().into_os_string();
            name.push(ending);
            let file = PathBuf::from(name);
            if let Ok(found) = identity(&file) {
                self.0.push((file, found));
            }
        }
        Ok(self)
    }

    /// Refuses to go on with files that are not those which were opened.
    pub(crate) fn check(&self) -> rusqlite::Result<()> {
        self.0.iter().try_for_each(|(path, opened)| {
            let what = match identity(path) {
                Ok(found) if found == *opened => return Ok(()),
                Ok(_) => "was replaced while it was in use".to_owned(),
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                    "was deleted or moved while it was in use".to_owned()
                }
                Err(cause) => format!("cannot be looked at any more ({cause})"),
            };
            Err(moved(format!("{} {what}", path.display())))
        })
    }
}

/// Whether an error says that the files are not those which were opened.
pub(crate) fn is_moved(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|own| own.extended_code == ffi::SQLITE_READONLY_DBMOVED)
}

/// SQLite's own error for it, which it has only without a write-ahead log.
fn moved(what: String) -> rusqlite::Error {
    let code =
        ffi::Error { code: ErrorCode::ReadOnly, extended_code: ffi::SQLITE_READONLY_DBMOVED };
    rusqlite::Error::SqliteFailure(code, Some(what))
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path)?;
    Ok(Identity(found.dev(), found.ino()))
}

/// Where files that are open cannot be deleted, it is enough that there is one.
#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|_| Identity(0, 0))
}
