//! [`Exit`], the table of exit codes; and [`Failure`], an error with an exit code
//! and a hint.

use std::fmt;
use std::io;

use windlass::{Error, ErrorKind};

macro_rules! exits {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        /// An exit code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Exit {
            $(#[doc = $meaning] $name,)*
        }

        impl Exit {
            /// All of them, in the order of their codes.
            const ALL: &[Self] = &[$(Self::$name),*];

            /// The number that the shell sees.
            pub(crate) const fn code(self) -> u8 {
                match self { $(Self::$name => $code,)* }
            }

            /// What it means, for the help.
            const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

exits! {
    Success = 0, "success";
    Failed = 1, "the tool ran and failed, a call of a batch did not succeed, or something else went wrong";
    Usage = 2, "bad usage: unknown option, invalid arguments, the key of another call, broken settings file";
    NotFound = 3, "no tool, call, provider, credential or key has this name or id";
    Timeout = 4, "the call did not end in time";
    Refused = 5, "the call was refused: inactive, not allowed, over a limit, or nothing here can run it";
    Definitions = 6, "`check` found errors in definitions";
    Storage = 7, "the database cannot be opened, read or written";
    Cancelled = 130, "cancelled with Ctrl-C";
}

impl Exit {
    /// The code of a call that ended with this kind of error.
    pub(crate) fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::InvalidArguments | ErrorKind::IdempotencyConflict => Self::Usage,
            ErrorKind::ToolNotFound | ErrorKind::ProviderNotFound => Self::NotFound,
            ErrorKind::Timeout => Self::Timeout,
            ErrorKind::ToolInactive
            | ErrorKind::ExecutorNotFound
            | ErrorKind::Denied
            | ErrorKind::ApprovalRequired
            | ErrorKind::AuthorizationRequired
            | ErrorKind::QueueFull
            | ErrorKind::RateLimited
            | ErrorKind::QuotaExceeded
            | ErrorKind::BatchLimit
            | ErrorKind::CircuitOpen
            | ErrorKind::Conflict
            | ErrorKind::DepthExceeded => Self::Refused,
            ErrorKind::InvalidDefinition | ErrorKind::AlreadyRegistered => Self::Definitions,
            ErrorKind::StorageUnavailable => Self::Storage,
            ErrorKind::Cancelled => Self::Cancelled,
            _ => Self::Failed,
        }
    }

    /// The table as the help shows it.
    pub(crate) fn table() -> String {
        let lines =
            Self::ALL.iter().map(|exit| format!("  {:>3}  {}", exit.code(), exit.meaning()));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Whoever read our output has gone; there is nobody left to tell.
    pub(crate) broken_pipe: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None, broken_pipe: false }
    }

    /// The person at the keyboard can put it right.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// What went wrong with something that a person named, such as a credential:
    /// that it does not exist, or does already, is for that person to put right.
    pub(crate) fn named(error: Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::new(Exit::NotFound, error.message()),
            ErrorKind::AlreadyRegistered => Self::usage(error.message()),
            _ => error.into(),
        }
    }

    /// Says what to do next.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        Self { broken_pipe, ..Self::new(Exit::Failed, error.to_string()) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Self::new(Exit::of(error.kind()), error.message());
        match failure.exit {
            Exit::Storage => {
                failure.hint("choose another database with --database URL, or `:memory:` for none")
            }
            _ => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_every_kind_has_one() {
        let codes: BTreeSet<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes.len(), Exit::ALL.len());
        for &kind in ErrorKind::ALL {
            assert_ne!(Exit::of(kind), Exit::Success, "{kind}");
        }
        for (kind, exit) in [
            (ErrorKind::CircuitOpen, Exit::Refused),
            (ErrorKind::BatchLimit, Exit::Refused),
            (ErrorKind::RateLimited, Exit::Refused),
            (ErrorKind::QuotaExceeded, Exit::Refused),
            (ErrorKind::IdempotencyConflict, Exit::Usage),
            (ErrorKind::Interrupted, Exit::Failed),
        ] {
            assert_eq!(Exit::of(kind), exit, "{kind}");
        }
    }
}
