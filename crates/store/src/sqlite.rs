//! [`SqliteStore`]: records of one installation in a SQLite file.
//!
//! The folder mirrors that of PostgreSQL: `writer` and `batch` write, `readers` and
//! `read` query, `owner` and `orphans` know which processes hold intents, `documents` is
//! what a server keeps besides records.

mod options;

mod documents;

mod writer;

mod batch;
mod intents;
mod lists;
mod orphans;
mod outputs;
mod owner;
mod retention;
mod stats;

mod read;
mod readers;
mod rows;

mod connect;
mod examine;
mod fault;
mod file_identity;
mod schema;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use parking_lot::Condvar;
use tokio::sync::watch;
use uuid::Uuid;
use windlass::{
    BoxFuture, CallId, CallRecord, Error, OutputPart, OwnerId, PageRequest, RecordFilter,
    RecordPage, Statistics, Summary, TenantId,
};

pub use connect::private_folder;
pub use documents::SqliteDocuments;
pub use examine::{Examination, examine_file};
pub use options::{Options, Synchronous};
/// For the benchmark only: see [`crate::bare`].
pub use {batch::insert_listed, connect::writer as bare_connect};

use batch::BatchWriter;
use owner::Owner;
use readers::Readers;
use writer::Writer;

use crate::fault::unavailable;
use crate::queue::{Interrupted, Progress, ThreadQueue};
use crate::store::{Database, QueuedStore};

/// Stores call records in a SQLite file. Several processes may share the file.
///
/// Appending is idempotent, and the id must be a UUIDv7 with the time of the call; a
/// second record with the same id is ignored. Queries need a Tokio runtime. Dropping the
/// store flushes the queue, but waits no longer than [`Options::close_timeout`].
///
/// A process that stores intents locks a file beside the database, `NAME-owner-ID`, which
/// is removed when the store is closed. Calls whose process has died are closed as
/// interrupted by whoever opens the store next.
pub type SqliteStore = QueuedStore<SqliteFile>;

/// The file of a [`SqliteStore`].
pub struct SqliteFile {
    path: PathBuf,
    readers: Readers,
    owner: Arc<Owner>,
}

impl SqliteStore {
    /// Opens a store, and creates the file and its directories if they are missing.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened or created, is not a database, is corrupt, belongs to
    /// another program, or was written by a newer version. The message says which, and
    /// what to do.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, Options::default())
    }

    /// Opens a store with settings.
    ///
    /// # Errors
    ///
    /// As [`SqliteStore::open`].
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let path = path.as_ref().to_owned();
        let (connection, identity) = connect::identified(&path, &options)?;
        let queue = Arc::new(ThreadQueue::new(options.queue, options.commit_interval));
        let (sender, progress) = watch::channel(Progress::default());
        let max_output_bytes = options.max_output_bytes.min(options.keep_outputs_bytes);
        let readers = Readers::new(path.clone(), options.clone(), Arc::clone(&identity));
        let interrupted = Arc::new(Interrupted::default());
        let owner = Arc::new(Owner::new(&path));
        let (keep_records, keep_keys) = (options.keep_records, options.keep_keys);
        let batch_writer =
            BatchWriter::new(connection, identity, Arc::clone(&owner), keep_records, keep_keys);
        let mut writer = Writer::new(
            batch_writer,
            path.clone(),
            options,
            Arc::clone(&queue),
            sender,
            Arc::clone(&interrupted),
        );
        writer.close_orphans();
        let writer = thread::Builder::new()
            .name("windlass-records".to_owned())
            .spawn(move || writer.run())
            .map_err(|cause| {
                unavailable("cannot start the thread that writes records").with_source(cause)
            })?;
        Ok(Self {
            database: SqliteFile { path, readers, owner },
            queue,
            progress,
            interrupted,
            max_output_bytes,
            writer: Some(writer),
        })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.database.path
    }
}

impl Database for SqliteFile {
    type Wake = Condvar;

    const REFUSES_INTENTS_IN_OUTAGE: bool = false;

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn owner(&self) -> BoxFuture<'_, Result<OwnerId, Error>> {
        let owner = Arc::clone(&self.owner);
        Box::pin(async move {
            self.readers.wait("lock a file beside the database", move || owner.hold()).await?;
            Ok(OwnerId::new(self.owner.id().to_string()))
        })
    }

    fn is_gone<'a>(&'a self, owner: &'a OwnerId) -> BoxFuture<'a, Result<bool, Error>> {
        let own = Arc::clone(&self.owner);
        Box::pin(async move {
            // Not an id that any owner here could have.
            let Ok(other) = Uuid::try_parse(owner.as_str()) else { return Ok(true) };
            self.readers.wait("look for a process", move || Ok(own.is_dead(other))).await
        })
    }

    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>, Error>> {
        let own = tenant.clone();
        Box::pin(self.readers.ask("read a record", Some(tenant), move |db| read::get(db, &own, id)))
    }

    fn page<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a RecordFilter,
        page: PageRequest,
    ) -> BoxFuture<'a, Result<RecordPage, Error>> {
        let (own, filter) = (tenant.clone(), filter.clone());
        let question = move |db: &_| read::page(db, &own, &filter, page);
        Box::pin(self.readers.ask("read records", Some(tenant), question))
    }

    fn summary<'a>(
        &'a self,
        tenant: &'a TenantId,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Summary, Error>> {
        let (own, conversation) = (tenant.clone(), conversation.to_owned());
        let question = move |db: &_| read::summary(db, &own, &conversation);
        Box::pin(self.readers.ask("sum up a conversation", Some(tenant), question))
    }

    fn statistics<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Statistics, Error>> {
        let own = tenant.clone();
        Box::pin(
            self.readers.ask("read statistics", Some(tenant), move |db| read::statistics(db, &own)),
        )
    }

    fn read_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Option<OutputPart>, Error>> {
        let own = tenant.clone();
        let question = move |db: &_| outputs::read(db, &own, id, offset, limit);
        Box::pin(self.readers.ask("read an output", Some(tenant), question))
    }
}
