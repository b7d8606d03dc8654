//! [`QueuedStore`]: a record store as a write-behind queue in front of a
//! database. SQLite and PostgreSQL bring the [`Database`]; the queue, its
//! backpressure, and the wait for what this process wrote itself
//! (read-your-writes) are the same for both.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{oneshot, watch};
use windlass::{
    Begun, BoxFuture, CallId, CallRecord, Error, Intent, OutputPart, OwnerId, PageRequest,
    RecordFilter, RecordPage, RecordStore, Statistics, Summary, TenantId,
};

use crate::fault::unavailable;
use crate::queue::{Begin, Interrupted, Progress, Queue, Wake};

/// A database for records: its owner id and its queries, each of which names the tenant.
/// Writes go through the queue.
pub(crate) trait Database: Send + Sync + 'static {
    /// How its writer waits.
    type Wake: Wake + Send + Sync + 'static;

    /// Whether intents are refused without an attempt during an outage. Otherwise they
    /// trigger one.
    const REFUSES_INTENTS_IN_OUTAGE: bool;

    /// Names the database in messages, without secrets.
    fn place(&self) -> String;

    fn owner(&self) -> BoxFuture<'_, Result<OwnerId, Error>>;

    fn is_gone<'a>(&'a self, owner: &'a OwnerId) -> BoxFuture<'a, Result<bool, Error>>;

    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>, Error>>;

    fn page<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a RecordFilter,
        page: PageRequest,
    ) -> BoxFuture<'a, Result<RecordPage, Error>>;

    fn summary<'a>(
        &'a self,
        tenant: &'a TenantId,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Summary, Error>>;

    fn statistics<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Statistics, Error>>;

    fn read_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Option<OutputPart>, Error>>;
}

/// Stores call records in a database `D`, through a bounded write-behind queue and a
/// writer with group commit.
///
/// Appending is idempotent, and the id must be a UUIDv7 with the time of the call; a
/// second record with the same id is ignored. Queries need a Tokio runtime. Dropping the
/// store flushes the queue, within the limits of its options.
#[allow(private_bounds, reason = "sealed: the databases are ours")]
pub struct QueuedStore<D: Database> {
    pub(crate) database: D,
    pub(crate) queue: Arc<Queue<D::Wake>>,
    pub(crate) progress: watch::Receiver<Progress>,
    pub(crate) interrupted: Arc<Interrupted>,
    pub(crate) max_output_bytes: u64,
    pub(crate) writer: Option<JoinHandle<()>>,
}

#[allow(private_bounds, reason = "sealed: the databases are ours")]
impl<D: Database> QueuedStore<D> {
    /// Lists and sums leave out what cannot be committed at the moment, rather than fail.
    async fn flush_if_possible(&self) {
        if let Err(error) = self.flush().await {
            tracing::warn!(%error, "the answer leaves out records that are not written yet");
        }
    }

    fn writer_ended(&self) -> Error {
        let place = self.database.place();
        unavailable(format!("the thread that writes records to {place} has ended"))
    }
}

#[allow(private_bounds, reason = "sealed: the databases are ours")]
impl<D: Database> RecordStore for QueuedStore<D> {
    fn append(&self, record: CallRecord) {
        self.queue.append(record);
    }

    fn keeps_intents(&self) -> bool {
        true
    }

    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<Begun, Error>> {
        Box::pin(async move {
            if D::REFUSES_INTENTS_IN_OUTAGE {
                let outage = self.progress.borrow().outage.clone();
                outage.map_or(Ok(()), Err)?;
            }
            let (done, answer) = oneshot::channel();
            self.queue.begin(Begin { intent, done })?;
            answer.await.unwrap_or_else(|_| Err(self.writer_ended()))
        })
    }

    fn owner(&self) -> BoxFuture<'_, Result<Option<OwnerId>, Error>> {
        Box::pin(async move { self.database.owner().await.map(Some) })
    }

    fn is_gone<'a>(&'a self, owner: &'a OwnerId) -> BoxFuture<'a, Result<bool, Error>> {
        self.database.is_gone(owner)
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
            let flushed = self.flush().await;
            match self.database.get(tenant, id).await? {
                // It may be among those that are not committed.
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
            self.database.page(tenant, filter, page).await
        })
    }

    fn summary<'a>(
        &'a self,
        tenant: &'a TenantId,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Summary, Error>> {
        Box::pin(async move {
            self.flush_if_possible().await;
            self.database.summary(tenant, conversation).await
        })
    }

    fn statistics<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Statistics, Error>> {
        Box::pin(async move {
            self.flush_if_possible().await;
            self.database.statistics(tenant).await
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
        self.database.read_output(tenant, id, offset, limit)
    }
}

impl<D: Database> Drop for QueuedStore<D> {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!(
                database = %self.database.place(),
                "the thread that writes records panicked; records may be missing"
            );
        }
    }
}
