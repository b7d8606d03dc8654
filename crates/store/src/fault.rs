//! Errors of a store that do not come from its database.

use windlass::{Error, ErrorKind};

/// The error of a store that is temporarily unavailable.
pub(crate) fn unavailable(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::StorageUnavailable, message)
}
