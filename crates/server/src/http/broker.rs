//! Event broker: writes the engine's events to the store and delivers them to
//! subscribers, including those that were disconnected for a while.
//!
//! ```text
//! engine ─► recorder ─► store ─► tail ─► topics ─► subscribers
//!                         └───── replay after a reconnect ─┘
//! ```
//!
//! All servers on one database deliver the same events in the same order. Events
//! are stored only for tenants with a subscriber now or shortly before.

pub(crate) mod event_id;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event as Sent;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass::{
    BatchId, CallId, Engine, Error, ErrorKind, Event, EventBody, EventSubject, OwnerId,
    Subscription, TenantId,
};
use windlass_store::{Change, Document, Documents, EventFilter, Expect, KeptEvent, NewEvent, Put};

use super::cluster::recovery::{SERVER, call_of, is_end};
use super::routes::stream;
use event_id::EventIds;

/// Document space of listener leases.
const LISTENERS: &str = "listeners";
/// The name of a tenant's one document there.
const EVENTS: &str = "events";
/// Document space of the positions at which events may be missing, because a
/// server crashed.
const GAPS: &str = "event_gaps";
/// How long such a position is remembered.
const GAPS_LIVE: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often that is tried where several servers write it at once.
const ATTEMPTS: usize = 16;
/// What a slow reader may be behind before it has to read from the store.
const BEHIND: usize = 64;
/// Events in one write or one read.
const PAGE: usize = 256;
/// How long it may take until events are kept.
const AT_ONCE: Duration = Duration::from_secs(5);
/// How long the recorder waits before it tries again to write.
const AGAIN: Duration = Duration::from_millis(200);

/// A topic to subscribe to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Topic {
    pub(crate) tenant: TenantId,
    pub(crate) conversation: Option<String>,
    pub(crate) batch: Option<String>,
}

impl Topic {
    pub(crate) fn filter(&self) -> EventFilter<'_> {
        EventFilter {
            tenant: Some(&self.tenant),
            conversation: self.conversation.as_deref(),
            batch: self.batch.as_deref(),
        }
    }

    /// The topics that an event may be in.
    fn of(event: &NewEvent) -> impl Iterator<Item = Self> + '_ {
        let (conversation, batch) = (&event.conversation, &event.batch);
        let both = conversation.is_some() && batch.is_some();
        let choices = [
            (true, None, None),
            (conversation.is_some(), conversation.clone(), None),
            (batch.is_some(), None, batch.clone()),
            (both, conversation.clone(), batch.clone()),
        ];
        choices.into_iter().filter(|choice| choice.0).map(|(_, conversation, batch)| Self {
            tenant: event.tenant.clone(),
            conversation,
            batch,
        })
    }
}

/// An encoded event: serialized once for all subscribers.
#[derive(Clone)]
pub(crate) struct EncodedEvent {
    pub(crate) position: u64,
    pub(crate) sent: Sent,
}

impl EncodedEvent {
    pub(crate) fn new(event: &KeptEvent, ids: &EventIds) -> Self {
        let sent = match event.event.body.get(SERVER) {
            None => stream::event(&event.event.name, &event.event.body),
            Some(_) => {
                let mut body = event.event.body.clone();
                if let Value::Object(body) = &mut body {
                    body.remove(SERVER);
                }
                stream::event(&event.event.name, &body)
            }
        };
        let id = ids.id(&event.event.tenant, event.position);
        Self { position: event.position, sent: sent.id(id) }
    }

    /// Events may be missing at this position. It is told whatever a reader has
    /// seen, and is none that it could come back to.
    fn gap_at(position: u64, tenant: &TenantId, ids: &EventIds) -> Self {
        let (here, next) = (ids.id(tenant, position), ids.id(tenant, position + 1));
        let gap = json!({"after": here, "kept_from": next, "newest": here});
        Self { position: u64::MAX, sent: stream::event("gap", &gap) }
    }

    /// Whether this is an event that a reader can come back to.
    pub(crate) fn has_place(&self) -> bool {
        self.position < u64::MAX
    }
}

/// The subscribers of a tenant, now or shortly before.
#[derive(Clone, Copy)]
struct TenantListeners {
    /// When the listener lease expires.
    until: Timestamp,
    /// The newest position when keeping began. What happened before, and after
    /// the last reader of that time, is not kept.
    since: u64,
    /// When that was.
    since_at: Timestamp,
}

impl TenantListeners {
    /// As it is written down.
    fn read(listener: &Document) -> Self {
        let at = listener.body["at"].as_str().and_then(|at| at.parse().ok());
        Self {
            until: listener.expires_at.unwrap_or(Timestamp::MAX),
            since: listener.body["since"].as_u64().unwrap_or_default(),
            since_at: at.unwrap_or(listener.updated_at),
        }
    }
}

/// A new subscriber.
pub(crate) struct Subscriber {
    pub(crate) live: broadcast::Receiver<Arc<EncodedEvent>>,
    /// The position after which all events of the tenant are kept.
    pub(crate) since: u64,
}

/// The event broker.
pub(crate) struct EventBroker {
    documents: Arc<dyn Documents>,
    pub(crate) ids: EventIds,
    /// How long events are kept for a tenant after its last reader was seen.
    listener_ttl: Duration,
    topics: Mutex<HashMap<Topic, broadcast::Sender<Arc<EncodedEvent>>>>,
    /// Held by the one who writes that somebody listens: of all readers that come
    /// at once, one writes.
    seeing: tokio::sync::Mutex<()>,
    /// Positions at which events may be missing, because a server crashed.
    gaps: Mutex<BTreeSet<u64>>,
    /// Held by the one who writes ends that may have been written already.
    ending: tokio::sync::Mutex<()>,
    /// The tenants whose events are kept.
    interests: Mutex<HashMap<TenantId, TenantListeners>>,
    interested: Notify,
    /// The position up to which events were delivered.
    told: watch::Sender<u64>,
    /// Whether the engine's events are being kept.
    records: watch::Sender<bool>,
}

impl EventBroker {
    /// A broker that keeps events for so long after the last reader was seen.
    pub(crate) fn new(
        documents: Arc<dyn Documents>,
        ids: EventIds,
        listener_ttl: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            documents,
            ids,
            listener_ttl,
            topics: Mutex::default(),
            seeing: tokio::sync::Mutex::default(),
            gaps: Mutex::default(),
            ending: tokio::sync::Mutex::default(),
            interests: Mutex::default(),
            interested: Notify::new(),
            told: watch::Sender::new(0),
            records: watch::Sender::new(false),
        })
    }

    /// Reads what is known of listeners and events.
    pub(crate) async fn prepare(&self) -> Result<(), Error> {
        let (_, newest) = self.documents.event_range().await?;
        self.told.send_replace(newest);
        self.read_gaps().await?;
        self.read_interests().await
    }

    /// Begins to record and to tell, until the server ends. What comes back ends
    /// when all events that happened before have been written.
    pub(crate) fn start(
        self: &Arc<Self>,
        engine: &Engine,
        server: Option<OwnerId>,
        stop: CancellationToken,
    ) -> JoinHandle<()> {
        let (broker, engine, end) = (Arc::clone(self), engine.clone(), stop.clone());
        let recorder =
            tokio::spawn(async move { broker.record(&engine, server.as_ref(), &end).await });
        let (broker, end) = (Arc::clone(self), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = broker.tail() => {}
                () = end.cancelled() => {}
            }
        });
        let broker = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = broker.stay_seen() => {}
                () = stop.cancelled() => {}
            }
        });
        recorder
    }

    /// The position up to which events were delivered.
    pub(crate) fn position(&self) -> u64 {
        *self.told.borrow()
    }

    /// Listens to a topic. From now on its tenant's events are kept.
    pub(crate) async fn join(&self, topic: &Topic) -> Result<Subscriber, Error> {
        let live = {
            let mut topics = self.topics.lock();
            if topics.len() >= 1024 {
                topics.retain(|_, channel| channel.receiver_count() > 0);
            }
            let channel =
                topics.entry(topic.clone()).or_insert_with(|| broadcast::Sender::new(BEHIND));
            channel.subscribe()
        };
        let since = self.see(&topic.tenant).await?;
        // The client may make a call right after it has subscribed, and expects its events.
        let mut records = self.records.subscribe();
        let begun = tokio::time::timeout(AT_ONCE, records.wait_for(|records| *records)).await;
        if begun.is_err() {
            tracing::warn!("events are not kept yet, although somebody listens");
        }
        Ok(Subscriber { live, since })
    }

    /// How often a reader is seen.
    fn seen_every(&self) -> Duration {
        (self.listener_ttl / 5).max(Duration::from_millis(20))
    }

    /// Takes or renews the listener lease of a tenant.
    /// Returns the position after which its events are kept.
    ///
    /// The document outlives the server that wrote it. Once it has expired,
    /// keeping begins anew, from a later position, and all servers see that.
    async fn see(&self, tenant: &TenantId) -> Result<u64, Error> {
        let soon = from_now(self.listener_ttl.saturating_sub(self.seen_every()));
        let known = || {
            let known = self.interests.lock().get(tenant).copied();
            known.filter(|known| known.until > soon).map(|known| known.since)
        };
        if let Some(since) = known() {
            return Ok(since);
        }
        let _turn = self.seeing.lock().await;
        if let Some(since) = known() {
            return Ok(since);
        }
        for _ in 0..ATTEMPTS {
            let (mut interest, expect) = match self.documents.get(LISTENERS, tenant, EVENTS).await?
            {
                Some(kept) => (TenantListeners::read(&kept), Expect::Version(kept.version)),
                None => {
                    let (_, since) = self.documents.event_range().await?;
                    let (until, since_at) = (Timestamp::MIN, Timestamp::now());
                    (TenantListeners { until, since, since_at }, Expect::Absent)
                }
            };
            // Skipped if another server has just renewed the lease.
            let is_written = interest.until > soon || {
                interest.until = from_now(self.listener_ttl);
                let body = json!({"since": interest.since, "at": interest.since_at});
                let mut put = Put::new(LISTENERS, tenant.clone(), EVENTS, body);
                put.expires_at = Some(interest.until);
                self.documents.put(put, expect).await?.is_some()
            };
            if is_written {
                self.interests.lock().insert(tenant.clone(), interest);
                self.interested.notify_one();
                return Ok(interest.since);
            }
        }
        let why = "who listens to events is being written by others; try again";
        Err(Error::new(ErrorKind::StorageUnavailable, why))
    }

    /// Tenants with readers are seen again and again.
    async fn stay_seen(&self) {
        loop {
            tokio::time::sleep(self.seen_every() / 2).await;
            let mut tenants: Vec<TenantId> = {
                let mut topics = self.topics.lock();
                topics.retain(|_, channel| channel.receiver_count() > 0);
                topics.keys().map(|topic| topic.tenant.clone()).collect()
            };
            tenants.sort_unstable();
            tenants.dedup();
            for tenant in tenants {
                if let Err(error) = self.see(&tenant).await {
                    tracing::warn!(%error, "that events are listened to could not be written");
                }
            }
        }
    }

    /// There may be a subscriber on another server.
    pub(crate) async fn changed(&self, change: &Change) {
        if (change.space == LISTENERS || change.space.is_empty())
            && let Err(error) = self.read_interests().await
        {
            tracing::warn!(%error, "who listens to events could not be read");
        }
        if (change.space == GAPS || change.space.is_empty())
            && let Err(error) = self.read_gaps().await
        {
            tracing::warn!(%error, "where events may be missing could not be read");
        }
    }

    async fn read_interests(&self) -> Result<(), Error> {
        let found = self.documents.all(LISTENERS).await?;
        let mut interests = self.interests.lock();
        for listener in found {
            let interest = TenantListeners::read(&listener);
            interests.insert(listener.tenant, interest);
        }
        drop(interests);
        self.interested.notify_one();
        Ok(())
    }

    /// The tenants whose events are kept, each with the position and the time
    /// after which they are.
    pub(super) fn listened(&self) -> Vec<(TenantId, u64, Timestamp)> {
        let now = Timestamp::now();
        let interests = self.interests.lock();
        let live = interests.iter().filter(|(_, interest)| interest.until > now);
        live.map(|(tenant, it)| (tenant.clone(), it.since, it.since_at)).collect()
    }

    /// Keeps ends of calls that another one may have kept already: each once.
    pub(super) async fn append_ends(&self, mut ends: Vec<NewEvent>) -> Result<(), Error> {
        if ends.is_empty() {
            return Ok(());
        }
        let _turn = self.ending.lock().await;
        let tenants: HashSet<TenantId> = ends.iter().map(|end| end.tenant.clone()).collect();
        for tenant in tenants {
            let known = self.interests.lock().get(&tenant).map(|known| known.since);
            let filter = EventFilter { tenant: Some(&tenant), ..EventFilter::default() };
            let (mut after, mut ended) = (known.unwrap_or_default(), HashSet::new());
            loop {
                let page = self.documents.events(after, filter, PAGE).await?;
                let full = page.len() == PAGE;
                after = page.last().map_or(after, |last| last.position);
                let page = page.iter().map(|kept| &kept.event).filter(|event| is_end(event));
                ended.extend(page.filter_map(call_of));
                if !full {
                    break;
                }
            }
            ends.retain(|end| {
                end.tenant != tenant || call_of(end).is_none_or(|call| !ended.contains(&call))
            });
        }
        for part in ends.chunks(PAGE) {
            self.documents.append_events(part.to_vec()).await?;
        }
        Ok(())
    }

    /// Remembers that events may be missing at this position, and tells those who
    /// read.
    pub(super) async fn mark_gap(&self, position: u64) -> Result<(), Error> {
        let id = format!("{position:020}");
        let mut put = Put::new(GAPS, TenantId::default(), id, json!({"position": position}));
        put.expires_at = Some(from_now(GAPS_LIVE));
        self.documents.put(put, Expect::Anything).await?;
        self.read_gaps().await
    }

    async fn read_gaps(&self) -> Result<(), Error> {
        let found = self.documents.all(GAPS).await?;
        let found: BTreeSet<u64> =
            found.iter().filter_map(|gap| gap.body["position"].as_u64()).collect();
        let new: Vec<u64> = {
            let mut gaps = self.gaps.lock();
            let new = found.difference(&gaps).copied().collect();
            *gaps = found;
            new
        };
        let topics = self.topics.lock();
        for position in new {
            for (topic, channel) in topics.iter() {
                let told = EncodedEvent::gap_at(position, &topic.tenant, &self.ids);
                // Fails only if there are no subscribers any more.
                drop(channel.send(Arc::new(told)));
            }
        }
        Ok(())
    }

    /// The positions from this one on at which events may be missing.
    pub(crate) fn gaps_from(&self, position: u64) -> BTreeSet<u64> {
        self.gaps.lock().range(position..).copied().collect()
    }

    /// Tenants whose events are kept, for a little longer than is written down:
    /// clocks differ, and what a reader is told to be there has to be there.
    fn tenants(&self) -> Vec<TenantId> {
        let now = Timestamp::now();
        let past = now.checked_sub(self.seen_every()).unwrap_or(Timestamp::MIN);
        let mut interests = self.interests.lock();
        interests.retain(|_, interest| interest.until > past);
        interests.keys().cloned().collect()
    }

    /// Keeps events while anybody listens. While nobody does, the engine does
    /// not even make them.
    async fn record(&self, engine: &Engine, server: Option<&OwnerId>, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            while self.tenants().is_empty() {
                tokio::select! {
                    () = self.interested.notified() => {}
                    () = stop.cancelled() => return,
                }
            }
            let server = server.cloned();
            let mut recorder = EventRecorder { broker: self, server, batches: HashMap::new() };
            let mut events = engine.events();
            loop {
                self.records.send_replace(true);
                recorder.run(&mut events, stop).await;
                self.records.send_replace(false);
                // A subscriber that joined meanwhile relies on events being stored.
                if stop.is_cancelled() || self.tenants().is_empty() {
                    break;
                }
            }
        }
    }

    /// Tells readers what has been kept, by whichever server.
    async fn tail(&self) {
        let mut newest = self.documents.new_events();
        loop {
            if let Err(error) = self.tell_new().await {
                tracing::warn!(%error, "new events could not be read");
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            if newest.changed().await.is_err() {
                return;
            }
        }
    }

    async fn tell_new(&self) -> Result<(), Error> {
        loop {
            let after = self.position();
            let page = self.documents.events(after, EventFilter::default(), PAGE).await?;
            let full = page.len() == PAGE;
            for event in page {
                let position = event.position;
                self.tell(&event);
                self.told.send_replace(position);
            }
            if !full {
                return Ok(());
            }
        }
    }

    fn tell(&self, event: &KeptEvent) {
        let topics = self.topics.lock();
        if topics.is_empty() {
            return;
        }
        let mut told = None;
        for topic in Topic::of(&event.event) {
            if let Some(channel) = topics.get(&topic) {
                let told =
                    told.get_or_insert_with(|| Arc::new(EncodedEvent::new(event, &self.ids)));
                // Fails only if there are no subscribers any more.
                let _ = channel.send(Arc::clone(told));
            }
        }
    }
}

fn from_now(span: Duration) -> Timestamp {
    Timestamp::now().checked_add(span).unwrap_or(Timestamp::MAX)
}

/// Writes the engine's events to the store.
struct EventRecorder<'a> {
    broker: &'a EventBroker,
    /// The server whose events these are; none if no other server shares the database.
    server: Option<OwnerId>,
    /// The batches of calls that have not ended.
    batches: HashMap<CallId, BatchId>,
}

impl EventRecorder<'_> {
    /// Until there is no subscriber, or the server shuts down and the queue is empty.
    async fn run(&mut self, events: &mut Subscription, stop: &CancellationToken) {
        let mut tenants = self.broker.tenants();
        while !tenants.is_empty() {
            let ends = stop.is_cancelled();
            let patience = if ends { Duration::ZERO } else { Duration::from_secs(5) };
            let next = tokio::select! {
                next = tokio::time::timeout(patience, events.next()) => next,
                () = stop.cancelled(), if !ends => continue,
            };
            let mut waiting = match next {
                Ok(Some(event)) => vec![event],
                Ok(None) => return,
                Err(_) if ends => return,
                Err(_) => Vec::new(),
            };
            // Batches whatever has queued up meanwhile.
            while waiting.len() < PAGE
                && let Ok(Some(event)) = tokio::time::timeout(Duration::ZERO, events.next()).await
            {
                waiting.push(event);
            }
            tenants = self.broker.tenants();
            let (left, happened): (Vec<Event>, Vec<Event>) =
                waiting.into_iter().partition(is_of_another_server);
            let kept = happened.iter().flat_map(|event| self.keep(event, &tenants)).collect();
            self.write(kept).await;
            let ends: Vec<_> = left.iter().flat_map(|event| self.keep(event, &tenants)).collect();
            while let Err(error) = self.broker.append_ends(ends.clone()).await {
                tracing::warn!(%error, "events could not be kept");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    async fn write(&self, events: Vec<NewEvent>) {
        if events.is_empty() {
            return;
        }
        while let Err(error) = self.broker.documents.append_events(events.clone()).await {
            tracing::warn!(%error, "events could not be kept");
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// An event as it is kept, for each tenant that it is about.
    fn keep(&mut self, event: &Event, tenants: &[TenantId]) -> Vec<NewEvent> {
        let batch = self.batch_of(event);
        let new = |tenant: &TenantId, conversation: Option<&Arc<str>>| NewEvent {
            tenant: tenant.clone(),
            conversation: conversation.map(ToString::to_string),
            batch: batch.map(|batch| batch.to_string()),
            name: event.body.name().to_owned(),
            body: self.body(event),
        };
        let caller = event.body.caller();
        let conversation = caller.and_then(|caller| caller.conversation.as_ref());
        match event.body.tenant() {
            Some(tenant) if tenants.contains(tenant) => vec![new(tenant, conversation)],
            Some(_) => Vec::new(),
            None => tenants.iter().map(|tenant| new(tenant, None)).collect(),
        }
    }

    /// What is kept. The number of the engine is not for readers: positions are.
    fn body(&self, event: &Event) -> Value {
        let mut told = json!(event);
        if let Value::Object(told) = &mut told {
            told.remove("sequence");
            // Lets another server emit the end if this one crashes.
            if let (EventBody::ExecutionStarted { .. }, Some(server)) = (&event.body, &self.server)
            {
                told.insert(SERVER.to_owned(), json!(server));
            }
        }
        told
    }

    fn batch_of(&mut self, event: &Event) -> Option<BatchId> {
        match event.body.subject() {
            EventSubject::QueuedCall(call, batch_id) => {
                self.batches.insert(call.call_id, batch_id);
                Some(batch_id)
            }
            EventSubject::EndedBatch(batch_id, _) => Some(batch_id),
            EventSubject::EndedCall(call) => self.batches.remove(&call.call_id),
            EventSubject::Call(call) | EventSubject::Progress(call, _) => {
                self.batches.get(&call.call_id).copied()
            }
            EventSubject::Tools(_) | EventSubject::Definitions(_) | EventSubject::Missed(_) => None,
        }
    }
}

/// Whether an event is the end of a call that another server left behind. That
/// server's events may have been recovered already.
fn is_of_another_server(event: &Event) -> bool {
    matches!(event.body, EventBody::ExecutionFailed { error_kind: ErrorKind::Interrupted, .. })
}
