//! [`SqliteStore`]: the records of one installation in one file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::{oneshot, watch};
use uuid::Uuid;
use windlass::{
    Begun, BoxFuture, CallId, CallRecord, Error, Intent, OutputPart, OwnerId, PageRequest,
    RecordFilter, RecordPage, RecordStore, Statistics, Summary, TenantId,
};

use crate::book::Book;
use crate::fault::unavailable;
use crate::interrupted::Interrupted;
use crate::options::Options;
use crate::owner::Owner;
use crate::queue::{Begin, Progress, ThreadQueue};
use crate::readers::Readers;
use crate::writer::Writer;
use crate::{connect, outputs, read};

/// Keeps call records in a SQLite file. Several processes may share the file.
///
/// Records are expected once, under the UUIDv7 of the time of their call; a
/// second record with the id of a kept one is ignored. Questions must be asked
/// inside a tokio runtime. Dropping the store writes what is queued and waits
/// for it, but no longer than [`Options::close_timeout`].
///
/// A process that keeps intents holds a lock on a file beside the database,
/// `NAME-owner-ID`, which goes away when the store is closed. Calls whose
/// process has ended are closed as interrupted by whoever opens the store next.
pub struct SqliteStore {
    path: PathBuf,
    queue: Arc<ThreadQueue>,
    progress: watch::Receiver<Progress>,
    readers: Readers,
    interrupted: Arc<Interrupted>,
    max_output_bytes: u64,
    writer: Option<JoinHandle<()>>,
    owner: Arc<Owner>,
}

impl SqliteStore {
    /// Opens a store, and creates the file and its folders where they are
    /// missing.
    ///
    /// # Errors
    ///
    /// Where the file cannot be opened or created, is not a database, is
    /// corrupt, is another program's, or was written by a newer windlass. The
    /// message says which, and what to do.
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
        let book = Book::new(connection, identity, Arc::clone(&owner), keep_records, keep_keys);
        let mut writer = Writer::new(
            book,
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
            path,
            queue,
            progress,
            readers,
            interrupted,
            max_output_bytes,
            writer: Some(writer),
            owner,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lists and sums are told without what cannot be written for now.
    async fn flush_if_possible(&self) {
        if let Err(error) = self.flush().await {
            tracing::warn!(%error, "the answer leaves out records that are not written yet");
        }
    }

    fn writer_ended(&self) -> Error {
        unavailable(format!("the thread that writes records to {} has ended", self.path.display()))
    }
}

impl RecordStore for SqliteStore {
    fn append(&self, record: CallRecord) {
        self.queue.append(record);
    }

    fn keeps_intents(&self) -> bool {
        true
    }

    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<Begun, Error>> {
        Box::pin(async move {
            let (done, answer) = oneshot::channel();
            self.queue.begin(Begin { intent, done })?;
            answer.await.unwrap_or_else(|_| Err(self.writer_ended()))
        })
    }

    fn owner(&self) -> BoxFuture<'_, Result<Option<OwnerId>, Error>> {
        let owner = Arc::clone(&self.owner);
        Box::pin(async move {
            self.readers.wait("lock a file beside the database", move || owner.hold()).await?;
            Ok(Some(OwnerId::new(self.owner.id().to_string())))
        })
    }

    fn is_gone<'a>(&'a self, owner: &'a OwnerId) -> BoxFuture<'a, Result<bool, Error>> {
        let own = Arc::clone(&self.owner);
        Box::pin(async move {
            // A name that no owner here could have.
            let Ok(other) = Uuid::try_parse(owner.as_str()) else { return Ok(true) };
            self.readers.wait("look for a process", move || Ok(own.is_dead(other))).await
        })
    }

    fn take_interrupted(&self) -> Vec<CallRecord> {
        self.interrupted.take()
    }

    fn keeps_up(&self) -> bool {
        self.queue.keeps_up()
    }

    fn caught_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.queue.caught_up(self.progress.clone()))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let (done, answer) = oneshot::channel();
            self.queue.probe(done);
            answer.await.unwrap_or_else(|_| Err(self.writer_ended()))
        })
    }

    fn unwritten(&self) -> usize {
        self.queue.left()
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let end = self.queue.flushed(self.progress.clone()).await;
            end.unwrap_or_else(|| Err(self.writer_ended()))
        })
    }

    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>, Error>> {
        Box::pin(async move {
            let flushed = self.flush().await;
            let tenant = tenant.clone();
            let found = self.readers.ask("read a record", move |db| read::get(db, &tenant, id));
            match found.await? {
                // It may be among those that could not be written.
                None => flushed.map(|()| None),
                found => Ok(found),
            }
        })
    }

    fn query<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a RecordFilter,
        page: PageRequest,
    ) -> BoxFuture<'a, Result<RecordPage, Error>> {
        Box::pin(async move {
            self.flush_if_possible().await;
            let (tenant, filter) = (tenant.clone(), filter.clone());
            self.readers.ask("read records", move |db| read::page(db, &tenant, &filter, page)).await
        })
    }

    fn summary<'a>(
        &'a self,
        tenant: &'a TenantId,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Summary, Error>> {
        Box::pin(async move {
            self.flush_if_possible().await;
            let (tenant, conversation) = (tenant.clone(), conversation.to_owned());
            self.readers
                .ask("sum up a conversation", move |db| read::summary(db, &tenant, &conversation))
                .await
        })
    }

    fn statistics<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Statistics, Error>> {
        Box::pin(async move {
            self.flush_if_possible().await;
            let tenant = tenant.clone();
            self.readers.ask("read statistics", move |db| read::statistics(db, &tenant)).await
        })
    }

    fn keep_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        output: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let end = self.queue.kept(tenant, id, output, self.max_output_bytes).await;
            end.unwrap_or_else(|| Err(self.writer_ended()))
        })
    }

    fn forget_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let end = self.queue.forgotten(tenant, id).await;
            end.unwrap_or_else(|| Err(self.writer_ended()))
        })
    }

    fn read_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Option<OutputPart>, Error>> {
        let tenant = tenant.clone();
        Box::pin(
            self.readers
                .ask("read an output", move |db| outputs::read(db, &tenant, id, offset, limit)),
        )
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!(
                file = %self.path.display(),
                "the thread that writes records panicked; records may be missing"
            );
        }
    }
}
