//! [`PostgresStore`]: the records of any number of servers in one database.
//!
//! ```text
//! append, begin ─► Queue ─► Writer (one task, group commit) ─► calls, intents, keys, call_stats
//! get, query, summary, statistics, read_output ─► flush ─► Readers (a few connections)
//! ```
//!
//! Connections live on a thread of the store's own, with a runtime of its own:
//! the store can be used from any runtime, a busy one does not keep it from
//! saying that its process lives, and dropping it writes what is queued.

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
use std::thread::{self, JoinHandle};

use tokio::runtime::{self, Handle};
use tokio::sync::{oneshot, watch};
use windlass::{
    Begun, BoxFuture, CallId, CallRecord, Error, Intent, OutputPart, OwnerId, PageRequest,
    RecordFilter, RecordPage, RecordStore, Statistics, Summary, TenantId,
};

pub use documents::PostgresDocuments;
pub use examine::examine_postgres;
pub use options::PostgresOptions;
pub use url::PostgresUrl;

use connect::Target;
use fault::unavailable;
use readers::Readers;
use writer::{Interrupted, Writer};

use crate::queue::{Begin, Progress, TaskQueue};

/// Keeps call records in a PostgreSQL database, which any number of processes
/// may share. The tables are in the schema `windlass`.
///
/// Records are expected once; a second record with the id of a kept one is
/// ignored, unless the kept one says that the call was interrupted. While the
/// server is away, records wait in memory up to [`PostgresOptions::queue`],
/// intents are refused, questions fail, and all of it recovers by itself.
///
/// The connection that writes holds an advisory lock for as long as it lives,
/// so a pooler between the store and the server must give it a session of its
/// own.
pub struct PostgresStore {
    place: Arc<str>,
    queue: Arc<TaskQueue>,
    progress: watch::Receiver<Progress>,
    readers: Readers,
    interrupted: Arc<Interrupted>,
    max_output_bytes: u64,
    owner: i32,
    writer: Option<JoinHandle<()>>,
}

impl PostgresStore {
    /// Connects to a database (`postgres://user:password@host/database`),
    /// makes or updates the tables, and closes the calls of processes that
    /// have died.
    ///
    /// # Errors
    ///
    /// Where the URL is wrong, the server cannot be reached or lets us not in,
    /// or the tables are another program's or of a newer windlass. The message
    /// says which, and what to do; it never holds the password.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self, Error> {
        Self::connect_to(&url.parse()?, options).await
    }

    /// The same with a URL that has been read.
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
        Ok(Self { place, queue, progress, readers, interrupted, max_output_bytes, owner, writer })
    }

    /// Writes what is queued and ends, without blocking the thread as dropping
    /// the store does.
    ///
    /// # Errors
    ///
    /// Where records could not be written in the end.
    pub async fn close(self) -> Result<(), Error> {
        self.queue.close();
        let mut progress = self.progress.clone();
        // Nothing satisfies it: this ends with the writer.
        let _ = progress.wait_for(|_| false).await;
        let outage = progress.borrow().outage.clone();
        match (self.queue.left(), outage) {
            (0, _) => Ok(()),
            (_, Some(error)) => Err(error),
            (left, None) => {
                Err(unavailable(format!("{left} records were not written to {}", self.place)))
            }
        }
    }

    fn writer_ended(&self) -> Error {
        unavailable(format!("the thread that writes records to {} has ended", self.place))
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
            // Who asked may have gone away, here and below.
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

impl RecordStore for PostgresStore {
    fn append(&self, record: CallRecord) {
        self.queue.append(record);
    }

    fn keeps_intents(&self) -> bool {
        true
    }

    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<Begun, Error>> {
        Box::pin(async move {
            let outage = self.progress.borrow().outage.clone();
            if let Some(error) = outage {
                return Err(error);
            }
            let (done, answer) = oneshot::channel();
            self.queue.begin(Begin { intent, done })?;
            answer.await.unwrap_or_else(|_| Err(self.writer_ended()))
        })
    }

    fn owner(&self) -> BoxFuture<'_, Result<Option<OwnerId>, Error>> {
        let name = OwnerId::new(self.owner.to_string());
        Box::pin(std::future::ready(Ok(Some(name))))
    }

    fn is_gone<'a>(&'a self, owner: &'a OwnerId) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            // A name that no owner here could have.
            let Ok(other) = owner.as_str().parse::<i32>() else { return Ok(true) };
            let question = async |client: Arc<_>| owners::is_gone(&client, other).await;
            self.readers.ask("look for a process", question).await
        })
    }

    fn take_interrupted(&self) -> Vec<CallRecord> {
        self.interrupted.lock().drain(..).collect()
    }

    fn keeps_up(&self) -> bool {
        self.queue.keeps_up()
    }

    fn caught_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.queue.caught_up(self.progress.clone()))
    }

    /// The writer shows every second that it can write, by the row of its owner.
    fn probe(&self) -> BoxFuture<'_, Result<(), Error>> {
        let (done, answer) = oneshot::channel();
        self.queue.probe(done);
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(self.writer_ended())) })
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
            self.flush().await?;
            let question = async |client: Arc<_>| read::get(&client, tenant, id).await;
            self.readers.ask("read a record", question).await
        })
    }

    fn query<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a RecordFilter,
        page: PageRequest,
    ) -> BoxFuture<'a, Result<RecordPage, Error>> {
        Box::pin(async move {
            self.flush().await?;
            let question = async |client: Arc<_>| read::page(&client, tenant, filter, page).await;
            self.readers.ask("read records", question).await
        })
    }

    fn summary<'a>(
        &'a self,
        tenant: &'a TenantId,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Summary, Error>> {
        Box::pin(async move {
            self.flush().await?;
            let question =
                async |client: Arc<_>| read::summary(&client, tenant, conversation).await;
            self.readers.ask("sum up a conversation", question).await
        })
    }

    fn statistics<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Statistics, Error>> {
        Box::pin(async move {
            self.flush().await?;
            let question = async |client: Arc<_>| read::statistics(&client, tenant).await;
            self.readers.ask("read statistics", question).await
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
        let question =
            async move |client: Arc<_>| outputs::read(&client, tenant, id, offset, limit).await;
        Box::pin(self.readers.ask("read an output", question))
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!(
                database = %self.place,
                "the thread that writes records panicked; records may be missing"
            );
        }
    }
}
