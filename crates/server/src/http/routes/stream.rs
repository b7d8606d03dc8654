//! Server-sent event streams of running calls and batches.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use windlass::{
    Batch, BatchId, CallId, CallRequest, CallResult, Event, EventBody, EventSubject, TenantId,
};

use super::view::content;
use crate::http::app::App;

/// Heartbeat interval of an idle stream.
const ALIVE: Duration = Duration::from_secs(15);
/// What a slow reader may be behind; then events are left out, which it is told,
/// and results never.
pub(crate) const BEHIND: usize = 1024;
/// Send timeout: a client that reads nothing for this long is disconnected.
const PATIENCE: Duration = Duration::from_secs(60);

/// A stream of events from a channel.
pub(crate) fn answer(events: mpsc::Receiver<Sent>) -> Response {
    Sse::new(ReceiverStream(events)).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

/// The receiving end of a channel as a stream.
struct ReceiverStream(mpsc::Receiver<Sent>);

impl Stream for ReceiverStream {
    type Item = Result<Sent, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| event.map(Ok))
    }
}

/// One event with a name and JSON.
pub(crate) fn event<T: Serialize>(name: &str, data: &T) -> Sent {
    let data = serde_json::to_string(data).unwrap_or_default();
    Sent::default().event(name).data(data)
}

/// Where the events of one stream go in. A reader that is too slow misses some,
/// and reads how many in their place.
#[derive(Clone)]
pub(crate) struct EventSink {
    sender: mpsc::Sender<Sent>,
    missed: Arc<AtomicU64>,
}

impl EventSink {
    /// An outlet, and the answer that tells what goes into it.
    pub(crate) fn open() -> (Self, Response) {
        let (sender, receiver) = mpsc::channel(BEHIND);
        (Self { sender, missed: Arc::default() }, answer(receiver))
    }

    /// Tells an event, if there is room for it.
    pub(crate) fn tell<T: Serialize>(&self, name: &str, data: &T) {
        let missed = self.missed.swap(0, Ordering::AcqRel);
        if missed > 0 && self.sender.try_send(gap(missed)).is_err() {
            return self.miss(missed + 1);
        }
        if self.sender.try_send(event(name, data)).is_err() {
            self.miss(1);
        }
    }

    /// Tells an event in the names of a front end.
    pub(crate) fn tell_queue_events(&self, happened: &Event) {
        for told in happened.to_queue_events() {
            let told = json!(told);
            self.tell(told["type"].as_str().unwrap_or("event"), &told);
        }
    }

    /// Events are lost.
    pub(crate) fn miss(&self, count: u64) {
        self.missed.fetch_add(count, Ordering::AcqRel);
    }

    /// The client has disconnected.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Tells the last event, for which there is always room.
    pub(crate) async fn end<T: Serialize>(&self, name: &str, data: &T) {
        let missed = self.missed.swap(0, Ordering::AcqRel);
        if missed > 0 {
            end(&self.sender, gap(missed)).await;
        }
        end(&self.sender, event(name, data)).await;
    }
}

/// What stands in the place of events that were left out.
fn gap(missed: u64) -> Sent {
    event("gap", &json!({"missed": missed}))
}

/// Runs a call and tells its progress and its result. Whoever stops reading
/// gives the call up, as with any other call.
pub(crate) fn call(app: &Arc<App>, tenant: TenantId, request: CallRequest) -> Response {
    let id = CallId::at(Timestamp::now());
    let (outlet, answer) = EventSink::open();
    let app = Arc::clone(app);
    app.tasks.clone().spawn(async move {
        let mut events = app.engine.events_of(&tenant);
        let mut call = std::pin::pin!(app.engine.call(request.id(id)));
        outlet.tell("started", &json!({"call_id": id}));
        let result = loop {
            tokio::select! {
                result = &mut call => break result,
                () = outlet.closed() => return,
                Some(happened) = events.next() => tell_progress(&outlet, id, &happened),
            }
        };
        while let Ok(Some(happened)) = tokio::time::timeout(Duration::ZERO, events.next()).await {
            tell_progress(&outlet, id, &happened);
        }
        outlet.end("result", &result.view(app.lang)).await;
    });
    answer
}

/// Sends the last event. A client that reads nothing is disconnected in the end.
pub(crate) async fn end(sender: &mpsc::Sender<Sent>, last: Sent) {
    if sender.send_timeout(last, PATIENCE).await.is_err() {
        tracing::debug!("somebody did not wait for a result, or did not take it");
    }
}

fn tell_progress(outlet: &EventSink, id: CallId, happened: &Event) {
    if let EventSubject::Missed(count) = happened.body.subject() {
        outlet.miss(count);
    }
    if happened.body.call().is_none_or(|call| call.call_id != id) {
        return;
    }
    if let EventBody::ExecutionProgress { progress, .. } = &happened.body {
        outlet.tell("progress", &content(progress));
    }
    if let EventBody::ExecutionRetried { attempt, error, delay, .. } = &happened.body {
        outlet.tell("retried", &json!({"attempt": attempt, "error": error, "delay": delay}));
    }
}

/// Runs a batch and tells what happens in the names of a front end, then all
/// results in the order of the calls.
pub(crate) fn batch(app: &Arc<App>, tenant: TenantId, mut batch: Batch) -> Response {
    let (outlet, answer) = EventSink::open();
    let app = Arc::clone(app);
    app.tasks.clone().spawn(async move {
        let id = batch.id();
        let mut events = app.engine.events_of(&tenant);
        // Call ids are collected first: events of unknown calls are dropped.
        let mut own = batch.call_ids();
        let mut work = std::pin::pin!(app.engine.call_batch(batch));
        outlet.tell("batch", &json!({"batch_id": id}));
        let results = loop {
            tokio::select! {
                results = &mut work => break results,
                () = outlet.closed() => return,
                Some(happened) = events.next() => tell(&outlet, id, &mut own, &happened),
            }
        };
        while let Ok(Some(happened)) = tokio::time::timeout(Duration::ZERO, events.next()).await {
            tell(&outlet, id, &mut own, &happened);
        }
        outlet.end("results", &self::results(id, &results, &app)).await;
    });
    answer
}

/// Tells an event, if it is about this batch. Calls that are not known yet become
/// known as they are queued.
pub(crate) fn tell(outlet: &EventSink, id: BatchId, own: &mut Vec<CallId>, happened: &Event) {
    let is_own = match happened.body.subject() {
        EventSubject::QueuedCall(call, batch_id) if batch_id == id => {
            if !own.contains(&call.call_id) {
                own.push(call.call_id);
            }
            true
        }
        EventSubject::QueuedCall(call, _)
        | EventSubject::Call(call)
        | EventSubject::Progress(call, _)
        | EventSubject::EndedCall(call) => own.contains(&call.call_id),
        EventSubject::EndedBatch(batch_id, _) => batch_id == id,
        // Missed events cannot be attributed to a batch.
        EventSubject::Missed(count) => return outlet.miss(count),
        EventSubject::Tools(_) | EventSubject::Definitions(_) => false,
    };
    if is_own {
        outlet.tell_queue_events(happened);
    }
}

/// All results of a batch.
pub(crate) fn results(id: BatchId, results: &[CallResult], app: &App) -> serde_json::Value {
    let results: Vec<_> = results.iter().map(|result| result.view(app.lang)).collect();
    json!({"batch_id": id, "results": results})
}
