//! [`PostgresStore`]: records of any number of servers in one PostgreSQL database.
//!
//! ```text
//! append, begin ─► Queue ─► Writer (one task, group commit) ─► calls, intents, keys, call_stats
//! get, query, summary, statistics, read_output ─► flush ─► Readers (a few connections)
//! ```
//!
//! Connections live on a thread of the store's own, with its own Tokio runtime: the store
//! can be used from any runtime, a busy one does not delay its heartbeat, and dropping
//! the store flushes the queue.

mod options;
mod url;

mod documents;

mod writer;

mod batch;
mod intents;
mod outputs;
mod read;
mod readers;
mod retention;
mod rows;
mod text;

mod connect;
mod examine;
mod fault;
mod owners;
mod schema;
mod session;

use std::sync::Arc;
use std::thread;

use tokio::runtime::{self, Handle};
use tokio::sync::{Notify, oneshot, watch};
use windlass::{
    BoxFuture, CallId, CallRecord, Error, OutputPart, OwnerId, PageRequest, RecordFilter,
    RecordPage, Statistics, Summary, TenantId,
};

pub use documents::PostgresDocuments;
pub use examine::examine_postgres;
pub use options::PostgresOptions;
pub use url::PostgresUrl;

use connect::Target;
use fault::unavailable;
use readers::Readers;
use writer::Writer;

use crate::queue::{Interrupted, Progress, TaskQueue};
use crate::store::{Database, QueuedStore};

/// Stores call records in a PostgreSQL database, which any number of processes may share.
/// The tables are in the schema `windlass`.
///
/// Appending is idempotent: a second record with the same id is ignored, unless the
/// stored one says that the call was interrupted. During an outage of the server, records
/// wait in memory up to [`PostgresOptions::queue`], intents are refused and queries fail;
/// all of it recovers on its own.
///
/// The connection that writes holds an advisory lock for as long as it lives, so a
/// connection pooler in front of the server must use session pooling.
pub type PostgresStore = QueuedStore<PostgresDatabase>;

/// The database of a [`PostgresStore`].
pub struct PostgresDatabase {
    place: Arc<str>,
    readers: Readers,
    /// This process's owner id.
    owner: i32,
}

impl PostgresStore {
    /// Connects to a database (`postgres://user:password@host/database`), creates or
    /// migrates the tables, and closes the calls of dead processes.
    ///
    /// # Errors
    ///
    /// If the URL is invalid, the server cannot be reached or rejects the login, or the
    /// tables belong to another program or to a newer version. The message says which, and
    /// what to do; it never contains the password.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self, Error> {
        Self::connect_to(&url.parse()?, options).await
    }

    /// Connects with a URL that was parsed already.
    ///
    /// # Errors
    ///
    /// As [`PostgresStore::connect`].
    pub async fn connect_to(url: &PostgresUrl, options: PostgresOptions) -> Result<Self, Error> {
        let target = Target::new(url, &options)?;
        let place = Arc::clone(&target.place);
        let queue = Arc::new(TaskQueue::new(options.queue, options.commit_interval));
        let interrupted = Arc::<Interrupted>::default();
        let (sender, progress) = watch::channel(Progress::default());
        let (ready, started) = oneshot::channel();
        let start = Writer::start(
            target.clone(),
            options.clone(),
            Arc::clone(&queue),
            sender,
            Arc::clone(&interrupted),
        );
        let thread = thread::Builder::new()
            .name("windlass-records".to_owned())
            .spawn(move || run(start, ready))
            .map_err(|cause| {
                unavailable("cannot start the thread that writes records").with_source(cause)
            })?;
        let ended = |_| unavailable(format!("the thread that writes records to {place} has ended"));
        let (runtime, owner) = started.await.map_err(ended)??;
        let readers = Readers::new(target, runtime, &options);
        let max_output_bytes = options.max_output_bytes.min(options.keep_outputs_bytes);
        let writer = Some(thread);
        let database = PostgresDatabase { place, readers, owner };
        Ok(Self { database, queue, progress, interrupted, max_output_bytes, writer })
    }

    /// Flushes the queue and closes the store. Unlike dropping the store, this does not
    /// block the thread.
    ///
    /// # Errors
    ///
    /// If records could not be written in the end.
    pub async fn close(self) -> Result<(), Error> {
        self.queue.close();
        let mut progress = self.progress.clone();
        // Never true: the wait ends with the writer.
        let _ = progress.wait_for(|_| false).await;
        let outage = progress.borrow().outage.clone();
        match (self.queue.left(), outage) {
            (0, _) => Ok(()),
            (_, Some(error)) => Err(error),
            (left, None) => Err(unavailable(format!(
                "{left} records were not written to {}",
                self.database.place
            ))),
        }
    }
}

/// The thread of a store.
fn run(
    start: impl Future<Output = Result<Writer, Error>>,
    ready: oneshot::Sender<Result<(Handle, i32), Error>>,
) {
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(cause) => {
            let error = unavailable("cannot start the runtime of the record store");
            // The caller may have gone away, here and below.
            let _ = ready.send(Err(error.with_source(cause)));
            return;
        }
    };
    runtime.block_on(async move {
        match start.await {
            Ok(writer) if ready.is_closed() => writer.leave().await,
            Ok(writer) => match ready.send(Ok((Handle::current(), writer.owner()))) {
                Ok(()) => writer.run().await,
                Err(_) => writer.leave().await,
            },
            Err(error) => drop(ready.send(Err(error))),
        }
    });
}

impl Database for PostgresDatabase {
    type Wake = Notify;

    const REFUSES_INTENTS_IN_OUTAGE: bool = true;

    fn place(&self) -> String {
        self.place.to_string()
    }

    fn owner(&self) -> BoxFuture<'_, Result<OwnerId, Error>> {
        Box::pin(std::future::ready(Ok(OwnerId::new(self.owner.to_string()))))
    }

    fn is_gone<'a>(&'a self, owner: &'a OwnerId) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            // Not an id that any owner here could have.
            let Ok(other) = owner.as_str().parse::<i32>() else { return Ok(true) };
            let question = async |client: Arc<_>| owners::is_gone(&client, other).await;
            self.readers.ask("look for a process", None, question).await
        })
    }

    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>, Error>> {
        let question = async move |client: Arc<_>| read::get(&client, tenant, id).await;
        Box::pin(self.readers.ask("read a record", Some(tenant), question))
    }

    fn page<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a RecordFilter,
        page: PageRequest,
    ) -> BoxFuture<'a, Result<RecordPage, Error>> {
        let question = async move |client: Arc<_>| read::page(&client, tenant, filter, page).await;
        Box::pin(self.readers.ask("read records", Some(tenant), question))
    }

    fn summary<'a>(
        &'a self,
        tenant: &'a TenantId,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Summary, Error>> {
        let question =
            async move |client: Arc<_>| read::summary(&client, tenant, conversation).await;
        Box::pin(self.readers.ask("sum up a conversation", Some(tenant), question))
    }

    fn statistics<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Statistics, Error>> {
        let question = async move |client: Arc<_>| read::statistics(&client, tenant).await;
        Box::pin(self.readers.ask("read statistics", Some(tenant), question))
    }

    fn read_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Option<OutputPart>, Error>> {
        let question =
            async move |client: Arc<_>| outputs::read(&client, tenant, id, offset, limit).await;
        Box::pin(self.readers.ask("read an output", Some(tenant), question))
    }
}
