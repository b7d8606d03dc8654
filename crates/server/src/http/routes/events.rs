//! The event stream of a tenant, a session or a batch.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event as Sent;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;
use windlass::Error;

use super::stream;
use crate::http::app::App;
use crate::http::broker::event_id::PATTERN;
use crate::http::broker::{EncodedEvent, Subscriber, Topic};
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape::FollowedEventDoc;
use crate::http::front::extract::{Authenticated, QueryString};
use crate::http::front::problem::Problem;
use crate::state::identity::Permission;
use crate::state::quota::{ConcurrentUse, QuotaPermit};

/// What waits for a reader in memory.
const WAITING: usize = 8;
const PAGE: usize = 128;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/v1/events", "follow_events", follow)
            .may(Permission::ReadCalls, "Subscribe to events")
            .details(
                "A stream of server-sent events with opaque ids. A client that reconnects with \
                 `Last-Event-ID` gets the events that it missed, without gaps or duplicates; \
                 if some of them were not stored, or were lost in a crash, a `gap` event takes \
                 their place. Every call whose start was published gets its end, also after a \
                 crash. The last event is `end`, when the server shuts down or the key becomes \
                 invalid. Events of a tenant are stored while it has a subscriber, and for \
                 `server.events_linger` (ten minutes by default) after the last one.",
            )
            .header("Last-Event-ID", PATTERN, "the id of the last event that was received, to resume after it; `0` for all stored events")
            .query::<FollowQuery>()
            .events::<FollowedEventDoc>("The events"),
    ]
}

/// Filters of the event stream.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FollowQuery {
    /// Of this conversation.
    conversation_id: Option<String>,
    /// Of this batch.
    batch_id: Option<String>,
    /// The same as the header `Last-Event-ID`, for those who cannot set it.
    #[schemars(regex(pattern = PATTERN))]
    last_event_id: Option<String>,
}

async fn follow(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    headers: HeaderMap,
    QueryString(query): QueryString<FollowQuery>,
) -> Result<Response, Problem> {
    let permit = app.quotas.begin(ConcurrentUse::Subscribers, &who)?;
    let topic =
        Topic { tenant: who.tenant, conversation: query.conversation_id, batch: query.batch_id };
    let read = |place: &str, id: &str| {
        let position = app.events.ids.position(&topic.tenant, id.trim());
        position.ok_or_else(|| Problem::bad("an id is wrong").at(place, "take it from an event"))
    };
    let header = headers.get("last-event-id");
    let last = match (header, &query.last_event_id) {
        (Some(id), _) => Some(read("Last-Event-ID", id.to_str().unwrap_or_default())?),
        (None, Some(id)) => Some(read("last_event_id", id)?),
        (None, None) => None,
    };
    let told = app.events.position();
    let Subscriber { live, since } = app.events.join(&topic).await?;
    let (sender, receiver) = mpsc::channel(WAITING);
    // Events after the client's last id may be missing: they were not stored for a while,
    // or a server crashed.
    let mut pauses = last.map(|last| app.events.gaps_from(last)).unwrap_or_default();
    pauses.extend(last.filter(|last| *last <= since && since > 0).map(|_| since));
    let last = last.unwrap_or(told);
    let reader = Reader { app: Arc::clone(&app), topic, last, pauses, sender, _permit: permit };
    tokio::spawn(reader.run(live));
    Ok(stream::answer(receiver))
}

/// A subscriber of the event stream.
struct Reader {
    app: Arc<App>,
    topic: Topic,
    /// The position of the last event that was sent.
    last: u64,
    /// The positions at which events may be missing, until the reader is told.
    pauses: BTreeSet<u64>,
    sender: mpsc::Sender<Sent>,
    _permit: QuotaPermit,
}

/// Why the stream ends.
enum Gone {
    Left,
    Failed(Error),
}

impl Reader {
    async fn run(mut self, mut live: broadcast::Receiver<Arc<EncodedEvent>>) {
        let draining = self.app.draining.clone();
        let ended = tokio::select! {
            ended = self.serve(&mut live) => ended,
            () = draining.cancelled() => {
                let _ = self.send(stream::event("end", &json!({"reason": "the server ends"}))).await;
                return;
            }
        };
        if let Err(Gone::Failed(error)) = ended {
            tracing::warn!(%error, "a reader of events is cut off");
            let _ = self.send(stream::event("end", &json!({"reason": error.message()}))).await;
        }
    }

    async fn serve(
        &mut self,
        live: &mut broadcast::Receiver<Arc<EncodedEvent>>,
    ) -> Result<(), Gone> {
        self.catch_up().await?;
        loop {
            tokio::select! {
                event = live.recv() => match event {
                    Ok(event) if !event.has_place() => self.send(event.sent.clone()).await?,
                    Ok(event) if event.position > self.last => self.tell(EncodedEvent::clone(&event)).await?,
                    Ok(_) => {}
                    // The subscriber lagged: missed events are read from the store.
                    Err(RecvError::Lagged(_)) => self.catch_up().await?,
                    Err(RecvError::Closed) => return Ok(()),
                },
                () = self.sender.closed() => return Err(Gone::Left),
            }
        }
    }

    /// Sends what is kept after the last event that was sent.
    async fn catch_up(&mut self) -> Result<(), Gone> {
        let documents = &self.app.documents;
        let (_, newest) = documents.event_range().await.map_err(Gone::Failed)?;
        let forgotten = documents.forgotten_events(&self.topic.tenant).await;
        let forgotten = forgotten.map_err(Gone::Failed)?;
        if self.last > newest || forgotten > self.last {
            self.tell_gap(forgotten + 1, newest).await?;
            self.last = self.last.min(newest);
            self.pauses.retain(|since| forgotten < *since);
        }
        loop {
            let filter = self.topic.filter();
            let page = self.app.documents.events(self.last, filter, PAGE).await;
            let page = page.map_err(Gone::Failed)?;
            let full = page.len() == PAGE;
            for event in &page {
                self.tell_pause(event.position, newest).await?;
                self.tell(EncodedEvent::new(event, &self.app.events.ids)).await?;
            }
            if !full {
                return self.tell_pause(u64::MAX, newest).await;
            }
        }
    }

    /// Tells that events were not kept for a while, before the first event that
    /// came after it.
    async fn tell_pause(&mut self, next: u64, newest: u64) -> Result<(), Gone> {
        while let Some(since) = self.pauses.first().copied().filter(|since| next > *since) {
            self.pauses.remove(&since);
            self.tell_gap(since + 1, newest).await?;
        }
        Ok(())
    }

    async fn tell_gap(&self, kept_from: u64, newest: u64) -> Result<(), Gone> {
        let id = |position| self.app.events.ids.id(&self.topic.tenant, position);
        let gap = json!({"after": id(self.last), "kept_from": id(kept_from), "newest": id(newest)});
        self.send(stream::event("gap", &gap)).await
    }

    async fn tell(&mut self, told: EncodedEvent) -> Result<(), Gone> {
        self.send(told.sent).await?;
        self.last = told.position;
        Ok(())
    }

    async fn send(&self, event: Sent) -> Result<(), Gone> {
        match self.sender.send_timeout(event, self.app.settings.reader_timeout).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Gone::Left),
        }
    }
}
