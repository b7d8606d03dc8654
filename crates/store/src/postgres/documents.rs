//! [`PostgresDocuments`]: documents and events shared by any number of servers.
//!
//! ```text
//! put, delete, append_events ─► Writers (a few connections) ─► one statement each, with NOTIFY
//! get, find, list, all, events ─► Readers (a few connections)            │
//!                                 News ◄─ Listener (one connection) ◄────┘
//! ```
//!
//! Each change is a single statement, so it is atomic whatever happens to the connection,
//! and holds no lock for long.

mod events;
mod keep;
mod listener;
mod note;
mod read;
mod teller;
mod writers;

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime::{self, Handle};
use tokio::sync::{broadcast, oneshot, watch};
use windlass::{BoxFuture, Error, TenantId};

use super::connect::Target;
use super::fault::unavailable;
use super::options::PostgresOptions;
use super::readers::Readers;
use super::url::PostgresUrl;
use super::{fault, schema, text};
use crate::documents::{
    Change, Document, Documents, EventFilter, Expect, KeptEvent, NewEvent, News, Put, SpaceSize,
    can_be_kept, check,
};
use listener::Listener;
use note::Own;
use teller::Teller;
use writers::Writers;

/// Stores documents and events in a PostgreSQL database, beside the records of a
/// [`PostgresStore`](crate::PostgresStore). Servers that share it are notified of each
/// other's changes at once.
///
/// During an outage of the database everything fails, and recovers on its own;
/// subscribers are then told to read everything again. The listening connection needs a
/// session of its own, as that of the store does. Expiry is decided by the database's
/// clock.
pub struct PostgresDocuments {
    own: Arc<Own>,
    writers: Arc<Writers>,
    readers: Readers,
    news: Arc<News>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    place: Arc<str>,
}

impl PostgresDocuments {
    /// Connects to a database, and creates or migrates the tables.
    ///
    /// # Errors
    ///
    /// As [`PostgresStore::connect`](crate::PostgresStore::connect).
    pub async fn connect_to(url: &PostgresUrl, options: PostgresOptions) -> Result<Self, Error> {
        let target = Target::new(url, &options)?;
        let place = Arc::clone(&target.place);
        let (own, news) = (Arc::<Own>::default(), Arc::new(News::after(0)));
        let start =
            Listener::start(target.clone(), options.clone(), Arc::clone(&own), Arc::clone(&news));
        let (ready, started) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("windlass-documents".to_owned())
            .spawn(move || run(start, ready, stopped))
            .map_err(|cause| {
                unavailable("cannot start the thread that listens for changes").with_source(cause)
            })?;
        let ended = |_| unavailable(format!("the thread that listens to {place} has ended"));
        let runtime = started.await.map_err(ended)??;
        let writers = Arc::new(Writers::new(target.clone(), runtime.clone(), &options));
        let readers = Readers::new(target, runtime, &options);
        let (stop, thread) = (Some(stop), Some(thread));
        Ok(Self { own, writers, readers, news, stop, thread, place })
    }
}

/// The thread that runs the connections.
fn run(
    start: impl Future<Output = Result<Listener, Error>>,
    ready: oneshot::Sender<Result<Handle, Error>>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(cause) => {
            let error = unavailable("cannot start the runtime of the documents");
            // The caller may have gone away, here and below.
            let _ = ready.send(Err(error.with_source(cause)));
            return;
        }
    };
    runtime.block_on(async move {
        match start.await {
            Ok(listener) => {
                let _ = ready.send(Ok(Handle::current()));
                listener.run(stopped).await;
            }
            Err(error) => drop(ready.send(Err(error))),
        }
    });
}

impl Documents for PostgresDocuments {
    fn get<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>, Error>> {
        Box::pin(async move {
            if !can_be_kept(id) {
                return Ok(None);
            }
            let question = async |client: Arc<_>| read::get(&client, space, tenant, id).await;
            self.readers.ask("read a document", Some(tenant), question).await
        })
    }

    fn find<'a>(
        &'a self,
        space: &'static str,
        alias: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>, Error>> {
        Box::pin(async move {
            if !can_be_kept(alias) {
                return Ok(None);
            }
            let question = async |client: Arc<_>| read::find(&client, space, alias).await;
            self.readers.ask("read a document", None, question).await
        })
    }

    fn list<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document>, Error>> {
        let question =
            async move |client: Arc<_>| read::list(&client, space, tenant, after, limit).await;
        Box::pin(self.readers.ask("read documents", Some(tenant), question))
    }

    fn size_of<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        owner: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SpaceSize, Error>> {
        let question =
            async move |client: Arc<_>| read::size_of(&client, space, tenant, owner).await;
        Box::pin(self.readers.ask("size documents", Some(tenant), question))
    }

    fn owned_by<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        owner: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        let question =
            async move |client: Arc<_>| read::owned_by(&client, space, tenant, owner).await;
        Box::pin(self.readers.ask("read documents", Some(tenant), question))
    }

    fn all<'a>(&'a self, space: &'static str) -> BoxFuture<'a, Result<Vec<Document>, Error>> {
        let question = async move |client: Arc<_>| read::all(&client, space).await;
        Box::pin(self.readers.ask("read documents", None, question))
    }

    fn names<'a>(
        &'a self,
        space: &'static str,
    ) -> BoxFuture<'a, Result<Vec<(TenantId, String)>, Error>> {
        let question = async move |client: Arc<_>| read::names(&client, space).await;
        Box::pin(self.readers.ask("read documents", None, question))
    }

    fn put(&self, put: Put, expect: Expect) -> BoxFuture<'_, Result<Option<u64>, Error>> {
        Box::pin(async move {
            check(&put)?;
            let (own, news) = (Arc::clone(&self.own), Arc::clone(&self.news));
            let tenant = put.tenant.clone();
            let work = async move |client: Arc<_>| {
                let teller = Teller::new(own, news, put.space, put.tenant.clone(), &put.id);
                let end = keep::put(&client, &put, expect, teller.origin()).await;
                teller.tell(end, Option::is_some)
            };
            self.writers.write("keep a document", Some(&tenant), work).await
        })
    }

    fn delete<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
        expect: Expect,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            if !can_be_kept(id) {
                return Ok(false);
            }
            let (whose, id) = (tenant.clone(), id.to_owned());
            let (own, news) = (Arc::clone(&self.own), Arc::clone(&self.news));
            let work = async move |client: Arc<_>| {
                let teller = Teller::new(own, news, space, whose.clone(), &id);
                let end = keep::delete(&client, space, &whose, &id, expect, teller.origin()).await;
                teller.tell(end, |gone| *gone)
            };
            self.writers.write("delete a document", Some(tenant), work).await
        })
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.news.changes()
    }

    fn append_events(&self, events: Vec<NewEvent>) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            if events.is_empty() {
                return Ok(());
            }
            let news = Arc::clone(&self.news);
            let work = async move |client: Arc<_>| {
                let newest = events::append(&client, &events).await?;
                news.events_until(newest);
                Ok(())
            };
            self.writers.write("keep events", None, work).await
        })
    }

    fn events<'a>(
        &'a self,
        after: u64,
        filter: EventFilter<'a>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<KeptEvent>, Error>> {
        let question =
            async move |client: Arc<_>| events::read(&client, after, filter, limit).await;
        Box::pin(self.readers.ask("read events", filter.tenant, question))
    }

    fn event_range(&self) -> BoxFuture<'_, Result<(u64, u64), Error>> {
        let question = async |client: Arc<_>| events::range(&client).await;
        Box::pin(self.readers.ask("read events", None, question))
    }

    fn forgotten_events<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<u64, Error>> {
        let question = async move |client: Arc<_>| events::forgotten(&client, tenant).await;
        Box::pin(self.readers.ask("read events", Some(tenant), question))
    }

    fn new_events(&self) -> watch::Receiver<u64> {
        self.news.new_events()
    }
}

impl Drop for PostgresDocuments {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(database = %self.place, "the thread that listens for changes panicked");
        }
    }
}
