//! Calls and batches that are followed while they run.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use windlass::{Batch, BatchId, CallId, CallRequest, CallResult, Event, EventBody};

use super::app::App;
use super::view::{ResultView, content};

/// How often a silent stream says that it lives.
const ALIVE: Duration = Duration::from_secs(15);
/// What a slow reader may be behind; then events are left out, results never.
pub(crate) const BEHIND: usize = 256;

/// How long a reader may take nothing before it is cut.
const PATIENCE: Duration = Duration::from_secs(60);

/// A stream of events from a channel.
pub(crate) fn answer(events: mpsc::Receiver<Sent>) -> Response {
    Sse::new(Following(events)).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

/// The receiving end of a channel as a stream.
struct Following(mpsc::Receiver<Sent>);

impl Stream for Following {
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

/// Runs a call and tells its progress and its result. Whoever stops reading
/// gives the call up, as with any other call.
pub(crate) fn call(app: &Arc<App>, request: CallRequest) -> Response {
    let id = CallId::at(Timestamp::now());
    let (sender, receiver) = mpsc::channel(BEHIND);
    let app = Arc::clone(app);
    app.tasks.clone().spawn(async move {
        let mut events = app.engine.events();
        let mut call = std::pin::pin!(app.engine.call(request.id(id)));
        let _ = sender.try_send(event("started", &json!({"call_id": id})));
        let result = loop {
            tokio::select! {
                result = &mut call => break result,
                () = sender.closed() => return,
                Some(happened) = events.next() => {
                    if let Some(sent) = progress_of(id, &happened) {
                        // Progress that nobody takes in time is left out.
                        let _ = sender.try_send(sent);
                    }
                }
            }
        };
        while let Ok(Some(happened)) = tokio::time::timeout(Duration::ZERO, events.next()).await {
            if let Some(sent) = progress_of(id, &happened) {
                let _ = sender.try_send(sent);
            }
        }
        end(&sender, event("result", &ResultView(&result, app.lang))).await;
    });
    answer(receiver)
}

/// Sends the last event. A reader that takes nothing is cut in the end.
pub(crate) async fn end(sender: &mpsc::Sender<Sent>, last: Sent) {
    if sender.send_timeout(last, PATIENCE).await.is_err() {
        tracing::debug!("somebody did not wait for a result, or did not take it");
    }
}

fn progress_of(id: CallId, happened: &Event) -> Option<Sent> {
    match &happened.body {
        EventBody::ExecutionProgress { call, progress } if call.call_id == id => {
            Some(event("progress", &content(progress)))
        }
        EventBody::ExecutionRetried { call, attempt, error, delay, .. } if call.call_id == id => {
            let retried = json!({"attempt": attempt, "error": error, "delay": delay});
            Some(event("retried", &retried))
        }
        _ => None,
    }
}

/// Runs a batch and tells what happens in the names of a front end, then all
/// results in the order of the calls.
pub(crate) fn batch(app: &Arc<App>, batch: Batch) -> Response {
    let (sender, receiver) = mpsc::channel(BEHIND);
    let app = Arc::clone(app);
    app.tasks.clone().spawn(async move {
        let id = batch.id();
        let mut events = app.engine.events();
        let mut own = Vec::new();
        let mut work = std::pin::pin!(app.engine.call_batch(batch));
        let _ = sender.try_send(event("batch", &json!({"batch_id": id})));
        let results = loop {
            tokio::select! {
                results = &mut work => break results,
                () = sender.closed() => return,
                Some(happened) = events.next() => tell(&sender, id, &mut own, &happened),
            }
        };
        while let Ok(Some(happened)) = tokio::time::timeout(Duration::ZERO, events.next()).await {
            tell(&sender, id, &mut own, &happened);
        }
        end(&sender, event("results", &Results::new(id, &results, &app))).await;
    });
    answer(receiver)
}

/// Tells an event, if it is about this batch. Calls become known as they are
/// queued.
pub(crate) fn tell(
    sender: &mpsc::Sender<Sent>,
    id: BatchId,
    own: &mut Vec<CallId>,
    happened: &Event,
) {
    let is_own = match &happened.body {
        EventBody::ToolQueued { call, batch_id, .. } if *batch_id == id => {
            own.push(call.call_id);
            true
        }
        EventBody::QueueDrained { batch_id, .. } => *batch_id == id,
        body => body.call().is_some_and(|call| own.contains(&call.call_id)),
    };
    if !is_own {
        return;
    }
    for told in happened.to_queue_events() {
        let told = json!(told);
        let name = told["type"].as_str().unwrap_or("event").to_owned();
        let _ = sender.try_send(event(&name, &told));
    }
}

/// All results of a batch.
pub(crate) struct Results;

impl Results {
    pub(crate) fn new(id: BatchId, results: &[CallResult], app: &App) -> serde_json::Value {
        let results: Vec<_> = results.iter().map(|result| ResultView(result, app.lang)).collect();
        json!({"batch_id": id, "results": results})
    }
}
