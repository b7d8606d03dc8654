//! Encoding of a record's values, shared by all databases.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use windlass::{Details, Output, Status, Usage};

/// The run-time bucket of calls that never ran; part of a key, so not null.
pub(crate) const NEVER_RAN: i64 = -1;

/// Maximum difference between the time in a call's id and its `created_at`.
pub(crate) const ID_SLACK_MS: i64 = 1000;

/// The stored code of a status. Part of the format of files and databases.
pub(crate) fn status_code(status: Status) -> i16 {
    match status {
        Status::Succeeded => 0,
        Status::Failed => 1,
        Status::Refused => 2,
        Status::TimedOut => 3,
        Status::Cancelled => 4,
        Status::Interrupted => 5,
    }
}

pub(crate) fn read_status(code: i64) -> Option<Status> {
    Status::ALL.into_iter().find(|&status| i64::from(status_code(status)) == code)
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

/// JSON can be written deeper than it can be parsed (127 levels). Such a record is shown
/// as text, rather than fail the page that it is on.
pub(crate) fn read_json(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_owned()))
}

pub(crate) fn read_output(json: &str) -> Output {
    serde_json::from_str(json).unwrap_or_else(|_| Output::text(json))
}

/// The model usage in the details of a record.
pub(crate) fn usage_in(details: &str) -> Option<Usage> {
    serde_json::from_str::<Details>(details).ok()?.usage
}

/// The smallest id that a call at this time may have.
pub(crate) fn first_id(time: Timestamp, shift_ms: i64) -> [u8; 16] {
    let millis = time.as_millisecond().saturating_add(shift_ms).max(0);
    let mut id = [0; 16];
    id[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
    id
}
