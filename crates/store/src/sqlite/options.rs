//! Settings and limits of a SQLite store.

use std::time::Duration;

/// Settings of a [`SqliteStore`](crate::SqliteStore), and of
/// [`SqliteDocuments`](crate::SqliteDocuments) beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Group commit: how long the writer gathers records before it commits them together.
    pub commit_interval: Duration,
    /// Maximum number of records waiting to be committed. Beyond it the store applies
    /// backpressure, and the engine starts no further calls. The same limit applies to
    /// pending intents; more are refused.
    pub queue: usize,
    /// What a commit survives.
    pub synchronous: Synchronous,
    /// Busy timeout: how long a connection waits for another process's lock.
    pub busy_timeout: Duration,
    /// How long a closing store tries to flush its queue.
    pub close_timeout: Duration,
    /// Maximum number of concurrent queries. One is kept for tenants that have none
    /// running.
    pub readers: usize,
    /// Maximum total size of kept outputs. The oldest ones of the tenant with the most
    /// are deleted first.
    pub keep_outputs_bytes: u64,
    /// Maximum size of one kept output; a larger one is refused.
    pub max_output_bytes: u64,
    /// Maximum number of records; beyond it the oldest ones of the tenant with the most
    /// are deleted, with their outputs. Those of calls with an idempotency key stay as
    /// long as the key. Statistics are totals over all time and are not affected.
    pub keep_records: u64,
    /// How long an idempotency key is kept, counted from the first call with it, however
    /// many calls follow. The key of a running call is kept in any case; that of a call
    /// made by an agent run, [`KEEP_RUNS`](crate::KEEP_RUNS) longer.
    pub keep_keys: Duration,
    /// Maximum number of events; older ones are deleted from time to time.
    pub keep_events: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            commit_interval: Duration::from_millis(20),
            queue: 16_384,
            synchronous: Synchronous::Normal,
            busy_timeout: Duration::from_secs(5),
            close_timeout: Duration::from_secs(5),
            readers: 5,
            keep_outputs_bytes: 256 * 1024 * 1024,
            max_output_bytes: 64 * 1024 * 1024,
            keep_records: 10_000_000,
            keep_keys: Duration::from_hours(24),
            keep_events: 100_000,
        }
    }
}

/// What a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// The end of the process, even by `kill -9`. A power failure may lose the last
    /// commits; the database stays consistent.
    #[default]
    Normal,
    /// A power failure, too, at the price of an `fsync` for every commit.
    Full,
}

impl Synchronous {
    pub(crate) fn pragma(self) -> &'static str {
        match self {
            Self::Normal => "NORMAL",
            Self::Full => "FULL",
        }
    }
}
