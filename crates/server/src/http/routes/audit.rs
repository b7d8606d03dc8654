//! The audit log over HTTP, and what is written to it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::page::Limit;
use super::{keys, view};
use crate::http::app::App;
use crate::http::document::operation::Operation;
use crate::http::front::extract::{Query, Who};
use crate::http::front::failed_keys::{Verdict, peer};
use crate::http::front::problem::Problem;
use crate::state::audit::{Actor, Checked, Entry, Happened};
use crate::state::identity::{Action, Identity};
use windlass::TenantId;

/// How many entries are looked through for one page.
const LOOK_AT: usize = 10_000;
/// Entries in one read.
const PAGE: usize = 500;

pub(crate) fn rows() -> Vec<Operation> {
    vec![
        Operation::get("/v1/audit", "list_audit", list)
            .may(Action::ManageKeys, "Who changed what: keys, credentials, rules, tools, approvals")
            .details(
                "Oldest first. Every entry holds the hash of the one before it. Keys that did not \
                 work are in the log of the tenant `default`, at most once a minute for each \
                 address. An admin of that tenant may name another with `tenant_id`.",
            )
            .query::<AuditQuery>()
            .answer::<AuditPage>(200, "The entries"),
        Operation::get("/v1/audit/verify", "verify_audit", verify)
            .may(Action::ManageKeys, "Whether the audit log is as it was written")
            .query::<TenantQuery>()
            .answer::<Checked>(200, "What was found"),
    ]
}

/// Whose log.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TenantQuery {
    /// Whose it is, if not the asker's own tenant's.
    #[schemars(schema_with = "keys::tenant")]
    tenant_id: Option<String>,
}

/// Which entries.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AuditQuery {
    /// Whose they are, if not the asker's own tenant's.
    #[schemars(schema_with = "keys::tenant")]
    tenant_id: Option<String>,
    /// Of this action, such as `create_key`.
    action: Option<String>,
    /// Of the bearer of this key.
    key_id: Option<String>,
    /// How many at the most; 100 if nobody says.
    limit: Option<Limit>,
    /// After the entry with this number: the `next` of the page before.
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    after: Option<u64>,
}

/// A page of the audit log.
#[derive(Serialize, JsonSchema)]
struct AuditPage {
    entries: Vec<Entry>,
    /// Where the next page begins; none on the last.
    next: Option<u64>,
}

async fn list(
    State(app): State<Arc<App>>,
    Who(who): Who,
    Query(query): Query<AuditQuery>,
) -> Result<Response, Problem> {
    let tenant = keys::owner(&who, query.tenant_id, "tenant_id")?;
    let limit = query.limit.unwrap_or_default().get();
    let fits = |entry: &Entry| {
        query.action.as_ref().is_none_or(|action| *action == entry.action)
            && (query.key_id.is_none() || query.key_id == entry.actor.key_id)
    };
    let mut entries = Vec::new();
    let (mut after, mut seen) = (query.after.unwrap_or_default(), 0);
    let next = loop {
        let read = app.audit.list(&tenant, after, PAGE).await?;
        let full = read.len() == PAGE;
        seen += read.len();
        for entry in read {
            after = entry.number;
            if fits(&entry) {
                entries.push(entry);
            }
            if entries.len() == limit {
                break;
            }
        }
        if entries.len() == limit || full && seen >= LOOK_AT {
            break Some(after);
        }
        if !full {
            break None;
        }
    };
    let next = match next {
        Some(next) if app.audit.list(&tenant, next, 1).await?.is_empty() => None,
        next => next,
    };
    Ok(view::ok(&AuditPage { entries, next }))
}

async fn verify(
    State(app): State<Arc<App>>,
    Who(who): Who,
    Query(query): Query<TenantQuery>,
) -> Result<Response, Problem> {
    let tenant = keys::owner(&who, query.tenant_id, "tenant_id")?;
    Ok(view::ok(&app.audit.verify(&tenant).await?))
}

/// More about what was done, left on an answer for the audit log: no secrets.
#[derive(Clone)]
pub(crate) struct Details(pub(crate) Value);

/// What is audited: whatever changes what others may do, or what is kept.
pub(crate) fn is_audited(action: Action, method: &Method) -> bool {
    let changes = matches!(
        action,
        Action::Approve
            | Action::WriteCredentials
            | Action::WriteTools
            | Action::ManageKeys
            | Action::Administer
    );
    changes && *method != Method::GET
}

impl App {
    /// Counts a key that does not work; returns why the bearer is turned away.
    pub(crate) async fn failed_key(&self, refusal: Problem) -> Problem {
        let Verdict { wait, entry } = self.failed_keys.count(peer());
        if let Some(count) = entry {
            let happened = Happened {
                actor: Actor::nobody(peer()),
                action: "failed_key".to_owned(),
                target: None,
                status: Some(401),
                details: Some(json!({"count": count})),
            };
            self.write_down(&TenantId::default(), happened).await;
        }
        match wait {
            None => refusal,
            Some(wait) => Problem::too_many_failed_keys(wait),
        }
    }

    /// Writes down what somebody did or tried.
    pub(crate) async fn write_down(&self, tenant: &TenantId, happened: Happened) {
        let action = happened.action.clone();
        if let Err(error) = self.audit.add(tenant, happened).await {
            tracing::error!(%error, action, "the audit log could not be written");
        }
    }
}

/// An operation that somebody performs.
pub(crate) struct Performed {
    pub(crate) who: Identity,
    pub(crate) name: &'static str,
    /// What of, without the query.
    pub(crate) path: String,
}

impl Performed {
    /// What the log says of it, once it has been answered.
    pub(crate) fn answered(self, answer: &Response) -> (TenantId, Happened) {
        let details = answer.extensions().get::<Details>().map(|details| details.0.clone());
        let happened = Happened {
            actor: Actor::key(&self.who, peer()),
            action: self.name.to_owned(),
            target: Some(self.path),
            status: Some(answer.status().as_u16()),
            details,
        };
        (self.who.tenant, happened)
    }
}
