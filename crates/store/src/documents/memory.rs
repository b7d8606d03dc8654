//! [`MemoryDocuments`]: for tests, and for servers that keep nothing.

use std::collections::{BTreeMap, VecDeque};
use std::future::ready;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use windlass::{BoxFuture, Error, TenantId};

use super::{Change, Document, Documents, EventFilter, Expect, KeptEvent, NewEvent, Put};

/// How many changes a slow listener may be behind.
const CHANGES: usize = 256;
/// How many events are kept.
const EVENTS: usize = 10_000;

/// Documents without a database.
pub struct MemoryDocuments {
    state: Mutex<State>,
    changes: broadcast::Sender<Change>,
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// By space, tenant and id.
    documents: BTreeMap<(&'static str, TenantId, String), Document>,
    events: VecDeque<KeptEvent>,
    position: u64,
}

impl MemoryDocuments {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            state: Mutex::default(),
            changes: broadcast::Sender::new(CHANGES),
            newest: watch::Sender::new(0),
        }
    }

    fn tell(&self, space: &str, tenant: &TenantId, id: &str) {
        let (space, id) = (space.to_owned(), id.to_owned());
        // Nobody may listen.
        let _ = self.changes.send(Change { space, tenant: tenant.clone(), id });
    }
}

impl Default for MemoryDocuments {
    fn default() -> Self {
        Self::new()
    }
}

fn lives(document: &Document) -> bool {
    document.expires_at.is_none_or(|end| end > Timestamp::now())
}

impl State {
    fn version(&self, key: &(&'static str, TenantId, String)) -> Option<u64> {
        self.documents.get(key).filter(|document| lives(document)).map(|document| document.version)
    }

    fn has_alias(&self, space: &str, alias: &str) -> bool {
        self.documents.iter().any(|((own, ..), document)| {
            *own == space && document.alias.as_deref() == Some(alias) && lives(document)
        })
    }

    fn allows(&self, key: &(&'static str, TenantId, String), expect: Expect) -> bool {
        match expect {
            Expect::Anything => true,
            Expect::Absent => self.version(key).is_none(),
            Expect::Version(version) => self.version(key) == Some(version),
        }
    }
}

impl Documents for MemoryDocuments {
    fn get<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>, Error>> {
        let state = self.state.lock();
        let found = state.documents.get(&(space, tenant.clone(), id.to_owned()));
        Box::pin(ready(Ok(found.filter(|document| lives(document)).cloned())))
    }

    fn find<'a>(
        &'a self,
        space: &'static str,
        alias: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>, Error>> {
        let state = self.state.lock();
        let found = state.documents.iter().find(|((own, ..), document)| {
            *own == space && document.alias.as_deref() == Some(alias) && lives(document)
        });
        Box::pin(ready(Ok(found.map(|(_, document)| document.clone()))))
    }

    fn list<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document>, Error>> {
        let state = self.state.lock();
        let found = state
            .documents
            .iter()
            .filter(|((own, of, id), document)| {
                *own == space
                    && of == tenant
                    && after.is_none_or(|after| id.as_str() > after)
                    && lives(document)
            })
            .take(limit)
            .map(|(_, document)| document.clone())
            .collect();
        Box::pin(ready(Ok(found)))
    }

    fn all<'a>(&'a self, space: &'static str) -> BoxFuture<'a, Result<Vec<Document>, Error>> {
        let state = self.state.lock();
        let of_space = |((own, ..), document): &(&(&'static str, TenantId, String), &Document)| {
            *own == space && lives(document)
        };
        let found = state.documents.iter().filter(of_space).map(|(_, found)| found.clone());
        Box::pin(ready(Ok(found.collect())))
    }

    fn put(&self, put: Put, expect: Expect) -> BoxFuture<'_, Result<Option<u64>, Error>> {
        let mut state = self.state.lock();
        let key = (put.space, put.tenant.clone(), put.id.clone());
        let taken = put.alias.as_deref().is_some_and(|alias| state.has_alias(put.space, alias));
        if !state.allows(&key, expect) || expect == Expect::Absent && taken {
            return Box::pin(ready(Ok(None)));
        }
        let version = state.documents.get(&key).map_or(1, |document| document.version + 1);
        let (tenant, id) = (put.tenant.clone(), put.id.clone());
        let document = Document {
            tenant: put.tenant,
            id: put.id,
            alias: put.alias,
            body: put.body,
            version,
            updated_at: Timestamp::now(),
            expires_at: put.expires_at,
        };
        state.documents.insert(key, document);
        drop(state);
        self.tell(put.space, &tenant, &id);
        Box::pin(ready(Ok(Some(version))))
    }

    fn delete<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
        expect: Expect,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        let mut state = self.state.lock();
        let key = (space, tenant.clone(), id.to_owned());
        let gone = state.version(&key).is_some() && state.allows(&key, expect);
        if gone {
            state.documents.remove(&key);
        }
        drop(state);
        if gone {
            self.tell(space, tenant, id);
        }
        Box::pin(ready(Ok(gone)))
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    fn append_events(&self, events: Vec<NewEvent>) -> BoxFuture<'_, Result<(), Error>> {
        let mut state = self.state.lock();
        for event in events {
            state.position += 1;
            let position = state.position;
            state.events.push_back(KeptEvent { position, event });
            if state.events.len() > EVENTS {
                state.events.pop_front();
            }
        }
        let newest = state.position;
        drop(state);
        self.newest.send_replace(newest);
        Box::pin(ready(Ok(())))
    }

    fn events<'a>(
        &'a self,
        after: u64,
        filter: EventFilter<'a>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<KeptEvent>, Error>> {
        let state = self.state.lock();
        let chosen = |kept: &&KeptEvent| kept.position > after && filter.matches(&kept.event);
        let found = state.events.iter().filter(chosen).take(limit).cloned().collect();
        Box::pin(ready(Ok(found)))
    }

    fn event_range(&self) -> BoxFuture<'_, Result<(u64, u64), Error>> {
        let state = self.state.lock();
        let oldest = state.events.front().map_or(0, |kept| kept.position);
        Box::pin(ready(Ok((oldest, state.position))))
    }

    fn new_events(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }
}
