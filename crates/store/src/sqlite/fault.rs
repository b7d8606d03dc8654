//! Errors of SQLite, with the name of the file and advice.

use std::path::Path;

use rusqlite::ErrorCode;
use windlass::Error;

use super::file_identity::is_moved;
use crate::fault::unavailable;

/// The error of an operation on a database file.
///
/// `what` finishes the sentence "cannot …".
pub(crate) fn storage(path: &Path, what: &str, cause: rusqlite::Error) -> Error {
    let file = path.display();
    let why = match cause.sqlite_error_code() {
        _ if is_moved(&cause) => format!(
            "{cause}; nothing more is written: put back what was there, or restart windlass to use what is there now"
        ),
        Some(ErrorCode::NotADatabase) => format!(
            "{file} is not a SQLite database (or is encrypted); name another file, or move it away to begin with an empty one"
        ),
        Some(ErrorCode::DatabaseCorrupt) => format!(
            "{file} is corrupt; stop all windlass processes, then restore a backup, or save what is left with `sqlite3 '{file}' .recover`, or move it and its -wal and -shm files away to begin with an empty one"
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            format!("{file} is locked by another process; find it with `fuser '{file}'`")
        }
        Some(ErrorCode::DiskFull) => format!("the disk that holds {file} is full; free some space"),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => format!(
            "{file} cannot be opened for reading and writing; check that it and its folder belong to the user who runs windlass"
        ),
        _ => format!("{file}: {cause}"),
    };
    unavailable(format!("cannot {what}: {why}")).with_source(cause)
}

/// Whether the row exists already: the only constraint that a record can violate.
pub(crate) fn is_duplicate(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// Whether another connection holds the lock.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
