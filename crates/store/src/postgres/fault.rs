//! Errors of PostgreSQL, with the name of the database and advice.
//!
//! A place is `host:port/database`: no text here can contain a password, because none is
//! made from the URL.

use std::error::Error as _;
use std::time::Duration;

use windlass::Error;

pub(crate) use crate::fault::unavailable;

/// Why an operation on a connection failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error of the server or of the connection.
    Driver(tokio_postgres::Error),
    /// A check of our own failed.
    Refused(Error),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(cause: tokio_postgres::Error) -> Self {
        Self::Driver(cause)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Fault {
    /// The SQLSTATE code, if the server sent one.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Driver(cause) => cause.code().map(tokio_postgres::error::SqlState::code),
            Self::Refused(_) => None,
        }
    }

    /// Whether the data is the cause rather than the state of the server, so that a retry
    /// would fail again.
    pub(crate) fn is_in_the_data(&self) -> bool {
        match self {
            Self::Driver(cause) if cause.code().is_none() => is_conversion(cause),
            _ => self.code().is_some_and(|code| {
                // Data exceptions, constraint violations, server limits.
                ["22", "23", "54"].iter().any(|class| code.starts_with(class))
            }),
        }
    }

    /// Whether an immediate retry of the transaction makes sense: after a deadlock, a
    /// serialization conflict or a closed connection.
    pub(crate) fn is_worth_another_try(&self) -> bool {
        const DEADLOCK: &str = "40P01";
        const SERIALIZATION: &str = "40001";
        /// The owner of an intent was removed: another process took us for dead.
        const FOREIGN_KEY: &str = "23503";
        match self {
            Self::Driver(cause) if cause.code().is_none() => cause.is_closed(),
            _ => matches!(self.code(), Some(DEADLOCK | SERIALIZATION | FOREIGN_KEY)),
        }
    }

    /// Whether this server is a standby, so that another one may accept the write.
    pub(crate) fn is_read_only(&self) -> bool {
        self.code() == Some("25006")
    }

    /// The error of an operation. `what` finishes the sentence "cannot …".
    pub(crate) fn at(self, place: &str, what: &str) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Driver(cause) => {
                unavailable(format!("cannot {what}: {}", why(place, &cause))).with_source(cause)
            }
        }
    }
}

fn why(place: &str, cause: &tokio_postgres::Error) -> String {
    let Some(said) = cause.as_db_error() else {
        return format!(
            "the database {place} cannot be reached ({}); check that the server runs and that the URL names it",
            chain(cause)
        );
    };
    let message = said.message();
    match said.code().code() {
        "28P01" | "28000" => format!(
            "{place} does not let us in: {message}; check the user and the password in the URL, and whether the server wants `?sslmode=require`"
        ),
        "3D000" => format!("{place}: {message}; create it with `createdb`"),
        "42501" => format!(
            "{place}: {message}; the user needs a schema `windlass` of its own: `CREATE SCHEMA windlass AUTHORIZATION …`"
        ),
        "53100" => format!("the disk of {place} is full; free some space there"),
        "53300" => format!("{place} has no free connections; raise its `max_connections`"),
        "25006" => format!("{place} is a read-only standby; name the primary server"),
        "57014" => format!("{place} took too long and was stopped ({message})"),
        "57P01" | "57P02" | "57P03" => {
            format!("the database {place} is starting or shutting down ({message})")
        }
        code => format!("{place}: {message} (SQLSTATE {code})"),
    }
}

/// The error and its causes, without repetitions.
fn chain(cause: &tokio_postgres::Error) -> String {
    let mut text = cause.to_string();
    let mut source = cause.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}

/// Whether the driver rejected a value before sending it.
fn is_conversion(cause: &tokio_postgres::Error) -> bool {
    cause.to_string().starts_with("error serializing parameter")
        || cause.to_string().starts_with("error encoding message")
}

/// The error of a timeout.
pub(crate) fn no_answer(place: &str, what: &str, after: Duration) -> Error {
    let seconds = after.as_secs_f64();
    unavailable(format!(
        "cannot {what}: the database {place} did not answer within {seconds} s; check the server and the network"
    ))
}
