//! Operations: statistics, session summaries, concurrency limits, tool groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use windlass::{LimitSettings, Session, Strategy, TenantId, ToolStatistics, Usage};

use super::context::{DurationBody, integer};
use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape::LimitMetricsDoc;
use crate::http::front::extract::{Authenticated, JsonBody, PathName};
use crate::http::front::problem::Problem;
use crate::state::identity::{Identity, Permission};

/// The most of anything that can be limited.
const MAX_COUNT: u32 = 1_000_000;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/v1/conversations/{conversation_id}/summary", "get_summary", summary)
            .may(Permission::ReadCalls, "Summarize the calls of a conversation")
            .answer::<SummaryDoc>(200, "The summary"),
        RouteSpec::get("/v1/stats", "get_stats", stats)
            .may(Permission::ReadCalls, "Get statistics of all calls of the tenant")
            .answer::<StatsDoc>(200, "The statistics"),
        RouteSpec::get("/v1/limits", "get_limits", limits)
            .may(Permission::ReadCalls, "Get the concurrency limits and the current use")
            .details(
                "The tenant `default`, which runs the installation, sees the calls of all \
                 tenants; any other tenant sees its own.",
            )
            .answer::<LimitsDoc>(200, "The limits"),
        RouteSpec::put("/v1/limits", "set_limits", set_limits)
            .may(Permission::Administer, "Change concurrency limits at runtime")
            .details(
                "Omitted limits stay unchanged; null removes an optional one. The change \
                 applies to this server until it restarts; permanent limits are set in \
                 windlass.yaml.",
            )
            .body::<LimitsBody>()
            .example(|| json!({"max_concurrent": 20, "bucket_limits": {"http": 5}}))
            .answer::<LimitsDoc>(200, "The new limits"),
        RouteSpec::get("/v1/sessions/{conversation_id}/groups", "get_groups", groups)
            .may(Permission::ReadCalls, "Get the tool groups of a session")
            .answer::<GroupsDoc>(200, "The groups"),
        RouteSpec::put("/v1/sessions/{conversation_id}/groups", "set_groups", set_groups)
            .may(Permission::CallTools, "Enable and disable tool groups of a session")
            .details("Sessions are local to a server: send a conversation always to the same one.")
            .body::<GroupsBody>()
            .example(|| json!({"activate": ["research"], "deactivate": []}))
            .answer::<GroupsDoc>(200, "The new state of the groups"),
        RouteSpec::delete("/v1/sessions/{conversation_id}/groups", "reset_groups", reset_groups)
            .may(Permission::CallTools, "Reset the tool groups of a session")
            .answer::<GroupsDoc>(200, "The new state of the groups"),
    ]
}

/// The summary of a conversation.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Summary")]
struct SummaryDoc {
    conversation_id: String,
    total_calls: u64,
    successful_calls: u64,
    failed_calls: u64,
    /// Per cent.
    success_rate: f64,
    /// Calls by tool.
    tool_usage: BTreeMap<String, u64>,
    /// Model usage: tokens and cost.
    usage: Option<Usage>,
}

async fn summary(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(conversation): PathName,
) -> Result<Response, Problem> {
    Ok(view::ok(&app.engine.records().summary(&who.tenant, &conversation).await?))
}

/// Statistics.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Statistics")]
struct StatsDoc {
    /// All categories together.
    total: ToolStatistics,
    /// The calls of each tool.
    tools: BTreeMap<String, ToolStatistics>,
}

async fn stats(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
) -> Result<Response, Problem> {
    Ok(view::ok(&app.engine.records().statistics(&who.tenant).await?))
}

/// The limits and the utilization of the engine.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Limits")]
struct LimitsDoc {
    /// What is set.
    settings: LimitsView,
    /// The utilization of the engine, or by the tenant.
    metrics: LimitMetricsDoc,
}

#[derive(Serialize, JsonSchema)]
struct LimitsView {
    max_concurrent: usize,
    queue_size: usize,
    /// `fifo`, `priority` or `reject`.
    strategy: String,
    /// By category.
    bucket_limits: BTreeMap<String, usize>,
    per_tenant: Option<usize>,
    per_agent: Option<usize>,
    reserved_slots: Option<usize>,
    calls_per_second: Option<u32>,
    /// In seconds.
    ageing: f64,
}

fn show_limits(app: &App, who: &Identity) -> Response {
    let limits = app.engine.limits();
    let settings = LimitsView {
        max_concurrent: limits.max_concurrent,
        queue_size: limits.queue_size,
        strategy: json!(limits.strategy).as_str().unwrap_or_default().to_owned(),
        bucket_limits: limits.bucket_limits,
        per_tenant: limits.per_tenant,
        per_agent: limits.per_agent,
        reserved_slots: limits.reserved_slots,
        calls_per_second: limits.calls_per_second,
        ageing: limits.ageing.as_secs_f64(),
    };
    let metrics = match who.may(Permission::Observe) {
        true => json!(app.engine.limit_metrics()),
        false => json!(app.engine.tenant_load(&who.tenant)),
    };
    view::ok(&json!({"settings": settings, "metrics": metrics}))
}

async fn limits(State(app): State<Arc<App>>, Authenticated(who): Authenticated) -> Response {
    show_limits(&app, &who)
}

/// Limits to change.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LimitsBody {
    /// Concurrency limit of the server.
    #[serde(default)]
    max_concurrent: Option<LimitCount>,
    /// Maximum length of the queue.
    #[serde(default, deserialize_with = "integer")]
    #[schemars(range(min = 0, max = 1_000_000))]
    queue_size: Option<u32>,
    /// The queueing strategy for calls without a free slot.
    #[serde(default)]
    strategy: Option<StrategyName>,
    /// Concurrency limits by category; they replace all earlier ones.
    #[serde(default)]
    bucket_limits: Option<BTreeMap<String, LimitCount>>,
    /// Concurrency limit of one tenant.
    #[serde(default, deserialize_with = "told")]
    per_tenant: Option<Option<LimitCount>>,
    /// Concurrency limit of one agent.
    #[serde(default, deserialize_with = "told")]
    per_agent: Option<Option<LimitCount>>,
    /// Slots that are reserved for tenants below their fair share.
    #[serde(default, deserialize_with = "told")]
    reserved_slots: Option<Option<LimitCount>>,
    /// Rate limit: calls that may begin in a second.
    #[serde(default, deserialize_with = "told")]
    calls_per_second: Option<Option<LimitCount>>,
    /// How long a waiting call waits for one step of priority.
    #[serde(default)]
    ageing: Option<DurationBody>,
}

/// A limit of at least one.
#[derive(Clone, Copy, JsonSchema)]
#[schemars(transparent)]
struct LimitCount(#[schemars(range(min = 1, max = 1_000_000))] u32);

impl LimitCount {
    fn get(self) -> usize {
        self.0 as usize
    }
}

impl<'de> Deserialize<'de> for LimitCount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match integer::<u32, D>(from)? {
            Some(count @ 1..=MAX_COUNT) => Ok(Self(count)),
            _ => Err(D::Error::custom(format!("expected 1 to {MAX_COUNT}"))),
        }
    }
}

/// The queueing strategy for calls without a free slot.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum StrategyName {
    /// It waits, in order of arrival.
    Fifo,
    /// It waits, by priority.
    Priority,
    /// It is denied.
    Reject,
}

/// Tells a null from nothing at all.
fn told<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl LimitsBody {
    fn apply(self, limits: &mut LimitSettings) -> Result<(), Problem> {
        let told = |wanted: Option<Option<LimitCount>>, own: Option<usize>| {
            wanted.map_or(own, |wanted| wanted.map(LimitCount::get))
        };
        if self.queue_size.is_some_and(|size| size > MAX_COUNT) {
            let why = format!("at most {MAX_COUNT}");
            return Err(Problem::bad("a limit is wrong").at("/queue_size", why));
        }
        limits.max_concurrent = self.max_concurrent.map_or(limits.max_concurrent, LimitCount::get);
        limits.queue_size = self.queue_size.map_or(limits.queue_size, |size| size as usize);
        if let Some(strategy) = self.strategy {
            limits.strategy = match strategy {
                StrategyName::Fifo => Strategy::Fifo,
                StrategyName::Priority => Strategy::Priority,
                StrategyName::Reject => Strategy::Reject,
            };
        }
        if let Some(buckets) = self.bucket_limits {
            limits.bucket_limits =
                buckets.into_iter().map(|(name, limit)| (name, limit.get())).collect();
        }
        limits.per_tenant = told(self.per_tenant, limits.per_tenant);
        limits.per_agent = told(self.per_agent, limits.per_agent);
        limits.reserved_slots = told(self.reserved_slots, limits.reserved_slots);
        if let Some(rate) = self.calls_per_second {
            limits.calls_per_second = rate.map(|rate| rate.0);
        }
        if let Some(ageing) = self.ageing {
            limits.ageing = ageing.read("/ageing")?;
        }
        Ok(())
    }
}

async fn set_limits(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    JsonBody(body): JsonBody<LimitsBody>,
) -> Result<Response, Problem> {
    let mut limits = app.engine.limits();
    body.apply(&mut limits)?;
    app.engine.set_limits(limits);
    Ok(show_limits(&app, &who))
}

/// Groups of tools.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Groups")]
struct GroupsDoc {
    groups: Vec<GroupDoc>,
}

/// A group of tools.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Group")]
struct GroupDoc {
    name: String,
    description: String,
    /// Whether its credentials suffice to use its tools.
    active: bool,
}

/// The groups of the tools that a tenant sees. Those of others have names, too.
/// A group that only definitions name is there, and active.
fn groups_of(app: &App, tenant: &TenantId) -> BTreeSet<String> {
    let tools = app.tools_of(tenant);
    let named: BTreeSet<String> =
        tools.iter().filter_map(|tool| tool.spec().group.clone()).collect();
    let groups = app.engine.groups();
    let known = groups.list(None);
    for name in named.iter().filter(|name| known.iter().all(|group| group.name != **name)) {
        groups.create(name, "", true);
    }
    named
}

fn show_groups(app: &App, session: &Session, own: &BTreeSet<String>) -> Response {
    let mut groups = app.engine.groups().list(Some(session));
    groups.retain(|group| own.contains(&group.name));
    view::ok(&json!({"groups": groups}))
}

async fn groups(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(conversation): PathName,
) -> Response {
    let own = groups_of(&app, &who.tenant);
    show_groups(&app, &Session::new(who.tenant, conversation), &own)
}

/// Groups to enable and disable.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GroupsBody {
    /// Enable these.
    #[serde(default)]
    activate: Vec<String>,
    /// Disable these.
    #[serde(default)]
    deactivate: Vec<String>,
    /// Disable all others.
    #[serde(default)]
    only: bool,
}

async fn set_groups(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(conversation): PathName,
    JsonBody(body): JsonBody<GroupsBody>,
) -> Result<Response, Problem> {
    let own = groups_of(&app, &who.tenant);
    if body.activate.iter().chain(&body.deactivate).any(|name| !own.contains(name)) {
        let known: Vec<&str> = own.iter().map(String::as_str).collect();
        let hint = format!("there are: {}", known.join(", "));
        return Err(Problem::not_found("group of tools").hint(hint));
    }
    let session = Session::new(who.tenant, conversation);
    let on: Vec<&str> = body.activate.iter().map(String::as_str).collect();
    let off: Vec<&str> = body.deactivate.iter().map(String::as_str).collect();
    let groups = app.engine.groups();
    match body.only {
        true => groups.replace_session(&session, &on)?,
        false => groups.update_session(&session, &on, &off)?,
    }
    Ok(show_groups(&app, &session, &own))
}

async fn reset_groups(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(conversation): PathName,
) -> Response {
    let own = groups_of(&app, &who.tenant);
    let session = Session::new(who.tenant, conversation);
    app.engine.groups().reset_session(&session);
    show_groups(&app, &session, &own)
}
