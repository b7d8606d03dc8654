//! The audit log over HTTP, and the middleware that writes it.

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
use crate::http::document::operation::RouteSpec;
use crate::http::front::extract::{Authenticated, QueryString};
use crate::http::front::failed_keys::{FailedKeyOutcome, peer};
use crate::http::front::problem::Problem;
use crate::state::audit::{Actor, AuditEntry, ChainReport, Happened};
use crate::state::identity::{Identity, Permission};
use windlass::TenantId;

/// How many entries are looked through for one page.
const LOOK_AT: usize = 10_000;
/// Entries in one read.
const PAGE: usize = 500;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/v1/audit", "list_audit", list)
            .may(
                Permission::ManageKeys,
                "Read the audit log: who changed keys, credentials, rules and tools, and who decided approvals",
            )
            .details(
                "Oldest first. Every entry has the hash of the previous one. Failed \
                 authentications are in the log of the tenant `default`, at most once a minute \
                 for each address. Denied requests of a key are sampled: a few entries a minute, \
                 and the next one says how many were left out. Admins of that tenant may read the \
                 log of another with `tenant_id`.",
            )
            .query::<AuditQuery>()
            .answer::<AuditPage>(200, "The entries"),
        RouteSpec::get("/v1/audit/verify", "verify_audit", verify)
            .may(Permission::ManageKeys, "Verify the hash chain of the audit log")
            .query::<AuditTenantQuery>()
            .answer::<ChainReport>(200, "The result of the verification"),
    ]
}

/// The tenant.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AuditTenantQuery {
    /// The tenant, if it is not that of the key.
    #[schemars(schema_with = "keys::tenant")]
    tenant_id: Option<String>,
}

/// Filters of the list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AuditQuery {
    /// The tenant, if it is not that of the key.
    #[schemars(schema_with = "keys::tenant")]
    tenant_id: Option<String>,
    /// Of this action, such as `create_key`.
    action: Option<String>,
    /// Of the bearer of this key.
    key_id: Option<String>,
    /// Maximum number of items; 100 by default.
    limit: Option<Limit>,
    /// The cursor: the `next` of the previous page.
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    after: Option<u64>,
}

/// A page of the audit log.
#[derive(Serialize, JsonSchema)]
struct AuditPage {
    entries: Vec<AuditEntry>,
    /// The cursor of the next page; none on the last page.
    next: Option<u64>,
}

async fn list(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    QueryString(query): QueryString<AuditQuery>,
) -> Result<Response, Problem> {
    let tenant = keys::owner(&who, query.tenant_id, "tenant_id")?;
    let limit = query.limit.unwrap_or_default().get();
    let fits = |entry: &AuditEntry| {
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
    Authenticated(who): Authenticated,
    QueryString(query): QueryString<AuditTenantQuery>,
) -> Result<Response, Problem> {
    let tenant = keys::owner(&who, query.tenant_id, "tenant_id")?;
    Ok(view::ok(&app.audit.verify(&tenant).await?))
}

/// Details for the audit log, as an extension of the response: no secrets.
#[derive(Clone)]
pub(crate) struct AuditDetails(pub(crate) Value);

/// What is audited: whatever changes what others may do, or what is kept.
pub(crate) fn is_audited(action: Permission, method: &Method) -> bool {
    let changes = matches!(
        action,
        Permission::Approve
            | Permission::WriteCredentials
            | Permission::WriteTools
            | Permission::ManageKeys
            | Permission::Administer
    );
    changes && *method != Method::GET
}

impl App {
    /// Counts a failed authentication; returns the error for the client.
    pub(crate) async fn failed_key(&self, refusal: Problem) -> Problem {
        let FailedKeyOutcome { wait, entry } = self.failed_keys.count(peer());
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

    /// Writes an audit entry.
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
        let details = answer.extensions().get::<AuditDetails>().map(|details| details.0.clone());
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
