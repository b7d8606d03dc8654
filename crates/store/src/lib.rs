//! Call records of windlass in SQLite, and with the feature `postgres` in
//! PostgreSQL, which any number of servers may share.
//!
//! ```text
//! begin, append ─► Queue ─► Writer (one thread, group commit) ─► Book (one transaction)
//!                                  intents, keys, calls, call_stats, outputs ◄─┘
//! get, query, summary, statistics, read_output ─► flush ─► Readers (a few read-only connections)
//! ```
//!
//! `append` only puts a record into a queue in memory, and never waits. One
//! thread owns the one connection that writes and commits what has gathered
//! every 20 ms, so a record is on its way to the disk within 50 ms while ten
//! thousand calls a second cost ten thousand rows but only fifty commits. A
//! question first waits until what this process appended before is committed:
//! whoever made a call finds its record.
//!
//! A call that may change something begins with an intent, which is committed
//! before the call runs, together with the records that wait: one wait for the
//! disk serves all. The transaction that brings the call's record takes the
//! intent away. An intent whose process has ended becomes the record of an
//! interrupted call when the store is opened next.
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
//! [`Documents`] is what a server keeps besides records, in the same file or
//! database: [`SqliteDocuments`] and, with the feature, `PostgresDocuments`.
//! They have connections of their own, because whoever puts a document waits
//! until it is kept for good, and servers that share them hear of each other's
//! changes.
//!
//! What is not here: redaction and capping (the engine's journal hands over
//! finished records), and who may run a call (the engine asks; the store says
//! which call has a key).

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

/// How long a run that was cut off can go on. The keys of its calls are kept
/// longer than that, whatever [`Options::keep_keys`] says, or what it did would be
/// done again.
pub const KEEP_RUNS: Duration = Duration::from_hours(7 * 24);

/// The parts that the benchmark measures the store against: the same rows in
/// the same table without queue, writer and statistics. Not for other use.
#[doc(hidden)]
pub mod bare {
    pub use crate::sqlite::bare_connect as connect;
    pub use crate::sqlite::insert_records;
    pub use rusqlite;
}
