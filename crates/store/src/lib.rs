//! Record stores for windlass: SQLite and, with the feature `postgres`, PostgreSQL, which
//! any number of servers may share.
//!
//! ```text
//! begin, append ─► Queue ─► Writer (one thread, group commit) ─► BatchWriter (one transaction)
//!                                  intents, keys, calls, call_stats, outputs ◄─┘
//! get, query, summary, statistics, read_output ─► flush ─► Readers (a few read-only connections)
//! ```
//!
//! `append` only puts a record into an in-memory queue (write-behind) and never blocks.
//! One thread owns the only connection that writes, and every 20 ms commits what has
//! gathered (group commit). So a record is on its way to the disk within 50 ms, and ten
//! thousand calls a second cost ten thousand rows but only fifty commits. A query first
//! waits until the records that this process appended are committed (read-your-writes):
//! whoever made a call finds its record.
//!
//! A call with possible side effects begins with an intent (write-ahead), which is
//! committed before the call runs, in one group commit with the waiting records. The
//! transaction that stores the call's record deletes the intent. An intent whose process
//! has died becomes the record of an interrupted call when the store is next opened.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), windlass::Error> {
//! use windlass::{PageRequest, RecordFilter, RecordStore, TenantId};
//! use windlass_store::SqliteStore;
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("windlass.db");
//! let store = SqliteStore::open(&path)?;
//! let filter = RecordFilter { tool: Some("get_weather".into()), ..RecordFilter::default() };
//! let page = store.query(&TenantId::default(), &filter, PageRequest::first(50)).await?;
//! assert!(page.records.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! [`Documents`] is what a server keeps besides records, in the same file or database:
//! [`SqliteDocuments`] and, with the feature, `PostgresDocuments`. They have connections
//! of their own, because a write waits until it is durable, and servers that share them
//! are notified of each other's changes.
//!
//! What is not here: redaction and truncation (the engine's journal hands over finished
//! records), and the decision whether a call may run (the engine asks the store which
//! call holds an idempotency key, and decides).

mod store;

mod queue;

#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;

mod documents;

mod fault;
mod value;

use std::time::Duration;

pub use documents::{
    Change, Document, Documents, EventFilter, Expect, KeptEvent, MemoryDocuments, NewEvent, Put,
    SpaceSize,
};
#[cfg(feature = "postgres")]
pub use postgres::{
    PostgresDatabase, PostgresDocuments, PostgresOptions, PostgresStore, PostgresUrl,
    examine_postgres,
};
pub use sqlite::{
    Examination, Options, SqliteDocuments, SqliteFile, SqliteStore, Synchronous, examine_file,
    private_folder,
};
pub use store::QueuedStore;

/// How long an interrupted agent run can be resumed. Idempotency keys of its calls are
/// kept this much longer than [`Options::keep_keys`], or side effects would be repeated.
pub const KEEP_RUNS: Duration = Duration::from_hours(7 * 24);

/// The baseline for the benchmark: the same rows in the same tables, without queue, writer
/// and statistics. Not for other use.
#[doc(hidden)]
pub mod bare {
    pub use crate::sqlite::bare_connect as connect;
    pub use crate::sqlite::insert_listed as insert_records;
    pub use rusqlite;
}
