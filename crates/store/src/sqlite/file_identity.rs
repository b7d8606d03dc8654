//! Detects that an open database file was deleted, replaced or moved.
//!
//! SQLite goes on writing to a file without a name, and reports success: whatever is
//! committed then is lost when the process ends. So the path's device and inode are
//! checked before and after each commit, which is acknowledged only if the file was still
//! there afterwards. A check takes a few microseconds.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, ffi};

/// Identity of the file at a path: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(u64, u64);

/// Identities of the files of an open database, taken when it was opened.
#[derive(Debug)]
pub(crate) struct FileIdentity(Vec<(PathBuf, Identity)>);

impl FileIdentity {
    /// Of the main file only, before it is opened.
    pub(crate) fn before(path: &Path) -> io::Result<Self> {
        Ok(Self(vec![(path.to_owned(), identity(path)?)]))
    }

    /// Also of the write-ahead log and its index, once a connection has opened them. As
    /// long as it is open, SQLite neither removes nor replaces them.
    ///
    /// # Errors
    ///
    /// If the main file is another one than before.
    pub(crate) fn with_log(mut self) -> rusqlite::Result<Self> {
        self.check()?;
        let Some((path, _)) = self.0.first() else { return Ok(self) };
        // The log is beside the file itself, not beside a symbolic link to it.
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

    /// Fails if the files are not those that were opened.
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

/// Whether an error says that the files are not those that were opened.
pub(crate) fn is_moved(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|own| own.extended_code == ffi::SQLITE_READONLY_DBMOVED)
}

/// SQLite's own error for this case, which it detects only without a write-ahead log.
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

/// Where open files cannot be deleted, existence is enough.
#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|_| Identity(0, 0))
}
