//! Calls: run one in the foreground or background, and look at it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{Instant, sleep};
use windlass::{
    CallId, CallRecord, Grace, IdempotencyKey, PageRequest, RecordFilter, ResultView, Status,
    TenantId, TraceContext,
};

use super::context::{CallBody, DurationBody, check_key, user_of};
use super::page::{AfterId, Limit};
use super::stream;
use super::view;
use crate::http::app::App;
use crate::http::cluster::background::{self, Accepted};
use crate::http::document::operation::{EVENTS, RouteSpec};
use crate::http::document::shape::{self, CallEventDoc, CallState};
use crate::http::front::extract::{Authenticated, JsonBody, PathName, QueryString};
use crate::http::front::problem::Problem;
use crate::http::front::slots::OwnSlot;
use crate::state::identity::Permission;

/// The default size of a page of records.
const LISTED: usize = 50;
/// The longest time that somebody waits for a call that runs elsewhere.
const MAX_WAIT: Duration = Duration::from_secs(60);
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const PREFER: HeaderName = HeaderName::from_static("prefer");
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long at the most until somebody who waits looks again.
const LOOK_LATER: Duration = Duration::from_millis(300);

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::post("/v1/calls", "run_call", run)
            .may(Permission::CallTools, "Run a call")
            .details(
                "Finds the tool, validates the arguments, runs it and answers with its result. \
                 A tool error is a result, too: 200 with `is_success: false`, and a text for \
                 the model in `feedback`. With `Accept: text/event-stream` the answer is a \
                 stream of `progress` events and one `result`; with `Prefer: respond-async` \
                 the answer is 202 at once, and the result is fetched later.",
            )
            .header(
                "Prefer",
                "",
                "`respond-async`: answer at once and run the call in the background",
            )
            .header(
                "Idempotency-Key",
                format!("^[!-~]{{1,{}}}$", IdempotencyKey::MAX_BYTES),
                "the same as `idempotency_key` in the body",
            )
            .header("traceparent", "", "W3C trace context: the parent span of the call")
            .body::<CallBody>()
            .example(|| json!({"tool": "echo", "arguments": {"message": "hello"}}))
            .answer::<ResultView<'static>>(200, "The result of the call")
            .events::<CallEventDoc>("The result of the call")
            .answer::<StartedDoc>(202, "The call runs in the background, or waits for an approval"),
        RouteSpec::get("/v1/calls", "list_calls", list)
            .may(Permission::ReadCalls, "List the records of calls, newest first")
            .query::<CallsQuery>()
            .answer::<RecordsDoc>(200, "A page of records"),
        RouteSpec::get("/v1/calls/{call_id}", "get_call", get)
            .may(Permission::ReadCalls, "Get a call: its record, or its state while it runs")
            .query::<CallQuery>()
            .answer::<CallState>(200, "The record, or the state of an unfinished call"),
    ]
}

/// A call that runs in the background, or the result that says whom it waits for.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes what two others write")]
#[schemars(rename = "Started")]
pub(crate) enum StartedDoc {
    /// The call runs in the background.
    Accepted(Accepted),
    /// The call waits for an approval.
    Waits(Box<ResultView<'static>>),
}

async fn run(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    wishes: CallHeaders,
    JsonBody(mut body): JsonBody<CallBody>,
) -> Result<Response, Problem> {
    app.refuse_while_draining()?;
    body.idempotency_key = body.idempotency_key.or(wishes.key?);
    body.user_id = user_of(&who, body.user_id, "/user_id")?;
    let later = (wishes.way == ResponseMode::Later).then(|| {
        let grace = (!app.is_timed(&who.tenant, &body)).then(Grace::default);
        (background::kept(&body), grace)
    });
    let mut request = body.request(who.tenant.clone(), "")?.begun_by(Arc::clone(&who.key_id));
    if let Some(trace) = wishes.trace {
        request = request.trace(trace);
    }
    if wishes.way == ResponseMode::Events {
        return Ok(stream::call(&app, who.tenant, request));
    }
    if let Some((kept, grace)) = later {
        return Box::pin(background::begin(&app, who, request, kept, grace)).await;
    }
    let result = app.engine.call(request).await;
    Ok(view::answer(&result, app.lang))
}

/// What the headers of a call say. They are read in place: a handler that takes
/// all headers gets a copy of them.
struct CallHeaders {
    way: ResponseMode,
    /// The `Idempotency-Key`; what is wrong with the body is told before what is
    /// wrong with it.
    key: Result<Option<String>, Problem>,
    trace: Option<TraceContext>,
}

/// How the call is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResponseMode {
    /// With the result.
    Now,
    /// 202 at once; the call runs in the background.
    Later,
    /// With what happens.
    Events,
}

impl FromRequestParts<Arc<App>> for CallHeaders {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Infallible> {
        let headers = &parts.headers;
        let way = match wants_events(headers) {
            true => ResponseMode::Events,
            false if prefers_async(headers) => ResponseMode::Later,
            false => ResponseMode::Now,
        };
        let key = headers.get(&IDEMPOTENCY_KEY).map(idempotency_key).transpose();
        Ok(Self { way, key, trace: app.trace(headers) })
    }
}

fn idempotency_key(value: &HeaderValue) -> Result<String, Problem> {
    // Headers cannot carry all characters that a body can.
    let plain = |key: &&str| key.bytes().all(|byte| byte.is_ascii_graphic());
    let key = value.to_str().ok().filter(plain).ok_or_else(|| {
        let why = "characters of ASCII without spaces";
        Problem::bad("a header is wrong").at("Idempotency-Key", why)
    })?;
    check_key("Idempotency-Key", Some(key))?;
    Ok(key.to_owned())
}

/// Whether whoever asks wants to follow what happens.
pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains(EVENTS))
}

fn prefers_async(headers: &HeaderMap) -> bool {
    headers
        .get_all(&PREFER)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.split(',').any(|wish| wish.trim().eq_ignore_ascii_case("respond-async")))
}

/// Filters of the list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallsQuery {
    /// Of this conversation.
    conversation_id: Option<String>,
    /// Of this tool.
    tool: Option<String>,
    /// Of this caller.
    caller_id: Option<String>,
    /// Only with this status.
    status: Option<Status>,
    /// Only since this time, such as 2026-01-31T12:00:00Z.
    #[serde(default)]
    #[schemars(schema_with = "shape::time")]
    since: Option<String>,
    /// Only before this time.
    #[serde(default)]
    #[schemars(schema_with = "shape::time")]
    until: Option<String>,
    /// Maximum number of items.
    limit: Option<Limit>,
    /// The cursor: the `next` of the previous page.
    cursor: Option<AfterId>,
}

/// A page of records.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RecordPage")]
pub(crate) struct RecordsDoc {
    /// The records, newest first.
    records: Vec<CallRecord>,
    /// The cursor of the next page; none on the last page.
    next: Option<String>,
}

fn time(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let read = |text: &str| {
        text.parse::<Timestamp>()
            .map_err(|error| Problem::bad("a time is wrong").at(name, error.to_string()))
    };
    text.map(read).transpose()
}

impl CallsQuery {
    fn read(self) -> Result<(RecordFilter, PageRequest), Problem> {
        let (limit, after) = (self.limit.map_or(LISTED, Limit::get), self.cursor);
        let filter = RecordFilter {
            conversation: self.conversation_id,
            tool: self.tool,
            caller_id: self.caller_id,
            status: self.status,
            since: time("since", self.since.as_deref())?,
            until: time("until", self.until.as_deref())?,
        };
        Ok((filter, PageRequest { limit, after: after.map(|AfterId(id)| id) }))
    }
}

async fn list(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    QueryString(query): QueryString<CallsQuery>,
) -> Result<Response, Problem> {
    let (filter, page) = query.read()?;
    let page = app.engine.records().query(&who.tenant, &filter, page).await?;
    Ok(view::ok(&page))
}

/// How long to wait.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallQuery {
    /// Long polling: wait up to this long for an unfinished call: `10s`, at most 60s.
    #[serde(default)]
    #[schemars(schema_with = "super::context::span")]
    wait: Option<String>,
}

async fn get(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    OwnSlot(slot): OwnSlot,
    name: PathName,
    QueryString(query): QueryString<CallQuery>,
) -> Result<Response, Problem> {
    let id: CallId = name.id("call")?;
    let wait = query.wait.map(|wait| DurationBody::Text(wait).read("wait")).transpose()?;
    let until = Instant::now() + wait.unwrap_or_default().min(MAX_WAIT);
    let (mut pause, mut waiting) = (LOOK_AGAIN, None);
    loop {
        if let Some(record) = app.engine.records().get(&who.tenant, id).await? {
            return Ok(view::ok(&record));
        }
        let runs = match app.approvals.get(&who.tenant, id).await? {
            Some(waiting) if waiting.is_open() => {
                let why = waiting.call.reason;
                let open = json!({"record_id": id, "status": "waiting", "reason": why});
                return Ok(view::ok(&open));
            }
            None if app.questions.suspends(&who.tenant, id) => {
                let why = "its tool has asked something, and waits for the answers";
                let open = json!({"record_id": id, "status": "suspended", "reason": why});
                return Ok(view::ok(&open));
            }
            Some(_) => true,
            None => {
                app.engine.is_under_way(&who.tenant, id)
                    || background::find(&app, &who.tenant, &name.0).await?.is_some()
            }
        };
        if !runs {
            // It may have ended between the two lookups.
            let record = app.engine.records().get(&who.tenant, id).await?;
            let record = record.ok_or_else(|| Problem::not_found("call"))?;
            return Ok(view::ok(&record));
        }
        if Instant::now() >= until || app.draining.is_cancelled() {
            return Ok(view::ok(&json!({"record_id": id, "status": "running"})));
        }
        if waiting.is_none() {
            waiting = Some(slot.wait()?);
        }
        // The store is asked again when the call has ended here. One that runs
        // elsewhere is looked for less and less often.
        sleep(pause).await;
        if app.engine.is_under_way(&who.tenant, id) {
            ended_here(&app, &who.tenant, id, until).await;
        } else {
            pause = (pause * 2).min(LOOK_LATER);
        }
    }
}

/// Waits until a call has ended that runs here, or the time is over.
async fn ended_here(app: &App, tenant: &TenantId, id: CallId, until: Instant) {
    let mut pause = LOOK_AGAIN;
    while app.engine.is_under_way(tenant, id)
        && !app.questions.suspends(tenant, id)
        && !app.draining.is_cancelled()
        && Instant::now() < until
    {
        sleep(pause).await;
        // Exponential backoff: thousands of clients may poll, and slow calls can wait a
        // little longer.
        pause = (pause * 5 / 4).min(LOOK_LATER);
    }
}

impl App {
    /// Whether somebody said how long a call may take.
    fn is_timed(&self, tenant: &TenantId, body: &CallBody) -> bool {
        let tool = self.engine.registry().get_for(tenant, &body.tool);
        body.timeout.is_some() || tool.is_some_and(|tool| tool.spec().timeout.is_some())
    }

    /// Refuses new calls while the server drains.
    pub(crate) fn refuse_while_draining(&self) -> Result<(), Problem> {
        if !self.draining.is_cancelled() {
            return Ok(());
        }
        let why = "this server is about to end and takes no new calls";
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "draining", why)
            .retry_after(Some(Duration::from_secs(1))))
    }
}
