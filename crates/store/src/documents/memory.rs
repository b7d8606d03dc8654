//! [`MemoryDocuments`]: in-memory document store, for tests and servers without
//! persistence.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::ready;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use windlass::{BoxFuture, Error, FairRing, TenantId};

use super::{
    Change, Document, Documents, EventFilter, Expect, KeptEvent, NewEvent, News, Put, SpaceSize,
    check,
};

/// Expired documents are removed after this many changes.
const SWEEP: u64 = 256;

/// A document store in memory.
pub struct MemoryDocuments {
    state: Mutex<State>,
    news: News,
}

struct State {
    /// By space, tenant and id.
    documents: BTreeMap<(&'static str, TenantId, String), Document>,
    events: FairRing<KeptEvent>,
    keep_events: usize,
    forgotten: ForgottenEvents,
    position: u64,
    puts: u64,
}

/// The positions of the last events that were deleted.
#[derive(Default)]
struct ForgottenEvents {
    tenants: HashMap<TenantId, u64>,
    /// For all that are not listed any more.
    others: u64,
}

impl ForgottenEvents {
    /// Notes an event, for as many tenants as there may be events.
    fn note(&mut self, tenant: TenantId, position: u64, most: usize) {
        self.tenants.insert(tenant, position);
        if self.tenants.len() > most {
            let newest = self.tenants.drain().map(|(_, position)| position).max();
            self.others = self.others.max(newest.unwrap_or_default());
        }
    }

    fn of(&self, tenant: &TenantId) -> u64 {
        self.tenants.get(tenant).copied().unwrap_or_default().max(self.others)
    }
}

impl MemoryDocuments {
    /// How many events are kept by default.
    pub const EVENTS: usize = 10_000;

    /// An empty store.
    pub fn new() -> Self {
        Self::with_events(Self::EVENTS)
    }

    /// An empty store with this maximum number of events, at least one. The tenant
    /// with the most loses its oldest.
    pub fn with_events(keep_events: usize) -> Self {
        let state = State {
            documents: BTreeMap::new(),
            events: FairRing::new(keep_events),
            keep_events,
            forgotten: ForgottenEvents::default(),
            position: 0,
            puts: 0,
        };
        Self { state: Mutex::new(state), news: News::after(0) }
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

    /// Whether another document has the alias.
    fn is_taken(&self, put: &Put) -> bool {
        let is_other = |tenant: &TenantId, id: &str| *tenant != put.tenant || id != put.id;
        put.alias.is_some()
            && self.documents.iter().any(|((space, tenant, id), document)| {
                *space == put.space
                    && document.alias == put.alias
                    && is_other(tenant, id)
                    && lives(document)
            })
    }

    /// Removes expired documents from time to time.
    fn sweep(&mut self) {
        self.puts += 1;
        if self.puts.is_multiple_of(SWEEP) {
            self.documents.retain(|_, document| lives(document));
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

    fn size_of<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        owner: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SpaceSize, Error>> {
        let state = self.state.lock();
        let mut size = SpaceSize::default();
        for ((own, of, _), document) in &state.documents {
            let is_owned = owner.is_none() || document.owner.as_deref() == owner;
            if *own == space && of == tenant && is_owned && lives(document) {
                size.count += 1;
                size.bytes += document.body.to_string().len() as u64;
                size.first_end = size.first_end.into_iter().chain(document.expires_at).min();
            }
        }
        Box::pin(ready(Ok(size)))
    }

    fn owned_by<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        owner: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        let state = self.state.lock();
        let found = state.documents.iter().filter(|((own, of, _), document)| {
            let is_owned = document.owner.as_deref() == Some(owner);
            *own == space && of == tenant && is_owned && lives(document)
        });
        Box::pin(ready(Ok(found.map(|((_, _, id), _)| id.clone()).collect())))
    }

    fn all<'a>(&'a self, space: &'static str) -> BoxFuture<'a, Result<Vec<Document>, Error>> {
        let state = self.state.lock();
        let of_space = |((own, ..), document): &(&(&'static str, TenantId, String), &Document)| {
            *own == space && lives(document)
        };
        let found = state.documents.iter().filter(of_space).map(|(_, found)| found.clone());
        Box::pin(ready(Ok(found.collect())))
    }

    fn names<'a>(
        &'a self,
        space: &'static str,
    ) -> BoxFuture<'a, Result<Vec<(TenantId, String)>, Error>> {
        let state = self.state.lock();
        let found =
            state.documents.iter().filter(|((own, ..), found)| *own == space && lives(found));
        let names = found.map(|((_, tenant, id), _)| (tenant.clone(), id.clone()));
        Box::pin(ready(Ok(names.collect())))
    }

    fn put(&self, put: Put, expect: Expect) -> BoxFuture<'_, Result<Option<u64>, Error>> {
        if let Err(error) = check(&put) {
            return Box::pin(ready(Err(error)));
        }
        let mut state = self.state.lock();
        state.sweep();
        let key = (put.space, put.tenant.clone(), put.id.clone());
        let before = state.version(&key);
        if !expect.allows(before) || state.is_taken(&put) {
            return Box::pin(ready(Ok(None)));
        }
        let version = before.map_or(1, |version| version + 1);
        let owner = match before.and_then(|_| state.documents.get(&key)) {
            Some(before) => before.owner.clone(),
            None => put.owner,
        };
        let document = Document {
            tenant: put.tenant.clone(),
            id: put.id.clone(),
            alias: put.alias,
            owner,
            body: put.body,
            version,
            updated_at: Timestamp::now(),
            expires_at: put.expires_at,
        };
        state.documents.insert(key, document);
        drop(state);
        self.news.changed(put.space, &put.tenant, &put.id);
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
        let before = state.version(&key);
        let gone = before.is_some() && expect.allows(before);
        if gone {
            state.documents.remove(&key);
        }
        drop(state);
        if gone {
            self.news.changed(space, tenant, id);
        }
        Box::pin(ready(Ok(gone)))
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.news.changes()
    }

    fn append_events(&self, events: Vec<NewEvent>) -> BoxFuture<'_, Result<(), Error>> {
        let mut state = self.state.lock();
        for event in events {
            state.position += 1;
            let (position, tenant) = (state.position, event.tenant.clone());
            let gone = state.events.push(&tenant, KeptEvent { position, event });
            if let Some((tenant, gone)) = gone {
                let most = state.keep_events;
                state.forgotten.note(tenant, gone.position, most);
            }
        }
        let newest = state.position;
        drop(state);
        self.news.events_until(newest);
        Box::pin(ready(Ok(())))
    }

    fn events<'a>(
        &'a self,
        after: u64,
        filter: EventFilter<'a>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<KeptEvent>, Error>> {
        let state = self.state.lock();
        let of = |events: &VecDeque<KeptEvent>| {
            let first = events.partition_point(|kept| kept.position <= after);
            let new = events.iter().skip(first).filter(|kept| filter.matches(&kept.event));
            new.take(limit).cloned().collect::<Vec<_>>()
        };
        let chosen =
            state.events.all().filter(|(tenant, _)| filter.tenant.is_none_or(|own| own == *tenant));
        let mut found: Vec<KeptEvent> = chosen.flat_map(|(_, events)| of(events)).collect();
        found.sort_unstable_by_key(|kept| kept.position);
        found.truncate(limit);
        Box::pin(ready(Ok(found)))
    }

    fn event_range(&self) -> BoxFuture<'_, Result<(u64, u64), Error>> {
        let state = self.state.lock();
        let oldest = state.events.all().filter_map(|(_, events)| events.front());
        let oldest = oldest.map(|kept| kept.position).min().unwrap_or_default();
        Box::pin(ready(Ok((oldest, state.position))))
    }

    fn forgotten_events<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(ready(Ok(self.state.lock().forgotten.of(tenant))))
    }

    fn new_events(&self) -> watch::Receiver<u64> {
        self.news.new_events()
    }
}
