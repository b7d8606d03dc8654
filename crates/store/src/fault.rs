//! The error of a store that its database did not cause.

use windlass::{Error, ErrorKind};

/// What cannot be kept or read for now.
pub(crate) fn unavailable(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::StorageUnavailable, message)
}
