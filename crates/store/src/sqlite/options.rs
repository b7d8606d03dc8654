//! How a store behaves, and what it is bounded by.

use std::time::Duration;

/// Settings of a [`SqliteStore`](crate::SqliteStore), and of
/// [`SqliteDocuments`](crate::SqliteDocuments) beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long the writer gathers records before it commits them together.
    pub commit_interval: Duration,
    /// How many records may wait to be committed. Beyond it the store says
    /// that it does not keep up, and the engine starts no further call. As many
    /// calls may wait to begin; more are refused.
    pub queue: usize,
    /// What a commit survives.
    pub synchronous: Synchronous,
    /// How long a connection waits for a lock that another process holds.
    pub busy_timeout: Duration,
    /// How long a store that closes tries to write what is left.
    pub close_timeout: Duration,
    /// How many questions are answered at once.
    pub readers: usize,
    /// The size of all kept outputs together. The oldest go first, of the tenant
    /// that has the most.
    pub keep_outputs_bytes: u64,
    /// The size of one kept output; a larger one is refused.
    pub max_output_bytes: u64,
    /// How many records are kept; beyond it the tenant with the most gives up its
    /// oldest ones, with their outputs. Those of calls with a key stay as long as
    /// the key. Statistics are totals over all time and stay as they are.
    pub keep_records: u64,
    /// How long an idempotency key keeps calls one, from the first of them, however
    /// many calls come meanwhile. The
    /// key of a call that still runs is kept in any case, and that of a call which
    /// a kept run made for [`KEEP_RUNS`](crate::KEEP_RUNS) more.
    pub keep_keys: Duration,
    /// How many events are kept; older ones go now and then.
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
            readers: 4,
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
    /// The end of the process, also by `kill -9`. A power failure may take the
    /// last commits; the database stays whole.
    #[default]
    Normal,
    /// A power failure too, at the price of waiting for the disk with every
    /// commit.
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
