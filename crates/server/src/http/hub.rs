//! Events for readers: kept in the store, so that a reader who was away misses
//! nothing, and handed on as they come.
//!
//! ```text
//! engine ─► recorder ─► store ─► tail ─► topics ─► readers
//!                         └──────── what a reader missed ─┘
//! ```
//!
//! All servers on one store see the same events in the same order. Events are
//! only kept for tenants that somebody listens to, or did a short while ago.

use std::collections::HashMap;
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
    BatchId, CallId, Engine, Error, ErrorKind, Event, EventBody, Subscription, TenantId,
};
use windlass_store::{Change, Document, Documents, EventFilter, Expect, KeptEvent, NewEvent, Put};

use super::stream;

/// Where it is written that somebody listens to a tenant's events.
const LISTENERS: &str = "listeners";
/// The name of a tenant's one document there.
const EVENTS: &str = "events";
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

/// What readers may listen to.
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

/// An event as readers get it: written once, however many there are.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) position: u64,
    pub(crate) sent: Sent,
}

impl Told {
    pub(crate) fn new(event: &KeptEvent) -> Self {
        let sent = stream::event(&event.event.name, &event.event.body);
        Self { position: event.position, sent: sent.id(event.position.to_string()) }
    }
}

/// Somebody listens to a tenant, or did a short while ago.
#[derive(Clone, Copy)]
struct Interest {
    /// Until when events are kept if nobody is seen any more.
    until: Timestamp,
    /// The newest position when keeping began. What happened before, and after
    /// the last reader of that time, is not kept.
    since: u64,
}

/// Somebody who has begun to listen.
pub(crate) struct Joined {
    pub(crate) live: broadcast::Receiver<Arc<Told>>,
    /// The position after which all events of the tenant are kept.
    pub(crate) since: u64,
}

/// Where events go.
pub(crate) struct Hub {
    documents: Arc<dyn Documents>,
    /// How long events are kept for a tenant after its last reader was seen.
    linger: Duration,
    topics: Mutex<HashMap<Topic, broadcast::Sender<Arc<Told>>>>,
    /// The tenants whose events are kept.
    interests: Mutex<HashMap<TenantId, Interest>>,
    interested: Notify,
    /// The position up to which readers have been told.
    told: watch::Sender<u64>,
    /// Whether the engine's events are being kept.
    records: watch::Sender<bool>,
}

impl Hub {
    /// A hub that keeps events for so long after the last reader was seen.
    pub(crate) fn new(documents: Arc<dyn Documents>, linger: Duration) -> Arc<Self> {
        Arc::new(Self {
            documents,
            linger,
            topics: Mutex::default(),
            interests: Mutex::default(),
            interested: Notify::new(),
            told: watch::Sender::new(0),
            records: watch::Sender::new(false),
        })
    }

    /// Begins to record and to tell, until the server ends. What comes back ends
    /// when all events that happened before have been written.
    pub(crate) async fn start(
        self: &Arc<Self>,
        engine: &Engine,
        stop: CancellationToken,
    ) -> Result<JoinHandle<()>, Error> {
        let (_, newest) = self.documents.event_range().await?;
        self.told.send_replace(newest);
        self.read_interests().await?;
        let (hub, engine, end) = (Arc::clone(self), engine.clone(), stop.clone());
        let recorder = tokio::spawn(async move { hub.record(&engine, &end).await });
        let (hub, end) = (Arc::clone(self), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = hub.tail() => {}
                () = end.cancelled() => {}
            }
        });
        let hub = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = hub.stay_seen() => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(recorder)
    }

    /// The position up to which readers have been told.
    pub(crate) fn position(&self) -> u64 {
        *self.told.borrow()
    }

    /// Listens to a topic. From now on its tenant's events are kept.
    pub(crate) async fn join(&self, topic: &Topic) -> Result<Joined, Error> {
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
        // Whoever hears that it listens may call at once, and wants to see that.
        let mut records = self.records.subscribe();
        let begun = tokio::time::timeout(AT_ONCE, records.wait_for(|records| *records)).await;
        if begun.is_err() {
            tracing::warn!("events are not kept yet, although somebody listens");
        }
        Ok(Joined { live, since })
    }

    /// How often a reader is seen.
    fn seen_every(&self) -> Duration {
        (self.linger / 5).max(Duration::from_millis(20))
    }

    /// Writes down that somebody listens to a tenant, if that is not known.
    /// Returns the position after which its events are kept.
    ///
    /// The document outlives the server that wrote it. Once it has expired,
    /// keeping begins anew, from a later position, and all servers see that.
    async fn see(&self, tenant: &TenantId) -> Result<u64, Error> {
        let soon = from_now(self.linger.saturating_sub(self.seen_every()));
        let known = self.interests.lock().get(tenant).copied();
        if let Some(known) = known.filter(|known| known.until > soon) {
            return Ok(known.since);
        }
        for _ in 0..ATTEMPTS {
            let (since, expect) = match self.documents.get(LISTENERS, tenant, EVENTS).await? {
                Some(kept) => (since(&kept), Expect::Version(kept.version)),
                None => (self.documents.event_range().await?.1, Expect::Absent),
            };
            let until = from_now(self.linger);
            let mut put = Put::new(LISTENERS, tenant.clone(), EVENTS, json!({"since": since}));
            put.expires_at = Some(until);
            if self.documents.put(put, expect).await?.is_some() {
                self.interests.lock().insert(tenant.clone(), Interest { until, since });
                self.interested.notify_one();
                return Ok(since);
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

    /// Somebody on another server may listen.
    pub(crate) async fn changed(&self, change: &Change) {
        if (change.space == LISTENERS || change.space.is_empty())
            && let Err(error) = self.read_interests().await
        {
            tracing::warn!(%error, "who listens to events could not be read");
        }
    }

    async fn read_interests(&self) -> Result<(), Error> {
        let found = self.documents.all(LISTENERS).await?;
        let mut interests = self.interests.lock();
        for listener in found {
            let until = listener.expires_at.unwrap_or(Timestamp::MAX);
            let since = since(&listener);
            interests.insert(listener.tenant, Interest { until, since });
        }
        drop(interests);
        self.interested.notify_one();
        Ok(())
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
    async fn record(&self, engine: &Engine, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            while self.tenants().is_empty() {
                tokio::select! {
                    () = self.interested.notified() => {}
                    () = stop.cancelled() => return,
                }
            }
            let mut recorder = Recorder { hub: self, batches: HashMap::new() };
            let mut events = engine.events();
            loop {
                self.records.send_replace(true);
                recorder.run(&mut events, stop).await;
                self.records.send_replace(false);
                // Whoever came meanwhile may believe that events were kept.
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
                let told = told.get_or_insert_with(|| Arc::new(Told::new(event)));
                // Nobody may be there any more.
                let _ = channel.send(Arc::clone(told));
            }
        }
    }
}

fn from_now(span: Duration) -> Timestamp {
    Timestamp::now().checked_add(span).unwrap_or(Timestamp::MAX)
}

/// The position after which events are kept, as it is written down.
fn since(listener: &Document) -> u64 {
    listener.body["since"].as_u64().unwrap_or_default()
}

/// Writes the engine's events down.
struct Recorder<'a> {
    hub: &'a Hub,
    /// The batches of calls that have not ended.
    batches: HashMap<CallId, BatchId>,
}

impl Recorder<'_> {
    /// Until nobody listens, or until the server ends and nothing is left.
    async fn run(&mut self, events: &mut Subscription, stop: &CancellationToken) {
        let mut tenants = self.hub.tenants();
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
            // What has gathered meanwhile goes with it.
            while waiting.len() < PAGE
                && let Ok(Some(event)) = tokio::time::timeout(Duration::ZERO, events.next()).await
            {
                waiting.push(event);
            }
            tenants = self.hub.tenants();
            let kept = waiting.iter().flat_map(|event| self.keep(event, &tenants)).collect();
            self.write(kept).await;
        }
    }

    async fn write(&self, events: Vec<NewEvent>) {
        if events.is_empty() {
            return;
        }
        while let Err(error) = self.hub.documents.append_events(events.clone()).await {
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
            body: body(event),
        };
        let caller = match &event.body {
            EventBody::QueueDrained { caller, .. } => Some(caller),
            body => body.call().map(|call| &call.caller),
        };
        let conversation = caller.and_then(|caller| caller.conversation.as_ref());
        match event.body.tenant() {
            Some(tenant) if tenants.contains(tenant) => vec![new(tenant, conversation)],
            Some(_) => Vec::new(),
            None => tenants.iter().map(|tenant| new(tenant, None)).collect(),
        }
    }

    fn batch_of(&mut self, event: &Event) -> Option<BatchId> {
        match &event.body {
            EventBody::ToolQueued { call, batch_id, .. } => {
                self.batches.insert(call.call_id, *batch_id);
                Some(*batch_id)
            }
            EventBody::QueueDrained { batch_id, .. } => Some(*batch_id),
            EventBody::ExecutionCompleted { call, .. }
            | EventBody::ExecutionFailed { call, .. } => self.batches.remove(&call.call_id),
            body => body.call().and_then(|call| self.batches.get(&call.call_id)).copied(),
        }
    }
}

/// What readers see. The number of the engine is not theirs: positions are.
fn body(event: &Event) -> Value {
    let mut body = json!(event);
    if let Value::Object(body) = &mut body {
        body.remove("sequence");
    }
    body
}
