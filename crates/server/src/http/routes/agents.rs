//! Agents: list them, run them, look at runs and resume those that were interrupted.

pub(super) mod follow;

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass::{
    CallId, CallRequest, Caller, CallerType, Context, Kind, ResultView, TenantId, Tool,
};
use windlass_executors::agent::{RunEntry, RunLog, RunScope, Stop};
use windlass_workflow::RunView;

use super::context::{DurationBody, check_name, user_of};
use super::{view, workflows};
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape::{self, RunEventDoc};
use crate::http::front::extract::{Authenticated, JsonBody, PathName};
use crate::http::front::problem::Problem;
use crate::state::identity::{Identity, Permission};
use crate::state::quota::ConcurrentUse;
use crate::state::runs::AgentConversation;
use follow::RunRequest;

/// What the names of agents' tools may begin with.
const PREFIX: &str = "invoke_";

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/v1/agents", "list_agents", list)
            .may(Permission::ReadTools, "List the agents")
            .answer::<AgentsDoc>(200, "List the agents"),
        RouteSpec::post("/v1/agents/{name}/runs", "run_agent", run)
            .may(Permission::CallTools, "Run an agent")
            .details(
                "The agent loop: the model is asked, its tool calls run, and it is asked again \
                 with their results, until it calls no tool. Runs with the same \
                 `conversation_id` continue the conversation. With `Accept: text/event-stream` \
                 the answer is a stream: `run`, `text` as the model writes, `restart` if the \
                 model's response broke off and is requested again (the text so far is void), \
                 the events of a batch for the tool calls, `gap` if a slow client missed some \
                 of them, then `result`. A run is a call: `POST /v1/calls/{call_id}/cancel` \
                 interrupts it.",
            )
            .body::<RunBody>()
            .example(|| json!({"message": "What is 6 * 7?"}))
            .answer::<RunDoc>(200, "The result of the run")
            .events::<RunEventDoc>("The result of the run"),
        RouteSpec::get("/v1/runs/{run_id}", "get_run", show)
            .may(Permission::ReadCalls, "Get the state of a run")
            .details(
                "A run of an agent, or one of a workflow with the state of each place: \
                 `pages[3].lookup` is the step `lookup` of the fourth item of the `map` `pages`.",
            )
            .answer::<AnyRunDoc>(200, "The state of the run"),
        RouteSpec::post("/v1/runs/{run_id}/resume", "resume_run", resume)
            .may(Permission::CallTools, "Resume an interrupted run")
            .details(
                "Completed model responses and tool calls are not repeated. A finished run \
                 returns its result again; a run that is in progress is a 409 conflict.",
            )
            .answer::<RunDoc>(200, "The result of the run")
            .events::<RunEventDoc>("The result of the run"),
    ]
}

/// Agents.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Agents")]
struct AgentsDoc {
    agents: Vec<AgentDoc>,
}

/// An agent.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Agent")]
struct AgentDoc {
    /// Its name.
    name: String,
    /// The name of the tool that it is.
    tool_name: String,
    /// A description of the field.
    description: String,
    /// The model that it asks.
    model: String,
    /// What it takes: a JSON Schema.
    #[schemars(schema_with = "shape::object")]
    input_schema: Value,
}

fn name_of(tool: &Tool) -> &str {
    let name = tool.name().as_str();
    name.strip_prefix(PREFIX).unwrap_or(name)
}

fn model_of(tool: &Tool) -> &str {
    tool.spec().entry.config.get("model").and_then(Value::as_str).unwrap_or_default()
}

async fn list(State(app): State<Arc<App>>, Authenticated(who): Authenticated) -> Response {
    let tools = app.engine.registry().list_for(&who.tenant);
    let agents = tools.iter().filter(|tool| tool.spec().kind == Kind::Agent).map(|tool| {
        let spec = tool.spec();
        AgentDoc {
            name: name_of(tool).to_owned(),
            tool_name: spec.name.to_string(),
            description: spec.description.get(app.lang).to_owned(),
            model: model_of(tool).to_owned(),
            input_schema: tool.model_schema().clone(),
        }
    });
    view::ok(&AgentsDoc { agents: agents.collect() })
}

/// The agent of a name, with or without the prefix of its tool.
fn find(app: &App, tenant: &TenantId, name: &str) -> Result<Arc<Tool>, Problem> {
    let found = [name.to_owned(), format!("{PREFIX}{name}")].into_iter().find_map(|name| {
        let tool = app.engine.registry().get_for(tenant, &name)?;
        (tool.spec().kind == Kind::Agent).then_some(tool)
    });
    found.ok_or_else(|| Problem::not_found("agent").hint("GET /v1/agents lists all agents"))
}

/// The input of an agent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunBody {
    /// The message for the agent; short for `input: {message: …}`.
    #[serde(default)]
    message: Option<String>,
    /// The arguments that it declares.
    #[serde(default)]
    #[schemars(schema_with = "maybe_object")]
    input: Option<Map<String, Value>>,
    /// The conversation that it belongs to; the agent remembers what was said in
    /// it, for a week. Each person has conversations of their own.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    conversation_id: Option<String>,
    /// The user on whose behalf it runs.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    user_id: Option<String>,
    /// The name of the credential that it asks its model with, where there are
    /// several.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    credential: Option<String>,
    /// Timeout: seconds, or a text such as `30s` or `2m`.
    #[serde(default)]
    timeout: Option<DurationBody>,
}

fn maybe_object(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": ["object", "null"], "additionalProperties": true})
}

impl RunBody {
    fn request(self, tool: &Tool, tenant: TenantId) -> Result<CallRequest, Problem> {
        check_name("/conversation_id", self.conversation_id.as_deref())?;
        check_name("/user_id", self.user_id.as_deref())?;
        check_name("/credential", self.credential.as_deref())?;
        let mut input = self.input.unwrap_or_default();
        if let Some(message) = self.message
            && input.insert("message".to_owned(), message.into()).is_some()
        {
            let why = "say it once: as `message`, or in `input`";
            return Err(Problem::bad("there are two messages").at("/message", why));
        }
        let context = Context::new(Caller {
            tenant,
            user: self.user_id.map(Into::into),
            caller_type: CallerType::Direct,
            conversation: self.conversation_id.map(Into::into),
            ..Caller::default()
        });
        let mut request = CallRequest::new(tool.name().as_str(), Value::Object(input));
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout.read("/timeout")?);
        }
        if let Some(credential) = self.credential {
            request = request.credential(credential);
        }
        Ok(request.context(context))
    }
}

/// The result of a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunResult")]
pub(crate) struct RunDoc {
    /// The id to resume it by after an interruption.
    pub(super) run_id: String,
    /// The result of its call; `metadata.agentMetadata` has its turns, usage and cost.
    pub(super) result: ResultView<'static>,
}

async fn run(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(name): PathName,
    headers: HeaderMap,
    JsonBody(body): JsonBody<RunBody>,
) -> Result<Response, Problem> {
    app.refuse_while_draining()?;
    let tool = find(&app, &who.tenant, &name)?;
    let permit = app.quotas.begin(ConcurrentUse::Runs, &who)?;
    let id = CallId::at(Timestamp::now());
    let user_id = user_of(&who, body.user_id, "/user_id")?;
    let conversation = body
        .conversation_id
        .as_deref()
        .map(|name| talk(&app, &who, &tool, (name, user_id.as_deref())));
    let body = RunBody { user_id, ..body };
    let request = body.request(&tool, who.tenant)?.id(id).begun_by(who.key_id);
    let asked = RunRequest { request, id, run: id.to_string().into(), conversation, permit };
    follow::answer(&app, asked, &headers).await
}

/// Where an agent's conversation with a person is kept.
fn talk(
    app: &App,
    who: &Identity,
    tool: &Tool,
    conversation: (&str, Option<&str>),
) -> AgentConversation {
    let agent = (tool.name().as_str(), model_of(tool));
    let (documents, owner) = (Arc::clone(&app.documents), Some(who.key_id.to_string()));
    AgentConversation::new(documents, who.tenant.clone(), owner, agent, conversation)
}

async fn resume(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(run): PathName,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    app.refuse_while_draining()?;
    if app.workflow_runs.show(&who.tenant, &run).await?.is_some() {
        return workflows::go_on(&app, &who.tenant, &run).await;
    }
    let entries = kept(&app, &who, &run).await?;
    let has_ended = entries.iter().any(|entry| matches!(entry, RunEntry::Ended { .. }));
    if let Some(call) = RunEntry::last_call(&entries)
        && !has_ended
        && app.engine.is_under_way(&who.tenant, call)
    {
        let hint = format!("POST /v1/calls/{call}/cancel interrupts it");
        return Err(Problem::conflict(format!("this run is going on (call {call})")).hint(hint));
    }
    let Some(RunEntry::Began { tool, input, conversation, user, .. }) = entries.into_iter().next()
    else {
        return Err(Problem::not_found("run"));
    };
    let user = user_of(&who, user, "run_id")?;
    let tool = find(&app, &who.tenant, &tool)?;
    let permit = app.quotas.begin(ConcurrentUse::Runs, &who)?;
    let run: Arc<str> = run.into();
    let talk = conversation.as_deref().map(|name| talk(&app, &who, &tool, (name, user.as_deref())));
    let context = Context::new(Caller {
        tenant: who.tenant,
        user: user.map(Into::into),
        caller_type: CallerType::Direct,
        conversation: conversation.map(Into::into),
        ..Caller::default()
    });
    let scope = RunScope { parent: None, run: Arc::clone(&run) };
    let id = CallId::at(Timestamp::now());
    let request = CallRequest::new(tool.name().as_str(), input).id(id);
    let request = request.context(context.object(scope).begun_by(who.key_id));
    let asked = RunRequest { request, id, run, conversation: talk, permit };
    follow::answer(&app, asked, &headers).await
}

/// What is kept of a run.
async fn kept(app: &App, who: &Identity, run: &str) -> Result<Vec<RunEntry>, Problem> {
    let entries = app.runs.read(&who.tenant, run).await?;
    match entries.is_empty() {
        true => Err(Problem::not_found("run")),
        false => Ok(entries),
    }
}

/// The state of a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunState")]
struct StateDoc {
    run_id: String,
    /// The tool of the agent that it is of.
    agent: String,
    /// Whether it has ended; otherwise it runs or was interrupted.
    has_ended: bool,
    /// `ended`, `running`, or how the call ended that drove it: `failed`, `refused`,
    /// `timed_out`, `cancelled` or `interrupted`. All but the first two can go on.
    status: &'static str,
    /// The call that drives it, or was the last to.
    #[schemars(schema_with = "shape::maybe_id")]
    call_id: Option<CallId>,
    /// Why it has ended: `done`, `max_turns`, `tokens`, `cost`, `time`, `calls`,
    /// `loop`, `max_tokens` or `refused`.
    stop: Option<Stopped>,
    /// What it said at its end.
    text: Option<String>,
    /// How many requests were sent to the model.
    turns: u32,
    /// The tools that were called, in order.
    tools: Vec<String>,
}

/// A run of an agent or of a workflow.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Run")]
#[serde(untagged)]
#[expect(dead_code, reason = "it only describes what is answered")]
enum AnyRunDoc {
    Agent(Box<StateDoc>),
    Workflow(Box<RunView>),
}

/// Why a run has ended.
#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
struct Stopped(#[schemars(with = "String")] Stop);

async fn show(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(run): PathName,
) -> Result<Response, Problem> {
    if let Some(view) = app.workflow_runs.show(&who.tenant, &run).await? {
        return Ok(view::ok(&view));
    }
    let entries = kept(&app, &who, &run).await?;
    let call_id = RunEntry::last_call(&entries);
    let mut state = StateDoc {
        run_id: run,
        agent: String::new(),
        has_ended: false,
        status: status(&app, &who, call_id).await?,
        call_id,
        stop: None,
        text: None,
        turns: 0,
        tools: Vec::new(),
    };
    for entry in entries {
        match entry {
            RunEntry::Began { tool, .. } => state.agent = tool,
            RunEntry::Resumed { .. } => {}
            RunEntry::Answered { turn, .. } => state.turns = turn,
            RunEntry::Results { tools, .. } => state.tools.extend(tools),
            RunEntry::Ended { stop, text } => {
                (state.has_ended, state.status) = (true, "ended");
                (state.stop, state.text) = (Some(Stopped(stop)), Some(text));
            }
        }
    }
    Ok(view::ok(&state))
}

/// The state of the call that drives a run. One without a record has not
/// come to its end, here or on another server.
async fn status(app: &App, who: &Identity, call: Option<CallId>) -> Result<&'static str, Problem> {
    let Some(call) = call.filter(|call| !app.engine.is_under_way(&who.tenant, *call)) else {
        return Ok("running");
    };
    let record = app.engine.records().get(&who.tenant, call).await?;
    Ok(record.map_or("running", |record| record.status.name()))
}
