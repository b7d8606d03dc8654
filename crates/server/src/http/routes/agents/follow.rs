//! The response to a run: its result, or a stream of everything until then.
//!
//! A client that keeps up gets every delta and every event; for a slow one deltas
//! are merged, so that no text is lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::Event as Sent;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use windlass::{
    Body, CallId, CallRequest, CallResult, ErrorKind, Event, EventBody, EventSubject, Kind,
    TenantId,
};
use windlass_executors::agent::{History, Listener, RunEvent};

use crate::http::app::App;
use crate::http::front::problem::Problem;
use crate::http::routes::calls::wants_events;
use crate::http::routes::stream::{self, BEHIND};
use crate::http::routes::view;
use crate::state::quota::QuotaPermit;
use crate::state::runs::AgentConversation;

/// How many events of calls wait for a slow reader; of more, it hears how many
/// they were.
const MAX_WAITING: usize = 4096;
/// Send timeout: a client that reads nothing for this long is disconnected.
const PATIENCE: Duration = Duration::from_secs(60);

/// A requested run.
pub(in crate::http::routes) struct RunRequest {
    pub(in crate::http::routes) request: CallRequest,
    pub(in crate::http::routes) id: CallId,
    pub(in crate::http::routes) run: Arc<str>,
    /// The conversation that it goes on with.
    pub(in crate::http::routes) conversation: Option<AgentConversation>,
    /// The permit of the concurrency quota.
    pub(in crate::http::routes) permit: QuotaPermit,
}

/// Runs it, and answers.
pub(in crate::http::routes) async fn answer(
    app: &Arc<App>,
    asked: RunRequest,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let RunRequest { mut request, id, run, conversation, permit } = asked;
    let mut talk = None;
    if let Some(conversation) = conversation {
        conversation.allow(&app.quotas).await?;
        let history = conversation.read().await?;
        request = request.object(history.clone());
        talk = Some((conversation, history));
    }
    if !wants_events(headers) {
        let result = work(app, request, talk).await;
        return Ok(match result.error() {
            Some(error) if error.kind() == ErrorKind::Conflict => {
                let shown = json!(result.view(app.lang));
                Problem::from(error.clone()).result(shown).into_response()
            }
            _ => view::ok(&shown(&run, &result, app)),
        });
    }
    let (sender, receiver) = mpsc::channel(BEHIND);
    let app = Arc::clone(app);
    app.tasks.clone().spawn(async move {
        follow(&app, permit.tenant(), request, talk, (id, run), sender).await;
    });
    Ok(stream::answer(receiver))
}

fn shown(run: &str, result: &CallResult, app: &App) -> Value {
    json!({"run_id": run, "result": result.view(app.lang)})
}

/// The run, and what is kept of it for the next one in its conversation.
async fn work(
    app: &App,
    request: CallRequest,
    talk: Option<(AgentConversation, History)>,
) -> CallResult {
    let result = app.engine.call(request).await;
    if let Some((conversation, history)) = talk
        && let Err(error) = conversation.keep(&history).await
    {
        tracing::warn!(%error, "a conversation was not kept");
    }
    result
}

async fn follow(
    app: &App,
    tenant: &TenantId,
    request: CallRequest,
    talk: Option<(AgentConversation, History)>,
    (id, run): (CallId, Arc<str>),
    sender: mpsc::Sender<Sent>,
) {
    let _ = sender.try_send(stream::event("run", &json!({"run_id": run, "call_id": id})));
    let waiting = Arc::<ReaderQueue>::default();
    let mut family = vec![id];
    let mut events = app.engine.events_of(tenant);
    let heard = Arc::clone(&waiting);
    let listener = Listener::new(move |happened| heard.hear(happened));
    let mut work = std::pin::pin!(work(app, request.object(listener), talk));
    let result = loop {
        let has_more = !waiting.is_empty();
        tokio::select! {
            result = &mut work => break result,
            () = sender.closed() => return,
            Some(happened) = events.next() => waiting.event(&mut family, &happened),
            () = waiting.rung.notified() => {}
            Ok(place) = sender.reserve(), if has_more => {
                if let Some(sent) = waiting.next() {
                    place.send(sent);
                }
            }
        }
    };
    while let Ok(Some(happened)) = tokio::time::timeout(Duration::ZERO, events.next()).await {
        waiting.event(&mut family, &happened);
    }
    while let Some(sent) = waiting.next() {
        if sender.send_timeout(sent, PATIENCE).await.is_err() {
            return;
        }
    }
    stream::end(&sender, stream::event("result", &shown(&run, &result, app))).await;
}

/// What the reader has not been told yet.
#[derive(Default)]
struct ReaderQueue {
    told: Mutex<UnsentEvents>,
    /// Rings when a model has written something.
    rung: Notify,
}

#[derive(Default)]
struct UnsentEvents {
    events: VecDeque<QueuedEvent>,
    /// How many events of calls had no room.
    missed: u64,
}

enum QueuedEvent {
    /// Words of one agent in one run, as many as there are by now.
    Text {
        agent: String,
        run: String,
        text: String,
    },
    Other(String, Value),
}

impl ReaderQueue {
    fn is_empty(&self) -> bool {
        let told = self.told.lock();
        told.events.is_empty() && told.missed == 0
    }

    /// Takes what comes next.
    fn next(&self) -> Option<Sent> {
        let mut told = self.told.lock();
        match told.events.pop_front() {
            Some(QueuedEvent::Text { agent, run, text }) => {
                let said = json!({"agentName": agent, "run_id": run, "text": text});
                Some(stream::event("text", &said))
            }
            Some(QueuedEvent::Other(name, data)) => Some(stream::event(&name, &data)),
            None if told.missed > 0 => {
                let missed = std::mem::take(&mut told.missed);
                Some(stream::event("gap", &json!({"missed": missed})))
            }
            None => None,
        }
    }

    /// Hears what a model writes.
    fn hear(&self, happened: &RunEvent<'_>) {
        let mut told = self.told.lock();
        match happened {
            RunEvent::Text { agent, run, text } => told.say(agent, run, text),
            RunEvent::Restart { agent, run, text } => {
                let gone = json!({"agentName": agent, "run_id": run, "text": text});
                told.events.push_back(QueuedEvent::Other("restart".to_owned(), gone));
            }
            RunEvent::Turn { .. }
            | RunEvent::Call { .. }
            | RunEvent::Result { .. }
            | RunEvent::Used { .. } => return,
        }
        drop(told);
        self.rung.notify_one();
    }

    /// Hears an event, and tells it in the names of a front end if it is about the
    /// run or a call that is made in it.
    fn event(&self, family: &mut Vec<CallId>, happened: &Event) {
        let subject = happened.body.subject();
        if let EventSubject::Missed(count) = subject {
            self.told.lock().missed += count;
        }
        if let EventSubject::EndedBatch(_, caller) = subject
            && caller.parent.is_some_and(|parent| family.contains(&parent))
        {
            let drained = json!({"type": "queue_drained"});
            self.told.lock().push("queue_drained".to_owned(), drained);
        }
        let Some(call) = subject.call() else { return };
        let is_child = call.caller.parent.is_some_and(|parent| family.contains(&parent));
        if is_child && !family.contains(&call.call_id) {
            family.push(call.call_id);
        }
        if !family.contains(&call.call_id) {
            return;
        }
        let mut told = self.told.lock();
        if let Some((name, step)) = step_of(&happened.body) {
            told.push(name, step);
        }
        for event in happened.to_queue_events() {
            let event = json!(event);
            let name = event["type"].as_str().unwrap_or("event").to_owned();
            told.push(name, event);
        }
        // A call that has ended makes no nested calls any more.
        if matches!(subject, EventSubject::EndedCall(_)) && call.call_id != family[0] {
            family.retain(|own| *own != call.call_id);
        }
    }
}

/// What became of a step of a workflow: the name of the event, and the event.
fn step_of(body: &EventBody) -> Option<(String, Value)> {
    let EventBody::ExecutionProgress { call, progress } = body else { return None };
    let Body::Json(told) = &progress.body else { return None };
    if call.kind != Some(Kind::Workflow) || told.get("step").is_none() {
        return None;
    }
    Some((told["event"].as_str()?.to_owned(), told.clone()))
}

impl UnsentEvents {
    /// Adds words to those that wait, but not past anything else that happened.
    fn say(&mut self, agent: &str, run: &str, more: &str) {
        let waiting = self.events.iter_mut().rev();
        let mut texts = waiting.map_while(|one| match one {
            QueuedEvent::Text { run, text, .. } => Some((run, text)),
            QueuedEvent::Other(..) => None,
        });
        match texts.find(|(own, _)| own.as_str() == run) {
            Some((_, text)) => text.push_str(more),
            None => self.events.push_back(QueuedEvent::Text {
                agent: agent.to_owned(),
                run: run.to_owned(),
                text: more.to_owned(),
            }),
        }
    }

    fn push(&mut self, name: String, event: Value) {
        if self.events.len() >= MAX_WAITING {
            self.missed += 1;
            return;
        }
        if self.missed > 0 {
            let missed = std::mem::take(&mut self.missed);
            self.events.push_back(QueuedEvent::Other("gap".to_owned(), json!({"missed": missed})));
        }
        self.events.push_back(QueuedEvent::Other(name, event));
    }
}
