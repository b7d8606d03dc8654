//! Batches: several calls of one turn.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::{Batch, BatchId, ResultView, TraceContext};

use super::calls::wants_events;
use super::cancel::{Cancelled, WHICH};
use super::context::{CallBody, user_of};
use super::stream;
use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape::{self, BatchEventDoc};
use crate::http::front::extract::{Authenticated, JsonBody, PathName};
use crate::http::front::problem::Problem;
use crate::state::identity::{Identity, Permission};

/// More calls than anybody's batch has: they would be refused one by one.
const MAX_CALLS: usize = 1_000;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::post("/v1/batches", "run_batch", run)
            .may(Permission::CallTools, "Run the calls of a turn as a batch")
            .details(
                "Read-only calls run in parallel; a call with side effects runs alone, or \
                 beside calls that write to other resources. There is one result for each \
                 call, in the order of the calls; failures are independent. With `Accept: \
                 text/event-stream` the answer is a stream: `tool_queued`, `tool_started`, \
                 `tool_completed`, `tool_error`, `queue_drained` as they happen, then \
                 `results`; `gap` counts the events that a slow client has missed.",
            )
            .body::<BatchBody>()
            .example(|| {
                json!({"calls": [
                    {"tool": "echo", "arguments": {"message": "hello"}, "call_ref": "toolu_1"},
                    {"tool": "calculator", "arguments": {"expression": "6*7"}},
                ]})
            })
            .answer::<ResultsDoc>(200, "The results, in the order of the calls")
            .events::<BatchEventDoc>("The results, in the order of the calls"),
        RouteSpec::post("/v1/batches/{batch_id}/cancel", "cancel_batch", cancel)
            .may(Permission::CallTools, "Cancel all unfinished calls of a batch")
            .details(WHICH)
            .answer::<Cancelled>(200, "How many were cancelled, on all servers"),
    ]
}

/// Calls that run as a batch.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    /// The calls.
    #[schemars(length(max = 1000))]
    calls: Vec<CallBody>,
    /// Whether calls may run in parallel; true by default.
    #[serde(default = "yes")]
    parallel: bool,
    /// The conversation of those calls that name none.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    conversation_id: Option<String>,
    /// The caller of those calls that name none.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    caller_id: Option<String>,
    /// The default user of the calls.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    user_id: Option<String>,
}

fn yes() -> bool {
    true
}

/// The results of a batch.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BatchResults")]
pub(crate) struct ResultsDoc {
    /// The batch.
    #[schemars(schema_with = "shape::id")]
    batch_id: String,
    /// One result for each call, in order.
    results: Vec<ResultView<'static>>,
}

impl BatchBody {
    fn read(self, who: &Identity, trace: Option<&TraceContext>) -> Result<Batch, Problem> {
        if self.calls.len() > MAX_CALLS {
            let why = format!("at most {MAX_CALLS} calls, these are {}", self.calls.len());
            return Err(Problem::bad("the batch is too large").at("/calls", why));
        }
        let mut requests = Vec::with_capacity(self.calls.len());
        for (at, mut call) in self.calls.into_iter().enumerate() {
            call.conversation_id = call.conversation_id.or_else(|| self.conversation_id.clone());
            call.caller_id = call.caller_id.or_else(|| self.caller_id.clone());
            call.user_id = call.user_id.or_else(|| self.user_id.clone());
            let place = format!("/calls/{at}");
            call.user_id = user_of(who, call.user_id, format_args!("{place}/user_id"))?;
            let request = call.request(who.tenant.clone(), &place)?;
            let request = request.begun_by(Arc::clone(&who.key_id));
            requests.push(match trace {
                Some(trace) => request.trace(trace.clone()),
                None => request,
            });
        }
        Ok(Batch::new(requests).parallel(self.parallel))
    }
}

async fn run(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    headers: HeaderMap,
    JsonBody(body): JsonBody<BatchBody>,
) -> Result<Response, Problem> {
    app.refuse_while_draining()?;
    let batch = body.read(&who, app.trace(&headers).as_ref())?;
    if wants_events(&headers) {
        return Ok(stream::batch(&app, who.tenant, batch));
    }
    let id = batch.id();
    let results = app.engine.call_batch(batch).await;
    Ok(view::ok(&stream::results(id, &results, &app)))
}

async fn cancel(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    name: PathName,
) -> Result<Response, Problem> {
    let id: BatchId = name.id("batch")?;
    let cancelled = app.cancel_batch(&who, id).await?;
    Ok(view::ok(&Cancelled { cancelled }))
}
