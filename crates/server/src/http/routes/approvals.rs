//! Calls that wait for a person: look at them, decide, and the rules.

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

use super::audit::Details;
use super::page::{AfterId, Limit, PageQuery};
use super::view;
use crate::http::app::App;
use crate::http::document::operation::Operation;
use crate::http::document::shape::{self, RulesDoc};
use crate::http::front::extract::{Body, Name, Query, Who};
use crate::http::front::problem::Problem;
use crate::human::approvals::{Settled, Waiting};
use crate::state::identity::{Action, Identity};

pub(crate) fn rows() -> Vec<Operation> {
    let details = "The call runs under its own id, with exactly the arguments that were shown; \
                   nothing else of its batch runs again. A refusal is a result that the model \
                   can read. The first verdict counts.";
    vec![
        Operation::get("/v1/approvals", "list_approvals", list)
            .may(Action::ReadCalls, "List the calls that wait for a person")
            .query::<PageQuery<AfterId>>()
            .answer::<ApprovalsDoc>(200, "The calls, oldest first"),
        Operation::get("/v1/approvals/rules", "get_approval_rules", rules)
            .may(Action::ReadCalls, "The rules by which calls are allowed, denied or asked about")
            .answer::<RulesDoc>(200, "The rules"),
        Operation::put("/v1/approvals/rules", "set_approval_rules", set_rules)
            .may(Action::Approve, "Set the rules")
            .details(
                "`{\"rules\": [{\"tool\": \"delete_*\", \"then\": \"ask\"}], \"default\": \
                 \"allow\"}`. The first rule that fits decides; a rule may name `tool`, \
                 `provider`, `behaviour` and `arguments` (`{\"pointer\": \"/to\", \"matches\": \
                 \"@example\\\\.com$\"}`). The operator's rules, in windlass.yaml, come before these.",
            )
            .body::<RulesDoc>()
            .example(|| json!({"rules": [{"tool": "delete_*", "then": "ask"}], "default": "allow"}))
            .answer::<RulesDoc>(200, "The rules"),
        Operation::get("/v1/approvals/{call_id}", "get_approval", get)
            .may(Action::ReadCalls, "Get a call that waits for a person")
            .answer::<ApprovalDoc>(200, "The call"),
        Operation::post("/v1/approvals/{call_id}", "decide_approval", decide)
            .may(Action::Approve, "Approve or refuse a call that waits")
            .details(details)
            .body::<VerdictBody>()
            .example(verdict_example)
            .answer::<ResultView<'static>>(200, "The result of the call"),
        Operation::post("/v1/calls/{call_id}/resume", "resume_call", decide)
            .may(Action::Approve, "Resume a suspended call: the same as deciding its approval")
            .details(details)
            .body::<VerdictBody>()
            .example(verdict_example)
            .answer::<ResultView<'static>>(200, "The result of the call"),
    ]
}

fn verdict_example() -> Value {
    json!({"approved": false, "comment": "ask the customer first"})
}

/// A page of calls that wait for a person.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ApprovalPage")]
struct ApprovalsDoc {
    /// The calls, oldest first.
    approvals: Vec<ApprovalDoc>,
    /// Where the next page begins; none on the last.
    next: Option<String>,
}

/// A call that waits for a person.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Approval")]
struct ApprovalDoc {
    #[schemars(schema_with = "shape::id")]
    call_id: String,
    /// The id that the model gave the call.
    call_ref: Option<String>,
    /// The batch that it belongs to; the others of it do not wait.
    #[schemars(schema_with = "shape::maybe_id")]
    batch_id: Option<String>,
    tool_name: String,
    /// Exactly what it would run with.
    arguments: Value,
    /// What stands for the tool, the arguments and the person.
    fingerprint: String,
    /// Why a person is asked.
    reason: String,
    /// Who called.
    caller: Caller,
    /// When the call came.
    #[schemars(schema_with = "shape::time")]
    created_at: String,
    /// When it is refused because nobody decided.
    #[schemars(schema_with = "shape::time")]
    expires_at: String,
    /// `waiting`, `decided` while it runs, or `cancelled`.
    status: String,
    /// What was decided.
    verdict: Option<Verdict>,
}

fn show(app: &App, waiting: &Waiting) -> Value {
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
        "expires_at": app.desk.waits_until(call),
        "status": status(waiting),
        "verdict": waiting.verdict,
    })
}

fn status(waiting: &Waiting) -> &'static str {
    match &waiting.verdict {
        Some(_) => "decided",
        None if waiting.withdrawn => "cancelled",
        None => "waiting",
    }
}

async fn list(
    State(app): State<Arc<App>>,
    Who(who): Who,
    Query(query): Query<PageQuery<AfterId>>,
) -> Result<Response, Problem> {
    let after = query.cursor.map(|AfterId(id)| id.to_string());
    let (waiting, next) = app.desk.list(&who.tenant, after.as_deref(), query.limit()).await?;
    let approvals: Vec<Value> = waiting.iter().map(|waiting| show(&app, waiting)).collect();
    Ok(view::ok(&json!({"approvals": approvals, "next": next})))
}

async fn get(State(app): State<Arc<App>>, Who(who): Who, name: Name) -> Result<Response, Problem> {
    let found = app.desk.get(&who.tenant, name.id("approval")?).await?;
    let found = found.ok_or_else(|| Problem::not_found("approval"))?;
    Ok(view::ok(&show(&app, &found)))
}

/// What a person says.
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
    Who(who): Who,
    name: Name,
    Body(body): Body<VerdictBody>,
) -> Result<Response, Problem> {
    app.refuse_while_draining()?;
    let id: CallId = name.id("approval")?;
    let found = app.desk.get(&who.tenant, id).await?;
    let found = found.ok_or_else(|| Problem::not_found("approval"))?;
    if body.fingerprint.is_some_and(|seen| seen != found.call.fingerprint) {
        return Err(Problem::conflict("this is not the call that was shown"));
    }
    if body.approved && app.settings.four_eyes && has_asked(&who, &found.call) {
        let why = "whoever asked for a call does not approve it";
        return Err(Problem::new(StatusCode::FORBIDDEN, "four_eyes", why)
            .hint("somebody else approves it, with a key of their own; you may refuse it"));
    }
    let verdict = Verdict {
        approved: body.approved,
        by: Some(who.name.to_string()),
        key_id: Some(who.key_id.to_string()),
        note: body.note,
        comment: body.comment,
    };
    let decided = app.desk.decide(&app.engine, &who.tenant, id, verdict).await?;
    let decided = decided.ok_or_else(|| Problem::conflict("somebody has decided already"))?;
    let mut response = view::answer(&app.finish(decided).await?, app.lang);
    response.extensions_mut().insert(Details(json!({"approved": body.approved})));
    Ok(response)
}

/// Whether it was they who asked for a call: with this key, or with another one of
/// the same person.
fn has_asked(who: &Identity, call: &SuspendedCall) -> bool {
    let same_key = call.begun_by.as_deref() == Some(&*who.key_id);
    same_key || who.bound_user().is_some_and(|own| call.caller.user.as_ref() == Some(own))
}

impl App {
    /// Ends a call as was decided. It goes on if whoever decided hangs up.
    async fn finish(&self, settled: Settled) -> Result<CallResult, Problem> {
        let (desk, engine) = (Arc::clone(&self.desk), self.engine.clone());
        let work = self.tasks.spawn(async move { desk.finish(&engine, settled).await });
        work.await.map_err(|_| Problem::not_found("approval"))
    }

    /// Ends a call that waits for a person, because nobody wants it any more.
    /// Returns whether it still waited.
    pub(crate) async fn withdraw(&self, tenant: &TenantId, id: CallId) -> Result<bool, Problem> {
        match self.desk.withdraw(&self.engine, tenant, id).await? {
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
            let (page, next) = self.desk.list(tenant, after.as_deref(), Limit::MAX.get()).await?;
            let fit = |waiting: &&Waiting| waiting.is_open() && chosen(&waiting.call);
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

async fn rules(State(app): State<Arc<App>>, Who(who): Who) -> Response {
    view::ok(&*app.desk.rules(&who.tenant))
}

async fn set_rules(
    State(app): State<Arc<App>>,
    Who(who): Who,
    Body(rules): Body<ApprovalRules>,
) -> Result<Response, Problem> {
    app.desk.set_rules(&who.tenant, &rules).await?;
    Ok(view::ok(&rules))
}
