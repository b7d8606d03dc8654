//! Settings and limits of a PostgreSQL store.

use std::time::Duration;

/// Settings of a [`PostgresStore`](crate::PostgresStore), and of
/// [`PostgresDocuments`](crate::PostgresDocuments) beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Group commit: how long the writer gathers records before it commits them together.
    pub commit_interval: Duration,
    /// Maximum number of records waiting to be committed. Beyond it the store applies
    /// backpressure, and the engine starts no further calls.
    pub queue: usize,
    /// Connect timeout.
    pub connect_timeout: Duration,
    /// Statement timeout.
    pub statement_timeout: Duration,
    /// Size of the connection pool for queries.
    pub readers: usize,
    /// How long a store's heartbeat may be missing before others take its process for
    /// dead and close its calls as interrupted.
    pub grace: Duration,
    /// Maximum number of records; the oldest are deleted first.
    pub keep_records: u64,
    /// How long an idempotency key is kept; for a call made by an agent run,
    /// [`KEEP_RUNS`](crate::KEEP_RUNS) longer.
    pub keep_keys: Duration,
    /// Maximum total size of kept outputs. The oldest ones of the tenant with the most
    /// are deleted first.
    pub keep_outputs_bytes: u64,
    /// Maximum size of one kept output; a larger one is refused.
    pub max_output_bytes: u64,
    /// Maximum number of events; older ones are deleted from time to time.
    pub keep_events: u64,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            commit_interval: Duration::from_millis(20),
            queue: 16_384,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            readers: 5,
            grace: Duration::from_secs(3),
            keep_records: 10_000_000,
            keep_keys: Duration::from_secs(24 * 60 * 60),
            keep_outputs_bytes: 256 * 1024 * 1024,
            max_output_bytes: 64 * 1024 * 1024,
            keep_events: 100_000,
        }
    }
}
