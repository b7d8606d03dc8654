//! Quotas as a tenant and a key see them: what there is, what is used, and when
//! it ends.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use windlass::{CallQuota, QuotaScope, QuotaUse};

use super::app::App;
use super::extract::Who;
use super::operation::Operation;
use super::problem::Problem;
use super::view;
use crate::identity::{Action, Identity};
use crate::quota::Live;

pub(crate) fn rows() -> Vec<Operation> {
    vec![
        Operation::get("/v1/quotas", "get_quotas", show)
            .may(Action::ReadCalls, "The quotas of the tenant and of this key")
            .details(
                "Over a quota, requests and calls fail with `quota_exceeded`. Those of a minute \
                 and of a day end with it, in UTC; the others end when something is given up. \
                 What goes on and what is called in a minute is counted by each server for \
                 itself, a day by all of them together. `windlass.yaml` sets them under `quotas`.",
            )
            .answer::<QuotasDoc>(200, "The quotas"),
    ]
}

/// All quotas of whoever asks.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Quotas")]
struct QuotasDoc {
    quotas: Vec<QuotaDoc>,
}

/// A quota.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Quota")]
struct QuotaDoc {
    /// What is limited: `tools`, `calls_per_day` and so on.
    name: &'static str,
    /// Whose it is: `tenant` or `key`.
    scope: &'static str,
    /// How much there may be; null where there is no limit.
    limit: Option<f64>,
    /// How much there is.
    used: f64,
    /// When it ends by itself; null where something has to be given up.
    #[schemars(schema_with = "maybe_time")]
    ends_at: Option<Timestamp>,
}

fn maybe_time(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": ["string", "null"], "format": "date-time"})
}

async fn show(State(app): State<Arc<App>>, Who(who): Who) -> Result<Response, Problem> {
    let mut quotas = stored(&app, &who).await?;
    quotas.extend(live(&app, &who));
    quotas.extend(calls(&app, &who));
    Ok(view::ok(&QuotasDoc { quotas }))
}

async fn stored(app: &App, who: &Identity) -> Result<Vec<QuotaDoc>, Problem> {
    let (tenant, documents) = (&who.tenant, &*app.documents);
    let (quotas, settings) = (&app.quotas, &app.quotas.settings);
    let files = quotas.files_of(documents, tenant).await?;
    let count = async |space| Ok::<_, Problem>(documents.size_of(space, tenant).await?.count);
    let all = [
        ("tools", settings.tools, app.engine.registry().owned_by(tenant).len() as u64),
        ("providers", settings.providers, count(super::providers::SPACE).await?),
        (
            "document_bytes",
            settings.document_bytes,
            quotas.document_bytes(documents, tenant).await?,
        ),
        ("files", settings.files, files.count),
        ("file_bytes", settings.file_bytes, files.bytes),
        ("credentials", settings.credentials, count(crate::quota::CREDENTIALS).await?),
        ("approvals", settings.approvals, count(crate::quota::APPROVALS).await?),
    ];
    Ok(all
        .into_iter()
        .map(|(name, limit, used)| quota(name, "tenant", Some(limit), used))
        .collect())
}

fn live(app: &App, who: &Identity) -> Vec<QuotaDoc> {
    let quotas = &app.quotas;
    let one = |what: Live| {
        let (of_tenant, of_key) = quotas.live(what, who);
        [
            quota(what.name(), "tenant", Some(quotas.most(what)), of_tenant),
            quota(what.name(), "key", quotas.most_of_key(what), of_key),
        ]
    };
    let [of_tenant, of_key] = app.sessions.counts(who);
    let session = |scope, (used, most): (usize, usize)| {
        quota("sessions", scope, Some(most as u64), used as u64)
    };
    let sessions = [session("tenant", of_tenant), session("key", of_key)];
    Live::ALL.into_iter().flat_map(one).chain(sessions).collect()
}

fn calls(app: &App, who: &Identity) -> Vec<QuotaDoc> {
    let limits = app.quotas.settings.calls();
    let scopes = [
        ("tenant", limits.tenant, QuotaScope::Tenant),
        ("key", limits.key, QuotaScope::Key(&who.key_id)),
    ];
    scopes
        .into_iter()
        .flat_map(|(scope, limit, of)| {
            of_calls(scope, limit, app.engine.quota_use(&who.tenant, of))
        })
        .collect()
}

fn of_calls(scope: &'static str, limit: CallQuota, used: QuotaUse) -> [QuotaDoc; 3] {
    let ends = |length: i64| {
        let now = Timestamp::now().as_second();
        Timestamp::from_second((now / length + 1) * length).ok()
    };
    let cost = QuotaDoc {
        name: "cost_per_day",
        scope,
        limit: limit.cost_per_day,
        used: used.cost,
        ends_at: ends(24 * 60 * 60),
    };
    [
        QuotaDoc {
            ends_at: ends(60),
            ..quota("calls_per_minute", scope, limit.per_minute, used.in_minute)
        },
        QuotaDoc {
            ends_at: cost.ends_at,
            ..quota("calls_per_day", scope, limit.per_day, used.in_day)
        },
        cost,
    ]
}

fn quota(name: &'static str, scope: &'static str, limit: Option<u64>, used: u64) -> QuotaDoc {
    let (limit, used) = (limit.map(|limit| limit as f64), used as f64);
    QuotaDoc { name, scope, limit, used, ends_at: None }
}
