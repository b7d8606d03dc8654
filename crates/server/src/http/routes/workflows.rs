//! Workflows: list them, run them, and deal with their runs: answer, signal,
//! cancel, repeat.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass::{CallId, CallRequest, Caller, CallerType, Context, Kind, TenantId, Tool};
use windlass_workflow::log::RunHead;
use windlass_workflow::store::RunPage;
use windlass_workflow::{Answer, RunView};

use super::agents::RunDoc;
use super::agents::follow::{self, RunRequest};
use super::audit::AuditDetails;
use super::calls::LOOK_AGAIN;
use super::context::{DurationBody, check_key, check_name, user_of};
use super::page::{AfterId, PageQuery};
use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape::{self, RunEventDoc};
use crate::http::front::extract::{Authenticated, JsonBody, PathName, QueryString};
use crate::http::front::problem::Problem;
use crate::state::identity::Permission;
use crate::state::quota::ConcurrentUse;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/v1/workflows", "list_workflows", list)
            .may(Permission::ReadTools, "List the workflows")
            .answer::<WorkflowsDoc>(200, "The workflows"),
        RouteSpec::post("/v1/workflows/{name}/runs", "run_workflow", run)
            .may(Permission::CallTools, "Run a workflow")
            .details(
                "Answers when the run has ended, or when it waits: then \
                 `result.metadata.run.status` is `waiting`, and the run goes on by itself \
                 when what it waits for has come. With `Accept: text/event-stream` the answer \
                 is a stream: `run`, the events of its calls, the progress of its steps \
                 (`execution_progress`), then `result`. With `wait: false` it is 202 at once.",
            )
            .body::<RunWorkflowBody>()
            .example(|| json!({"input": {"ticket_id": "T-17"}}))
            .answer::<RunDoc>(200, "The result of the run")
            .answer::<StartedDoc>(202, "The run has begun")
            .events::<RunEventDoc>("The result of the run"),
        RouteSpec::get("/v1/workflows/{name}/runs", "list_workflow_runs", runs)
            .may(Permission::ReadCalls, "List the runs of a workflow, the newest first")
            .query::<PageQuery<AfterId>>()
            .answer::<RunsDoc>(200, "The runs"),
        RouteSpec::post("/v1/runs/{run_id}/answers", "answer_run", answer)
            .may(Permission::Approve, "Answer a question of a run")
            .details("The first answer counts. The run goes on at once, on any server.")
            .body::<AnswerBody>()
            .example(|| json!({"action": "approve", "comment": "a good customer"}))
            .answer::<RunView>(200, "The run"),
        RouteSpec::post("/v1/runs/{run_id}/signals", "signal_run", signal)
            .may(Permission::CallTools, "Send a signal to a run")
            .details(
                "The next step that waits for a signal of this name goes on with the value. A \
                 signal that nobody waits for yet is kept. With the same `idempotency_key` it \
                 is the same signal.",
            )
            .body::<SignalBody>()
            .example(|| json!({"name": "paid", "value": {"amount": 5}}))
            .answer::<SignalledDoc>(200, "Whether it is a new signal"),
        RouteSpec::post("/v1/runs/{run_id}/cancel", "cancel_run", cancel)
            .may(Permission::CallTools, "Cancel a run of a workflow")
            .details("What it has done is not undone.")
            .answer::<RunView>(200, "The run, as it was when it was told"),
        RouteSpec::post("/v1/runs/{run_id}/retry", "retry_run", retry)
            .may(Permission::CallTools, "Repeat a run of a workflow that has ended")
            .details(
                "A new run, which takes over the steps that ended and are asked for the same. \
                 `from` names a step from which on everything runs again; with `latest` the \
                 present definition counts, not that of the run.",
            )
            .body::<RetryBody>()
            .example(|| json!({"from": "refund"}))
            .answer::<RunDoc>(200, "The result of the new run")
            .events::<RunEventDoc>("The result of the new run"),
    ]
}

/// Workflows.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Workflows")]
struct WorkflowsDoc {
    workflows: Vec<WorkflowDoc>,
}

/// A workflow.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Workflow")]
struct WorkflowDoc {
    name: String,
    /// A description of the field.
    description: String,
    /// What it takes: a JSON Schema.
    #[schemars(schema_with = "shape::object")]
    input_schema: Value,
    /// What it returns: a JSON Schema, if its definition has one.
    #[schemars(schema_with = "maybe_object")]
    output_schema: Option<Value>,
}

fn maybe_object(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": ["object", "null"], "additionalProperties": true})
}

async fn list(State(app): State<Arc<App>>, Authenticated(who): Authenticated) -> Response {
    let tools = app.engine.registry().list_for(&who.tenant);
    let flows = tools.iter().filter(|tool| tool.spec().kind == Kind::Workflow);
    let workflows = flows.map(|tool| WorkflowDoc {
        name: tool.name().to_string(),
        description: tool.spec().description.get(app.lang).to_owned(),
        input_schema: tool.model_schema().clone(),
        output_schema: tool.spec().output.clone(),
    });
    view::ok(&WorkflowsDoc { workflows: workflows.collect() })
}

fn find(app: &App, tenant: &TenantId, name: &str) -> Result<Arc<Tool>, Problem> {
    let found = app.engine.registry().get_for(tenant, name);
    found
        .filter(|tool| tool.spec().kind == Kind::Workflow)
        .ok_or_else(|| Problem::not_found("workflow").hint("GET /v1/workflows lists all workflows"))
}

/// How a workflow is run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunWorkflowBody {
    /// Its arguments.
    #[serde(default)]
    #[schemars(schema_with = "maybe_object")]
    input: Option<Map<String, Value>>,
    /// The conversation that it belongs to.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    conversation_id: Option<String>,
    /// The user on whose behalf it runs.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    user_id: Option<String>,
    /// Timeout of running: seconds, or a text such as `30s` or `2m`.
    #[serde(default)]
    timeout: Option<DurationBody>,
    /// A run with the same key and the same arguments does not begin again.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    idempotency_key: Option<String>,
    /// Whether the answer waits for the result; `true` by default.
    #[serde(default)]
    wait: Option<bool>,
}

/// A run that has begun.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunStarted")]
struct StartedDoc {
    #[schemars(schema_with = "shape::id")]
    run_id: String,
}

async fn run(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(name): PathName,
    headers: HeaderMap,
    JsonBody(body): JsonBody<RunWorkflowBody>,
) -> Result<Response, Problem> {
    app.refuse_while_draining()?;
    let tool = find(&app, &who.tenant, &name)?;
    check_name("/conversation_id", body.conversation_id.as_deref())?;
    check_name("/user_id", body.user_id.as_deref())?;
    check_key("/idempotency_key", body.idempotency_key.as_deref())?;
    let user = user_of(&who, body.user_id, "/user_id")?;
    let permit = app.quotas.begin(ConcurrentUse::Runs, &who)?;
    let id = CallId::at(Timestamp::now());
    let context = Context::new(Caller {
        tenant: who.tenant.clone(),
        user: user.map(Into::into),
        caller_type: CallerType::Direct,
        conversation: body.conversation_id.map(Into::into),
        ..Caller::default()
    });
    let input = Value::Object(body.input.unwrap_or_default());
    let mut request = CallRequest::new(tool.name().as_str(), input).id(id);
    if let Some(timeout) = body.timeout {
        request = request.timeout(timeout.read("/timeout")?);
    }
    if let Some(key) = body.idempotency_key {
        request = request.idempotency_key(key);
    }
    let request = request.context(context.begun_by(who.key_id));
    if body.wait == Some(false) {
        let engine = app.engine.clone();
        let request = app.workflow_runs.known_at_once(request);
        let mut running = app.tasks.spawn(async move {
            let _permit = permit;
            engine.call(request).await
        });
        // Whoever is told of the run finds it; one that is refused does not begin.
        let run_id = id.to_string();
        let known = async {
            while app.workflow_runs.show(&who.tenant, &run_id).await?.is_none() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Ok::<_, Problem>(())
        };
        tokio::select! {
            known = known => known?,
            Ok(result) = &mut running => {
                if result.metadata().is_none_or(|facts| facts.get("run").is_none()) {
                    return Ok(view::answer(&result, app.lang));
                }
            }
        }
        return Ok(view::with_status(StatusCode::ACCEPTED, &StartedDoc { run_id }));
    }
    let run = id.to_string().into();
    let asked = RunRequest { request, id, run, conversation: None, permit };
    follow::answer(&app, asked, &headers).await
}

/// Runs of workflows.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunPage")]
struct RunsDoc {
    /// The runs, the newest first.
    runs: Vec<RunHead>,
    /// The cursor of the next page; none on the last page.
    next: Option<String>,
}

async fn runs(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(name): PathName,
    QueryString(query): QueryString<PageQuery<AfterId>>,
) -> Result<Response, Problem> {
    find(&app, &who.tenant, &name)?;
    let before = query.cursor.map(|AfterId(id)| id.to_string());
    let limit = query.limit();
    let page = RunPage { workflow: Some(&name), before: before.as_deref(), limit: limit + 1 };
    let mut runs = app.workflow_runs.list(&who.tenant, page).await?;
    let more = runs.len() > limit;
    runs.truncate(limit);
    let next = runs.last().filter(|_| more).map(|last| last.id.to_string());
    Ok(view::ok(&RunsDoc { runs, next }))
}

async fn shown(app: &App, tenant: &TenantId, run: &str) -> Result<RunView, Problem> {
    let found = app.workflow_runs.show(tenant, run).await?;
    found.ok_or_else(|| Problem::not_found("run"))
}

/// An answer to a question of a run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AnswerBody {
    /// The step that asks; it need not be named if only one does.
    #[serde(default)]
    step: Option<String>,
    /// What is chosen, of the `actions` of the question.
    #[serde(default)]
    action: Option<String>,
    /// What was filled in.
    #[serde(default)]
    form: Option<Value>,
    /// What else there is to say; the run can read it.
    #[serde(default)]
    comment: Option<String>,
}

async fn answer(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(run): PathName,
    JsonBody(body): JsonBody<AnswerBody>,
) -> Result<Response, Problem> {
    app.refuse_while_draining()?;
    let view = shown(&app, &who.tenant, &run).await?;
    let has_begun = view.head.begun_by.as_deref() == Some(&*who.key_id.to_string());
    if app.settings.four_eyes && has_begun {
        let why = "whoever began a run does not answer its questions";
        return Err(Problem::new(StatusCode::FORBIDDEN, "four_eyes", why)
            .hint("somebody else answers it, with a key of their own"));
    }
    // Whose key it was, or whom it is bound to; nobody else can be named.
    let name = who.bound_user().map_or_else(|| who.name.to_string(), |user| user.to_string());
    let action = body.action.clone();
    let answer = Answer {
        place: body.step,
        action: body.action,
        form: body.form,
        comment: body.comment,
        who: Some(name),
    };
    app.workflow_runs.answer(&who.tenant, &run, answer).await?;
    let mut response = view::ok(&shown(&app, &who.tenant, &run).await?);
    response.extensions_mut().insert(AuditDetails(json!({"action": action})));
    Ok(response)
}

/// A signal to a run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SignalBody {
    /// The name that a step waits for.
    #[schemars(length(min = 1, max = 512))]
    name: String,
    /// What the step goes on with.
    #[serde(default)]
    value: Value,
    /// Two signals with the same key are one.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    idempotency_key: Option<String>,
}

/// What became of a signal.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SignalSent")]
struct SignalledDoc {
    /// Whether it is a new signal.
    is_new: bool,
}

async fn signal(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(run): PathName,
    JsonBody(body): JsonBody<SignalBody>,
) -> Result<Response, Problem> {
    app.refuse_while_draining()?;
    check_name("/name", Some(&body.name))?;
    check_key("/idempotency_key", body.idempotency_key.as_deref())?;
    let key = body.idempotency_key.unwrap_or_else(|| CallId::at(Timestamp::now()).to_string());
    let name = Some(who.name.to_string());
    let runs = &app.workflow_runs;
    let is_new = runs.signal(&who.tenant, &run, &body.name, body.value, &key, name).await?;
    Ok(view::ok(&SignalledDoc { is_new }))
}

async fn cancel(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(run): PathName,
) -> Result<Response, Problem> {
    let view = shown(&app, &who.tenant, &run).await?;
    let is_own = view.head.begun_by.as_deref() == Some(&*who.key_id.to_string());
    if !is_own && !who.may(Permission::CancelCalls) {
        let why = "only operators and admins may cancel runs of other keys";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", why));
    }
    app.workflow_runs.cancel(&who.tenant, &run, Some(who.name.to_string())).await?;
    Ok(view::ok(&shown(&app, &who.tenant, &run).await?))
}

/// How a run is repeated.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RetryBody {
    /// The step from which on everything runs again.
    #[serde(default)]
    from: Option<String>,
    /// Whether the present definition counts.
    #[serde(default)]
    latest: bool,
}

async fn retry(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(run): PathName,
    headers: HeaderMap,
    JsonBody(body): JsonBody<RetryBody>,
) -> Result<Response, Problem> {
    app.refuse_while_draining()?;
    let permit = app.quotas.begin(ConcurrentUse::Runs, &who)?;
    let from = body.from.as_deref();
    let request = app.workflow_runs.retry(&who.tenant, &run, from, body.latest).await?;
    let id = CallId::at(Timestamp::now());
    let request = request.id(id).begun_by(who.key_id);
    let run = id.to_string().into();
    let asked = RunRequest { request, id, run, conversation: None, permit };
    follow::answer(&app, asked, &headers).await
}

/// Goes on with a run that nobody drives; one that has ended tells its result
/// again.
pub(super) async fn go_on(app: &App, tenant: &TenantId, run: &str) -> Result<Response, Problem> {
    let head = shown(app, tenant, run).await?.head;
    let refused = |why: &str, hint: String| Err(Problem::conflict(why).hint(hint));
    if head.status.has_ended() {
        return refused("this run has ended", format!("GET /v1/runs/{run} has its result"));
    }
    let Some(result) = app.workflow_runs.go_on(tenant, run).await? else {
        return refused("this run is going on", format!("POST /v1/runs/{run}/cancel ends it"));
    };
    Ok(view::ok(&json!({"run_id": run, "result": result.view(app.lang)})))
}
