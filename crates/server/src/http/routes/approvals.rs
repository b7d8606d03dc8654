//! The approval queue over HTTP: list and decide calls that wait, and set the rules.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::{
    ApprovalRules, CallId, CallResult, Caller, ResultView, SuspendedCall, TenantId, Verdict,
};

use super::audit::AuditDetails;
use super::page::{AfterId, Limit, PageQuery};
use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape::{self, RulesDoc};
use crate::http::front::extract::{Authenticated, JsonBody, PathName, QueryString};
use crate::http::front::problem::Problem;
use crate::human::approvals::{PendingApproval, SettledCall};
use crate::state::identity::{Identity, Permission};

pub(crate) fn rows() -> Vec<RouteSpec> {
    let details = "The call runs under its own id, with exactly the arguments that were shown; \
                   nothing else of its batch runs again. A refusal is a result that the model \
                   can read. The first verdict counts.";
    vec![
        RouteSpec::get("/v1/approvals", "list_approvals", list)
            .may(Permission::ReadCalls, "List the calls that wait for an approval")
            .query::<PageQuery<AfterId>>()
            .answer::<ApprovalsDoc>(200, "The calls, oldest first"),
        RouteSpec::get("/v1/approvals/rules", "get_approval_rules", rules)
            .may(Permission::ReadCalls, "Get the approval rules: which calls are allowed, denied, or need a person")
            .answer::<RulesDoc>(200, "The rules"),
        RouteSpec::put("/v1/approvals/rules", "set_approval_rules", set_rules)
            .may(Permission::Approve, "Replace the approval rules")
            .details(
                "`{\"rules\": [{\"tool\": \"delete_*\", \"then\": \"ask\"}], \"default\": \
                 \"allow\"}`. The first rule that fits decides; a rule may name `tool`, \
                 `provider`, `behaviour` and `arguments` (`{\"pointer\": \"/to\", \"matches\": \
                 \"@example\\\\.com$\"}`). The operator's rules, in windlass.yaml, come before these.",
            )
            .body::<RulesDoc>()
            .example(|| json!({"rules": [{"tool": "delete_*", "then": "ask"}], "default": "allow"}))
            .answer::<RulesDoc>(200, "The rules"),
        RouteSpec::get("/v1/approvals/{call_id}", "get_approval", get)
            .may(Permission::ReadCalls, "Get a call that waits for an approval")
            .answer::<ApprovalDoc>(200, "The call"),
        RouteSpec::post("/v1/approvals/{call_id}", "decide_approval", decide)
            .may(Permission::Approve, "Approve or deny a call that waits")
            .details(details)
            .body::<VerdictBody>()
            .example(verdict_example)
            .answer::<ResultView<'static>>(200, "The result of the call"),
        RouteSpec::post("/v1/calls/{call_id}/resume", "resume_call", decide)
            .may(Permission::Approve, "Resume a suspended call: the same as deciding its approval")
            .details(details)
            .body::<VerdictBody>()
            .example(verdict_example)
            .answer::<ResultView<'static>>(200, "The result of the call"),
    ]
}

fn verdict_example() -> Value {
    json!({"approved": false, "comment": "ask the customer first"})
}

/// A page of the approval queue.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ApprovalPage")]
struct ApprovalsDoc {
    /// The calls, oldest first.
    approvals: Vec<ApprovalDoc>,
    /// The cursor of the next page; none on the last page.
    next: Option<String>,
}

/// A call that waits for an approval.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Approval")]
struct ApprovalDoc {
    #[schemars(schema_with = "shape::id")]
    call_id: String,
    /// The id that the model gave the call.
    call_ref: Option<String>,
    /// The batch that it belongs to; the other calls of it do not wait.
    #[schemars(schema_with = "shape::maybe_id")]
    batch_id: Option<String>,
    tool_name: String,
    /// Exactly what it would run with.
    arguments: Value,
    /// What stands for the tool, the arguments and the person.
    fingerprint: String,
    /// Why an approval is needed.
    reason: String,
    /// The caller.
    caller: Caller,
    /// When the call came.
    #[schemars(schema_with = "shape::time")]
    created_at: String,
    /// When it expires and is denied.
    #[schemars(schema_with = "shape::time")]
    expires_at: String,
    /// `waiting`, `decided` while it runs, or `cancelled`.
    status: String,
    /// The verdict.
    verdict: Option<Verdict>,
}

fn show(app: &App, waiting: &PendingApproval) -> Value {
    let call = &waiting.call;
    json!({
        "call_id": call.id,
        "call_ref": call.call_ref,
        "batch_id": call.batch_id,
        "tool_name": call.tool_name,
        "arguments": call.arguments,
        "fingerprint": call.fingerprint,
        "reason": call.reason,
        "caller": call.caller,
        "created_at": call.created_at,
        "expires_at": app.approvals.waits_until(call),
        "status": status(waiting),
        "verdict": waiting.verdict,
    })
}

fn status(waiting: &PendingApproval) -> &'static str {
    match &waiting.verdict {
        Some(_) => "decided",
        None if waiting.withdrawn => "cancelled",
        None => "waiting",
    }
}

async fn list(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    QueryString(query): QueryString<PageQuery<AfterId>>,
) -> Result<Response, Problem> {
    let after = query.cursor.map(|AfterId(id)| id.to_string());
    let (waiting, next) = app.approvals.list(&who.tenant, after.as_deref(), query.limit()).await?;
    let approvals: Vec<Value> = waiting.iter().map(|waiting| show(&app, waiting)).collect();
    Ok(view::ok(&json!({"approvals": approvals, "next": next})))
}

async fn get(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    name: PathName,
) -> Result<Response, Problem> {
    let found = app.approvals.get(&who.tenant, name.id("approval")?).await?;
    let found = found.ok_or_else(|| Problem::not_found("approval"))?;
    Ok(view::ok(&show(&app, &found)))
}

/// A verdict.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VerdictBody {
    /// Whether the call may run.
    approved: bool,
    /// Why; the model reads it where the call is refused.
    #[serde(default)]
    comment: Option<String>,
    /// In whose name, or what else should be remembered. Nobody checks it: who
    /// decided is whose key it was.
    #[serde(default, alias = "by")]
    note: Option<String>,
    /// The fingerprint of what the person saw: where it is not that of the call,
    /// nothing is decided.
    #[serde(default)]
    fingerprint: Option<String>,
}

async fn decide(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    name: PathName,
    JsonBody(body): JsonBody<VerdictBody>,
) -> Result<Response, Problem> {
    app.refuse_while_draining()?;
    let id: CallId = name.id("approval")?;
    let found = app.approvals.get(&who.tenant, id).await?;
    let found = found.ok_or_else(|| Problem::not_found("approval"))?;
    if body.fingerprint.is_some_and(|seen| seen != found.call.fingerprint) {
        return Err(Problem::conflict("this is not the call that was shown"));
    }
    if body.approved && app.settings.four_eyes && has_asked(&who, &found.call) {
        let why = "whoever asked for a call does not approve it";
        return Err(Problem::new(StatusCode::FORBIDDEN, "four_eyes", why)
            .hint("someone else has to approve it with their own key; you may deny it"));
    }
    let verdict = Verdict {
        approved: body.approved,
        by: Some(who.name.to_string()),
        key_id: Some(who.key_id.to_string()),
        note: body.note,
        comment: body.comment,
    };
    let decided = app.approvals.decide(&app.engine, &who.tenant, id, verdict).await?;
    let decided = decided.ok_or_else(|| Problem::conflict("somebody has decided already"))?;
    let mut response = view::answer(&app.finish(decided).await?, app.lang);
    response.extensions_mut().insert(AuditDetails(json!({"approved": body.approved})));
    Ok(response)
}

/// Whether it was they who asked for a call: with this key, or with another one of
/// the same person.
fn has_asked(who: &Identity, call: &SuspendedCall) -> bool {
    let same_key = call.begun_by.as_deref() == Some(&*who.key_id);
    same_key || who.bound_user().is_some_and(|own| call.caller.user.as_ref() == Some(own))
}

impl App {
    /// Finishes a decided call. It continues if the client that decided disconnects.
    async fn finish(&self, settled: SettledCall) -> Result<CallResult, Problem> {
        let (approvals, engine) = (Arc::clone(&self.approvals), self.engine.clone());
        let work = self.tasks.spawn(async move { approvals.finish(&engine, settled).await });
        work.await.map_err(|_| Problem::not_found("approval"))
    }

    /// Cancels a call that waits for an approval.
    /// Returns whether it still waited.
    pub(crate) async fn withdraw(&self, tenant: &TenantId, id: CallId) -> Result<bool, Problem> {
        match self.approvals.withdraw(&self.engine, tenant, id).await? {
            Some(settled) => self.finish(settled).await.map(|_| true),
            None => Ok(false),
        }
    }

    /// The same for all calls of a tenant that are chosen; returns how many.
    pub(crate) async fn withdraw_where(
        &self,
        tenant: &TenantId,
        chosen: impl Fn(&SuspendedCall) -> bool,
    ) -> Result<usize, Problem> {
        let (mut withdrawn, mut after) = (0, None);
        loop {
            let (page, next) =
                self.approvals.list(tenant, after.as_deref(), Limit::MAX.get()).await?;
            let fit = |waiting: &&PendingApproval| waiting.is_open() && chosen(&waiting.call);
            for waiting in page.iter().filter(fit) {
                withdrawn += usize::from(self.withdraw(tenant, waiting.call.id).await?);
            }
            after = next;
            if after.is_none() {
                return Ok(withdrawn);
            }
        }
    }
}

async fn rules(State(app): State<Arc<App>>, Authenticated(who): Authenticated) -> Response {
    view::ok(&*app.approvals.rules(&who.tenant))
}

async fn set_rules(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    JsonBody(rules): JsonBody<ApprovalRules>,
) -> Result<Response, Problem> {
    app.approvals.set_rules(&who.tenant, &rules).await?;
    Ok(view::ok(&rules))
}
