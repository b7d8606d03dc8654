//! Final status of a call.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorKind;

/// Final status of a call.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The call has a result.
    Succeeded,
    /// The tool or its upstream failed.
    Failed,
    /// The call never ran: unknown or inactive tool, invalid arguments, a
    /// missing secret, a full queue.
    Refused,
    /// The call exceeded its deadline.
    TimedOut,
    /// The caller cancelled the call or went away.
    Cancelled,
    /// The process ended while the call ran.
    Interrupted,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 6] = [
        Self::Succeeded,
        Self::Failed,
        Self::Refused,
        Self::TimedOut,
        Self::Cancelled,
        Self::Interrupted,
    ];

    /// The status of a call that ended with this error, before or after it
    /// started to run.
    pub fn of(kind: ErrorKind, ran: bool) -> Self {
        match kind {
            ErrorKind::Timeout => Self::TimedOut,
            ErrorKind::Cancelled => Self::Cancelled,
            ErrorKind::Interrupted => Self::Interrupted,
            _ if ran => Self::Failed,
            _ => Self::Refused,
        }
    }

    /// The name, as stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

impl FromStr for Status {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|status| status.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|status| status.name()).collect();
            format!("unknown status `{name}`; use one of {}", known.join(", "))
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
