//! Turns: takes a model's message in the format of its API, runs its tool calls, and
//! answers with the model's next input.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as Incoming;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::StreamExt;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::{
    BatchId, CallId, Caller, CallerType, Context, OpenTurn, ResultView, Subscription, TenantId,
    Turn, TurnAnswer, TurnFormat,
};

use super::calls::wants_events;
use super::context::{check_name, user_of};
use super::stream::{self, EventSink};
use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape::{self, TurnEventDoc};
use crate::http::front::extract::{Authenticated, ModelBody, QueryString};
use crate::http::front::problem::Problem;
use crate::state::identity::Permission;

/// Idle timeout of a model's stream.
const SILENCE: Duration = Duration::from_secs(600);
/// What a body hears that is something else.
const NO_STREAM: &str =
    "the body has no server-sent events; send a message that is whole to /v1/turns";
/// More than a model writes in one message.
const MAX_BYTES: usize = 256 * 1024 * 1024;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::post("/v1/turns", "run_turn", run)
            .may(Permission::CallTools, "Run the tool calls of a model's message")
            .details(
                "The body is the response of the model's API, or the message in it: Anthropic \
                 Messages, OpenAI Chat Completions or Responses, Gemini. Its calls run as one \
                 batch; the answer has the messages to send to the model next, with one result \
                 for each call, in order. With `Accept: text/event-stream` the answer is a \
                 stream: the events of a batch as they happen, then `turn`.",
            )
            .query::<TurnQuery>()
            .body::<Message>()
            .example(example)
            .answer::<TurnDoc>(200, "The next input of the model")
            .events::<TurnEventDoc>("The next input of the model"),
        RouteSpec::post("/v1/turns/stream", "stream_turn", follow)
            .may(
                Permission::CallTools,
                "Run the tool calls of a model's message while it streams in",
            )
            .details(
                "The body is the stream of server-sent events of the model's API, forwarded as \
                 it arrives: each call starts as soon as it is complete and may run. The \
                 answer is a stream: the events of a batch as they happen, then `turn`. If the \
                 body ends before the message does, calls that have started are finished and \
                 answered, and an incomplete one gets an error as its result.",
            )
            .query::<TurnQuery>()
            .bytes()
            .events::<TurnEventDoc>("The events of the batch, then `turn`"),
    ]
}

/// The conversation of the turn.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TurnQuery {
    /// The API whose message it is; detected if left out.
    #[serde(default)]
    #[schemars(schema_with = "format_name")]
    format: Option<String>,
    /// The conversation that the calls belong to.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    conversation_id: Option<String>,
    /// The agent or program that calls.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    caller_id: Option<String>,
    /// The user on whose behalf it calls.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    user_id: Option<String>,
}

fn format_name(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "enum": TurnFormat::ALL.map(TurnFormat::name)})
}

/// A model's message, as its API wrote it.
#[derive(JsonSchema)]
#[schemars(rename = "ModelMessage", extend("type" = ["object", "array"]))]
#[expect(dead_code, reason = "it only describes what is read")]
struct Message(Value);

fn example() -> Value {
    json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "toolu_1", "name": "echo", "input": {"message": "hello"}},
    ]})
}

impl TurnQuery {
    fn format(&self) -> Result<Option<TurnFormat>, Problem> {
        let read = |name: &String| {
            name.parse().map_err(|why: String| Problem::bad("a format is wrong").at("format", why))
        };
        self.format.as_ref().map(read).transpose()
    }

    fn context(self, who: crate::state::identity::Identity) -> Result<Context, Problem> {
        check_name("conversation_id", self.conversation_id.as_deref())?;
        check_name("caller_id", self.caller_id.as_deref())?;
        check_name("user_id", self.user_id.as_deref())?;
        let user = user_of(&who, self.user_id, "user_id")?;
        Ok(Context::new(Caller {
            tenant: who.tenant,
            user: user.map(Into::into),
            caller_type: CallerType::ConversationAgent,
            caller_id: self.caller_id.map(Into::into),
            conversation: self.conversation_id.map(Into::into),
            workflow: None,
            parent: None,
        })
        .begun_by(who.key_id))
    }
}

/// The next input of the model.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TurnAnswer")]
pub(crate) struct TurnDoc {
    /// The messages to send to the model, in order, in the form of its API; for
    /// OpenAI's Responses, items of the next input. None if it called no tool.
    messages: Vec<Value>,
    /// What the conversation must keep in place of the model's own message,
    /// where that could not stay as it was; always there for a stream.
    assistant: Option<Value>,
    /// Whether the model's message was complete; a stream may break off.
    is_whole: bool,
    /// One result for each call, in order.
    results: Vec<ResultView<'static>>,
}

fn show(answer: &TurnAnswer, app: &App) -> Value {
    let results: Vec<_> = answer.results.iter().map(|result| result.view(app.lang)).collect();
    json!({
        "messages": answer.messages,
        "assistant": answer.assistant,
        "is_whole": answer.is_whole,
        "results": results,
    })
}

async fn run(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    QueryString(query): QueryString<TurnQuery>,
    headers: HeaderMap,
    ModelBody(message): ModelBody,
) -> Result<Response, Problem> {
    app.refuse_while_draining()?;
    let turn = match query.format()? {
        Some(format) => Turn::read_as(format, message),
        None => Turn::read(message),
    };
    let turn = turn.map_err(|error| {
        Problem::bad("the body is no message of a model").at("", error.message().to_owned())
    })?;
    let tenant = who.tenant.clone();
    let context = app.traced(query.context(who)?, &headers);
    if !wants_events(&headers) {
        return Ok(view::ok(&show(&app.engine.turn(turn, context, app.lang).await, &app)));
    }
    let (outlet, followed) = EventSink::open();
    app.tasks.clone().spawn(async move {
        let mut batch = turn.batch(context);
        let mut told = TurnReporter::new(&app, &tenant, outlet, batch.id());
        told.own = batch.call_ids();
        let Some(results) = told.until(app.engine.call_batch(batch)).await else { return };
        told.end(&turn.answer(results, app.lang), &app).await;
    });
    Ok(followed)
}

async fn follow(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    QueryString(query): QueryString<TurnQuery>,
    headers: HeaderMap,
    body: Incoming,
) -> Result<Response, Problem> {
    app.refuse_while_draining()?;
    let format = query.format()?;
    let tenant = who.tenant.clone();
    let context = app.traced(query.context(who)?, &headers);
    let (outlet, followed) = EventSink::open();
    app.tasks.clone().spawn(async move {
        let mut turn = app.engine.open_turn(format, context, app.lang);
        let mut told = TurnReporter::new(&app, &tenant, outlet, turn.batch_id());
        if !told.read(body, &mut turn).await {
            return;
        }
        let Some(answer) = told.until(turn.finish()).await else { return };
        told.end(&answer, &app).await;
    });
    Ok(followed)
}

/// Reports the calls of a turn as events.
struct TurnReporter {
    outlet: EventSink,
    events: Subscription,
    batch: BatchId,
    own: Vec<CallId>,
}

impl TurnReporter {
    fn new(app: &App, tenant: &TenantId, outlet: EventSink, batch: BatchId) -> Self {
        outlet.tell("batch", &json!({"batch_id": batch}));
        Self { outlet, events: app.engine.events_of(tenant), batch, own: Vec::new() }
    }

    /// Tells the next event; true if nobody listens any more.
    async fn next(&mut self) -> bool {
        tokio::select! {
            () = self.outlet.closed() => return true,
            Some(happened) = self.events.next() => self.tell(&happened),
        }
        false
    }

    fn tell(&mut self, happened: &windlass::Event) {
        stream::tell(&self.outlet, self.batch, &mut self.own, happened);
    }

    /// Tells what happens until some work is done; none if nobody listens any
    /// more, which gives the work up.
    async fn until<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                gone = self.next() => if gone { return None },
            }
        }
    }

    /// Feeds the body to the turn until it ends or breaks off. False if nobody
    /// listens any more.
    async fn read(&mut self, body: Incoming, turn: &mut OpenTurn) -> bool {
        let mut chunks = body.into_data_stream();
        let mut bytes = 0;
        loop {
            let chunk = tokio::select! {
                chunk = tokio::time::timeout(SILENCE, chunks.next()) => chunk,
                gone = self.next() => {
                    if gone {
                        return false;
                    }
                    continue;
                }
            };
            let broken = match chunk {
                Ok(Some(Ok(chunk))) if bytes + chunk.len() <= MAX_BYTES => {
                    bytes += chunk.len();
                    turn.feed(&chunk).err().map(|error| error.message().to_owned())
                }
                Ok(Some(Ok(_))) => Some(format!("the stream is over {MAX_BYTES} bytes")),
                // The answer would go the way that the body came.
                Ok(Some(Err(error))) => {
                    tracing::debug!(%error, "somebody hung up while a model wrote");
                    return false;
                }
                Ok(None) => {
                    turn.end();
                    match bytes > 0 && !turn.has_begun() {
                        true => Some(NO_STREAM.to_owned()),
                        false => return true,
                    }
                }
                Err(_) => Some("the model was silent for too long".to_owned()),
            };
            if let Some(why) = broken {
                self.outlet.tell("broken", &json!({"error": why}));
                return true;
            }
        }
    }

    async fn end(mut self, answer: &TurnAnswer, app: &App) {
        while let Ok(Some(happened)) =
            tokio::time::timeout(Duration::ZERO, self.events.next()).await
        {
            self.tell(&happened);
        }
        self.outlet.end("turn", &show(answer, app)).await;
    }
}
