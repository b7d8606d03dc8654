//! [`SqliteDocuments`]: documents and events in the same file as the records.
//!
//! ```text
//! put, delete ─► DocumentWriter (waits for the disk) ──┐
//! append_events ─► DocumentWriter ─────────────────────┴─► file ◄─ Watch (one thread, polls a few times a second)
//! get, find, list, all, events ─► Readers ◄──────┘             └─► News
//! ```
//!
//! SQLite has no notifications. So changes are also written to a short table, which other
//! processes poll.

mod events;
mod keep;
mod read;
mod watch;
mod writer;

use std::path::Path;
use std::sync::Arc;

use tokio::sync::broadcast;
use windlass::{BoxFuture, Error, TenantId};

use crate::documents::{
    Change, Document, Documents, EventFilter, Expect, KeptEvent, NewEvent, News, Origin, Put,
    SpaceSize, check,
};
use crate::sqlite::connect;
use crate::sqlite::fault::storage;
use crate::sqlite::options::{Options, Synchronous};
use crate::sqlite::readers::Readers;
use watch::{Watch, Watcher};
use writer::DocumentWriter;

/// Stores documents and events in a SQLite file, beside the records of a
/// [`SqliteStore`](crate::SqliteStore). Several processes may share the file, and learn
/// of each other's changes within a second.
///
/// A stored document survives a power failure; the last events may not, unless
/// [`Options::synchronous`] says so. Needs a Tokio runtime.
pub struct SqliteDocuments {
    origin: Origin,
    documents: Arc<DocumentWriter>,
    events: Arc<DocumentWriter>,
    readers: Readers,
    news: Arc<News>,
    _watcher: Watcher,
}

impl SqliteDocuments {
    /// Opens a file, and creates it and its directories if they are missing.
    ///
    /// # Errors
    ///
    /// As [`SqliteStore::open`](crate::SqliteStore::open).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, Options::default())
    }

    /// Opens a file with settings.
    ///
    /// # Errors
    ///
    /// As [`SqliteStore::open`](crate::SqliteStore::open).
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let path = path.as_ref();
        let durable = Options { synchronous: Synchronous::Full, ..options };
        let (documents, identity) = connect::identified(path, &durable)?;
        let fault = |cause| storage(path, "open the documents", cause);
        // Before anybody subscribes: every later change is reported.
        let last_change = keep::last_change(&documents).map_err(fault)?;
        let (_, newest) = events::range(&documents).map_err(fault)?;

        let origin = Origin::new();
        let news = Arc::new(News::after(newest));
        let writer = |connection, options| {
            Arc::new(DocumentWriter::new(path, connection, options, Arc::clone(&identity)))
        };
        // Few commands append events: their connection is opened by the first that does.
        let (documents, events) = (writer(Some(documents), durable), writer(None, options.clone()));
        let readers = Readers::new(path.to_owned(), options.clone(), Arc::clone(&identity));
        let news_of_others = Arc::clone(&news);
        let watch = Watch::new(path, options, identity, origin, last_change, news_of_others);
        let watcher = watch.start(Arc::clone(&documents), Arc::clone(&events))?;
        Ok(Self { origin, documents, events, readers, news, _watcher: watcher })
    }
}

impl Documents for SqliteDocuments {
    fn get<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>, Error>> {
        let (own, id) = (tenant.clone(), id.to_owned());
        let question = move |db: &_| read::get(db, space, &own, &id);
        Box::pin(self.readers.ask("read a document", Some(tenant), question))
    }

    fn body_text<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, Error>> {
        let (own, id) = (tenant.clone(), id.to_owned());
        let question = move |db: &_| read::body_text(db, space, &own, &id);
        Box::pin(self.readers.ask("read a document", Some(tenant), question))
    }

    fn find<'a>(
        &'a self,
        space: &'static str,
        alias: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>, Error>> {
        let alias = alias.to_owned();
        Box::pin(self.readers.ask("read a document", None, move |db| read::find(db, space, &alias)))
    }

    fn list<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document>, Error>> {
        let (own, after) = (tenant.clone(), after.map(str::to_owned));
        let question = move |db: &_| read::list(db, space, &own, after.as_deref(), limit);
        Box::pin(self.readers.ask("read documents", Some(tenant), question))
    }

    fn size_of<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        owner: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SpaceSize, Error>> {
        let (own, owner) = (tenant.clone(), owner.map(str::to_owned));
        let question = move |db: &_| read::size_of(db, space, &own, owner.as_deref());
        Box::pin(self.readers.ask("size documents", Some(tenant), question))
    }

    fn owned_by<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        owner: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        let (own, owner) = (tenant.clone(), owner.to_owned());
        let question = move |db: &_| read::owned_by(db, space, &own, &owner);
        Box::pin(self.readers.ask("read documents", Some(tenant), question))
    }

    fn all<'a>(&'a self, space: &'static str) -> BoxFuture<'a, Result<Vec<Document>, Error>> {
        Box::pin(self.readers.ask("read documents", None, move |db| read::all(db, space)))
    }

    fn names<'a>(
        &'a self,
        space: &'static str,
    ) -> BoxFuture<'a, Result<Vec<(TenantId, String)>, Error>> {
        Box::pin(self.readers.ask("read documents", None, move |db| read::names(db, space)))
    }

    fn put(&self, put: Put, expect: Expect) -> BoxFuture<'_, Result<Option<u64>, Error>> {
        Box::pin(async move {
            check(&put)?;
            let (tenant, put) = (put.tenant.clone(), Arc::new(put));
            let (kept, origin, news) = (Arc::clone(&put), self.origin, Arc::clone(&self.news));
            let work = move |db: &_| keep::put(db, &kept, expect, origin);
            let tell = move |version: &Option<u64>| {
                if version.is_some() {
                    news.changed(put.space, &put.tenant, &put.id);
                }
            };
            self.documents.write("keep a document", Some(&tenant), work, tell).await
        })
    }

    fn delete<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
        expect: Expect,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        let name = Arc::new((tenant.clone(), id.to_owned()));
        let (named, origin, news) = (Arc::clone(&name), self.origin, Arc::clone(&self.news));
        let work = move |db: &_| keep::delete(db, space, &named.0, &named.1, expect, origin);
        let tell = move |gone: &bool| {
            if *gone {
                news.changed(space, &name.0, &name.1);
            }
        };
        Box::pin(self.documents.write("delete a document", Some(tenant), work, tell))
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
            let work = move |db: &_| events::append(db, &events);
            let tell = move |newest: &u64| news.events_until(*newest);
            self.events.write("keep events", None, work, tell).await.map(drop)
        })
    }

    fn events<'a>(
        &'a self,
        after: u64,
        filter: EventFilter<'a>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<KeptEvent>, Error>> {
        let question = events::Question::new(after, filter, limit);
        Box::pin(self.readers.ask("read events", filter.tenant, move |db| question.ask(db)))
    }

    fn event_range(&self) -> BoxFuture<'_, Result<(u64, u64), Error>> {
        Box::pin(self.readers.ask("read events", None, events::range))
    }

    fn forgotten_events<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<u64, Error>> {
        let own = tenant.clone();
        let question = move |db: &_| events::forgotten(db, &own);
        Box::pin(self.readers.ask("read events", Some(tenant), question))
    }

    fn new_events(&self) -> tokio::sync::watch::Receiver<u64> {
        self.news.new_events()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `PRAGMA synchronous` for `FULL` and `NORMAL`.
    const FULL: i64 = 2;
    const NORMAL: i64 = 1;

    #[test]
    fn documents_wait_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let documents = SqliteDocuments::open(folder.path().join("calls.db")).unwrap();
        let level = |writer: &DocumentWriter| {
            writer
                .write_here(|db| db.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0)))
        };
        assert_eq!(level(&documents.documents).unwrap(), FULL);
        assert_eq!(level(&documents.events).unwrap(), NORMAL);
    }

    /// No query scans more of a table than necessary.
    #[test]
    fn questions_use_the_indexes() {
        let folder = tempfile::tempdir().unwrap();
        let documents = SqliteDocuments::open(folder.path().join("calls.db")).unwrap();
        let plan = |sql: &str| {
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let work = |db: &rusqlite::Connection| {
                let mut statement = db.prepare(&explain)?;
                let values = vec!["x"; statement.parameter_count()];
                statement
                    .query_map(rusqlite::params_from_iter(values), |row| row.get::<_, String>(3))?
                    .collect()
            };
            let lines: Vec<String> = documents.documents.write_here(work).unwrap();
            lines.join("; ")
        };
        let events = "SELECT body FROM events WHERE position > 5 AND tenant = 'a'";
        for (sql, index) in [
            ("SELECT body FROM documents WHERE space = 'a' AND alias = ?", "documents_by_alias"),
            ("SELECT 1 FROM documents WHERE expires_us <= 5", "documents_by_end"),
            (
                "SELECT id FROM documents WHERE space = ? AND tenant = ? AND owner = ?",
                "documents_by_owner",
            ),
            (events, "events_by_tenant"),
            ("SELECT tenant, count(*) FROM events GROUP BY tenant", "COVERING INDEX events_by"),
            (&format!("{events} AND conversation = ?"), "events_by_conversation"),
            (&format!("{events} AND batch = ? ORDER BY position"), "events_by_batch"),
        ] {
            let plan = plan(sql);
            assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{sql}: {plan}");
        }
    }
}
