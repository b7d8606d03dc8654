//! How a store over PostgreSQL behaves. Every bound of it is a field here.

use std::time::Duration;

/// Settings of a [`PostgresStore`](crate::PostgresStore), and of
/// [`PostgresDocuments`](crate::PostgresDocuments) beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// How long the writer gathers records before it commits them together.
    pub commit_interval: Duration,
    /// How many records may wait to be committed. Beyond it the store says
    /// that it does not keep up, and the engine starts no further call.
    pub queue: usize,
    /// How long it may take to reach the server.
    pub connect_timeout: Duration,
    /// How long a statement may take.
    pub statement_timeout: Duration,
    /// How many questions are answered at once, each on a connection of its
    /// own.
    pub readers: usize,
    /// How long a store may lose its connection before other stores take its
    /// process for dead and close its calls as interrupted.
    pub grace: Duration,
    /// How many records are kept; the oldest go first.
    pub keep_records: u64,
    /// How long the key of a call is kept; that of a call which a kept run made
    /// is kept for [`KEEP_RUNS`](crate::KEEP_RUNS) more.
    pub keep_keys: Duration,
    /// The size of all kept outputs together. The oldest go first, of the tenant
    /// that has the most.
    pub keep_outputs_bytes: u64,
    /// The size of one kept output; a larger one is refused.
    pub max_output_bytes: u64,
    /// How many events are kept; older ones go now and then.
    pub keep_events: u64,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            commit_interval: Duration::from_millis(20),
            queue: 16_384,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            readers: 4,
            grace: Duration::from_secs(3),
            keep_records: 10_000_000,
            keep_keys: Duration::from_secs(24 * 60 * 60),
            keep_outputs_bytes: 256 * 1024 * 1024,
            max_output_bytes: 64 * 1024 * 1024,
            keep_events: 100_000,
        }
    }
}
