//! Quotas of a tenant and of a key: the limit, the use, and when it resets.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use windlass::{CallQuota, QuotaScope, QuotaUse};

use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::front::extract::Authenticated;
use crate::http::front::problem::Problem;
use crate::state::identity::{Identity, Permission};
use crate::state::quota::{ConcurrentUse, QuotaHolder, StoredResource};

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/v1/quotas", "get_quotas", show)
            .may(Permission::ReadCalls, "Get the quotas of the tenant and of this key")
            .details(
                "Over a quota, requests and calls fail with `quota_exceeded`. Quotas of a \
                 minute and of a day reset with it (UTC); the others free up when something is \
                 deleted or ends. Concurrent use and calls per minute are counted by each \
                 server on its own, calls per day by all servers together. `windlass.yaml` \
                 sets them under `quotas`, those of one tenant under `quotas.tenants`; \
                 `PUT /v1/keys/{key_id}/quotas` sets those of one key.",
            )
            .answer::<QuotasDoc>(200, "The quotas"),
    ]
}

/// The quotas of the tenant and of the key.
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
    /// The holder of the quota: `tenant` or `key`.
    scope: &'static str,
    /// The limit; null if there is none.
    limit: Option<f64>,
    /// How much is used.
    used: f64,
    /// When it resets; null if it does not reset by itself.
    #[schemars(schema_with = "maybe_time")]
    ends_at: Option<Timestamp>,
}

fn maybe_time(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": ["string", "null"], "format": "date-time"})
}

async fn show(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
) -> Result<Response, Problem> {
    let mut quotas = stored(&app, &who).await?;
    quotas.extend(live(&app, &who));
    quotas.extend(calls(&app, &who));
    Ok(view::ok(&QuotasDoc { quotas }))
}

async fn stored(app: &App, who: &Identity) -> Result<Vec<QuotaDoc>, Problem> {
    let tenant = QuotaHolder::Tenant(&who.tenant);
    let key = QuotaHolder::Key { tenant: &who.tenant, key: &who.key_id };
    let mut all = Vec::new();
    for what in StoredResource::ALL {
        let used = used(app, who, what, None).await?;
        all.push(quota(what.name(), "tenant", app.quotas.most_stored(what, tenant), used));
        if what.is_counted_by_key() {
            let used = self::used(app, who, what, Some(&who.key_id)).await?;
            all.push(quota(what.name(), "key", app.quotas.most_stored(what, key), used));
        }
    }
    Ok(all)
}

/// What the tenant stores, or what this key has created.
async fn used(
    app: &App,
    who: &Identity,
    what: StoredResource,
    key: Option<&str>,
) -> Result<u64, Problem> {
    let (tenant, documents) = (&who.tenant, &*app.documents);
    Ok(match what {
        StoredResource::Tools => app.tools_made(tenant, key, None).await? as u64,
        StoredResource::Files | StoredResource::FileBytes => {
            let files = app.quotas.files_of(documents, tenant).await?;
            let files = key.map_or(files.all, |key| files.of_key(key));
            if what == StoredResource::Files { files.count } else { files.bytes }
        }
        _ => what.of(&app.quotas.kept(documents, what, tenant, key).await?),
    })
}

fn live(app: &App, who: &Identity) -> Vec<QuotaDoc> {
    let quotas = &app.quotas;
    let one = |what: ConcurrentUse| {
        let (of_tenant, of_key) = quotas.live(what, who);
        [
            quota(what.name(), "tenant", Some(quotas.most(what, &who.tenant)), of_tenant),
            quota(what.name(), "key", quotas.most_of_key(what, who), of_key),
        ]
    };
    let [of_tenant, of_key] = app.sessions.counts(who);
    let session = |scope, (used, most): (usize, usize)| {
        quota("sessions", scope, Some(most as u64), used as u64)
    };
    let sessions = [session("tenant", of_tenant), session("key", of_key)];
    ConcurrentUse::ALL.into_iter().flat_map(one).chain(sessions).collect()
}

fn calls(app: &App, who: &Identity) -> Vec<QuotaDoc> {
    let of_tenant = app.quotas.of(&who.tenant).calls().tenant;
    let of_key = app.quotas.of_key(&who.tenant, &who.key_id).calls();
    let scopes =
        [("tenant", of_tenant, QuotaScope::Tenant), ("key", of_key, QuotaScope::Key(&who.key_id))];
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
