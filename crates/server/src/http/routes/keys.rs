//! API keys: create, list and revoke them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::{ErrorKind, TenantId};

use super::audit::AuditDetails;
use super::context::{DurationBody, check_name};
use super::page::{Limit, PageQuery, TextCursor};
use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape;
use crate::http::front::extract::{Authenticated, JsonBody, PathName, QueryString};
use crate::http::front::problem::Problem;
use crate::http::key_quotas;
use crate::state::identity::{
    ApiKey, Identity, KeyRequest, NewKey, Permission, Role, TENANT_NAME, TENANT_PATTERN, ToolView,
    UserBinding, is_tenant_name,
};
use crate::state::quota::NarrowQuotas;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/v1/keys", "list_keys", list)
            .may(Permission::ManageKeys, "List the API keys of the tenant")
            .details(OF_OTHERS)
            .query::<KeysQuery>()
            .answer::<KeysDoc>(200, "The keys, without their secrets"),
        RouteSpec::post("/v1/keys", "create_key", create)
            .may(Permission::ManageKeys, "Create an API key; its text is shown only once")
            .details(OF_OTHERS)
            .body::<KeyBody>()
            .example(|| json!({"name": "my agent", "role": "caller", "expires_in": "720h"}))
            .answer::<NewKeyDoc>(201, "The key"),
        RouteSpec::delete("/v1/keys/{key_id}", "revoke_key", revoke)
            .may(Permission::ManageKeys, "Revoke an API key; it stops working on all servers")
            .details(OF_OTHERS)
            .query::<KeyTenantQuery>()
            .answer::<KeyDoc>(200, "The key"),
        RouteSpec::post("/v1/keys/{key_id}/rotate", "rotate_key", rotate)
            .may(
                Permission::ManageKeys,
                "Rotate a key: it gets a new secret, and the old one stops working",
            )
            .details(OF_OTHERS)
            .query::<KeyTenantQuery>()
            .answer::<NewKeyDoc>(200, "The key"),
        RouteSpec::put("/v1/keys/{key_id}/quotas", "set_key_quotas", set_quotas)
            .may(
                Permission::ManageKeys,
                "Set the quotas of an API key; what is unset is that of all keys",
            )
            .details(
                "An empty body takes them away. Only admins of the tenant `default` set more than \
                 `quotas.per_key` of the settings. `GET /v1/quotas` with the key shows the result. \
                 Admins of the tenant `default` manage the keys of all tenants: `tenant_id` names \
                 the tenant.",
            )
            .query::<KeyTenantQuery>()
            .body::<NarrowQuotas>()
            .example(|| json!({"calls_per_day": 1000, "cost_per_day": 2.5}))
            .answer::<KeyDoc>(200, "The key"),
    ]
}

const OF_OTHERS: &str = "Admins of the tenant `default` manage the keys of all tenants: \
                         `tenant_id` names the tenant.";

/// The tenant.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KeyTenantQuery {
    /// The tenant, if it is not that of the key.
    #[schemars(schema_with = "tenant")]
    tenant_id: Option<String>,
}

/// Filters of the list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KeysQuery {
    /// The tenant, if it is not that of the key.
    #[schemars(schema_with = "tenant")]
    tenant_id: Option<String>,
    /// Maximum number of items; 100 by default.
    limit: Option<Limit>,
    /// The cursor: the `next` of the previous page.
    cursor: Option<TextCursor>,
}

/// A page of API keys.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KeyPage")]
struct KeysDoc {
    /// The keys, also those that do not work any more.
    keys: Vec<KeyDoc>,
    /// The cursor of the next page; none on the last page.
    next: Option<String>,
}

/// An API key, without its secret.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Key")]
struct KeyDoc {
    id: String,
    /// Whose it is.
    tenant: String,
    /// A description of the field.
    name: String,
    role: RoleName,
    /// The tools that it sees, over `/mcp` only; all if unset.
    tools: Option<Vec<String>>,
    /// The user on whose behalf it calls; `*` is any user that a request names.
    user: Option<String>,
    /// Its own quotas, in place of those of all keys; null if it has none.
    quotas: Option<NarrowQuotas>,
    /// How it begins.
    prefix: String,
    /// When it was created.
    #[schemars(schema_with = "shape::time")]
    created_at: String,
    /// When it was last rotated.
    #[schemars(schema_with = "shape::maybe_time")]
    rotated_at: Option<String>,
    /// When it expires.
    #[schemars(schema_with = "shape::maybe_time")]
    expires_at: Option<String>,
    /// When it was last used, accurate to a minute.
    #[schemars(schema_with = "shape::maybe_time")]
    last_used_at: Option<String>,
    /// When it was revoked.
    #[schemars(schema_with = "shape::maybe_time")]
    revoked_at: Option<String>,
}

/// A new API key.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NewKey")]
struct NewKeyDoc {
    /// The text of the key. It is shown only once.
    secret: String,
    /// What it belongs to.
    key: KeyDoc,
}

fn shown(new: &NewKey) -> Value {
    json!({"secret": new.text.expose(), "key": new.key})
}

async fn list(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    QueryString(query): QueryString<KeysQuery>,
) -> Result<Response, Problem> {
    let tenant = owner(&who, query.tenant_id, "tenant_id")?;
    let keys = app.keys.list(&tenant).await?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor };
    let page = page.cut(keys, |key| key.id.to_string());
    Ok(view::ok(&json!({"keys": page.items, "next": page.next})))
}

/// A key to create.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KeyBody {
    /// A description of the field.
    #[schemars(
        length(min = 1, max = 200),
        regex(pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")
    )]
    name: String,
    /// The role of the key.
    role: RoleName,
    /// Lifetime of the key: `12h`, `720h`; without one it does not expire.
    #[serde(default)]
    #[schemars(schema_with = "life")]
    expires_in: Option<DurationBody>,
    /// Which tools its bearer sees: names, in which `*` stands for anything. Such
    /// a key is for `/mcp` alone.
    #[serde(default)]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 200), regex(pattern = r"^[^\s\x00-\x1f\x7f-\x9f]+$"))
    )]
    tools: Vec<String>,
    /// On whose behalf its bearer calls: a person, or `*` for whomever a request
    /// names in `user_id`. Without it, callers call on nobody's behalf, operators
    /// and admins on anybody's.
    #[serde(default)]
    #[schemars(
        length(min = 1, max = 200),
        regex(pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")
    )]
    user_id: Option<String>,
    /// Its own quotas, in place of those of all keys.
    #[serde(default)]
    quotas: Option<NarrowQuotas>,
    /// The tenant, if it is not that of the key.
    #[serde(default)]
    #[schemars(schema_with = "tenant")]
    tenant_id: Option<String>,
}

fn life(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"anyOf": [
        {"type": "number", "minimum": 1, "maximum": 31_536_000},
        {"type": "string", "pattern": "^[1-9][0-9]{0,3}(s|m|h)$"},
        {"type": "null"},
    ]})
}

pub(crate) fn tenant(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": ["string", "null"], "pattern": TENANT_PATTERN,
    })
}

/// What the bearer of a key may do.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Role")]
enum RoleName {
    /// Looks at tools, calls and events.
    Viewer,
    /// Calls tools.
    Caller,
    /// Also keeps tools, providers and credentials in order, and approves calls.
    Operator,
    /// Also makes and revokes keys.
    Admin,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Viewer => Self::Viewer,
            RoleName::Caller => Self::Caller,
            RoleName::Operator => Self::Operator,
            RoleName::Admin => Self::Admin,
        }
    }
}

/// The tenant whose keys are meant. The tenant that the installation begins with is
/// whoever runs it. `place` is where the request names somebody.
pub(crate) fn owner(
    who: &Identity,
    wanted: Option<String>,
    place: &str,
) -> Result<TenantId, Problem> {
    match wanted {
        None => Ok(who.tenant.clone()),
        Some(wanted) if wanted == who.tenant.as_str() => Ok(who.tenant.clone()),
        Some(wanted) if !is_tenant_name(&wanted) => {
            Err(Problem::bad("a tenant is wrong").at(place, TENANT_NAME))
        }
        Some(wanted) if who.tenant == TenantId::default() => Ok(TenantId::new(wanted)),
        Some(_) => {
            let why = "only the tenant `default` keeps keys of other tenants";
            Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", why))
        }
    }
}

async fn create(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    JsonBody(body): JsonBody<KeyBody>,
) -> Result<Response, Problem> {
    let tenant = owner(&who, body.tenant_id, "/tenant_id")?;
    let expires_in = body.expires_in.map(|span| span.read("/expires_in")).transpose()?;
    if expires_in.is_some_and(|life| life < Duration::from_secs(1)) {
        return Err(Problem::bad("a time span is wrong").at("/expires_in", "at least 1s"));
    }
    let expires_at = expires_in.and_then(|span| Timestamp::now().checked_add(span).ok());
    let tools = ToolView::new(body.tools).map_err(|error| {
        Problem::bad("a view is wrong").at("/tools", error.message().to_owned())
    })?;
    check_name("/user_id", body.user_id.as_deref())?;
    let user = body.user_id.map(UserBinding::from);
    let quotas = body.quotas.filter(|quotas| *quotas != NarrowQuotas::default());
    check_quotas(&app, &who, &tenant, quotas.as_ref(), "/quotas")?;
    let (name, role) = (body.name, body.role.into());
    let request = KeyRequest { name, role, expires_at, tools, user, quotas };
    let new = app.keys.create(&tenant, request).await.map_err(|error| match error.kind() {
        ErrorKind::InvalidArguments => {
            Problem::bad("a name is wrong").at("/name", error.message().to_owned())
        }
        _ => error.into(),
    })?;
    key_quotas::heed(&app, &new.key);
    let mut response = view::with_status(StatusCode::CREATED, &shown(&new));
    response.extensions_mut().insert(about(&new.key));
    Ok(response)
}

fn missing(error: windlass::Error) -> Problem {
    match error.kind() {
        ErrorKind::StorageUnavailable | ErrorKind::Internal => error.into(),
        ErrorKind::Denied => Problem::conflict(error.message()).hint("POST /v1/keys makes one"),
        _ => Problem::not_found("key"),
    }
}

async fn revoke(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(id): PathName,
    QueryString(query): QueryString<KeyTenantQuery>,
) -> Result<Response, Problem> {
    let tenant = owner(&who, query.tenant_id, "tenant_id")?;
    let key = app.keys.revoke(&tenant, &id).await.map_err(missing)?;
    let mut response = view::ok(&key);
    response.extensions_mut().insert(about(&key));
    Ok(response)
}

async fn rotate(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(id): PathName,
    QueryString(query): QueryString<KeyTenantQuery>,
) -> Result<Response, Problem> {
    let tenant = owner(&who, query.tenant_id, "tenant_id")?;
    let new = app.keys.rotate(&tenant, &id).await.map_err(missing)?;
    let mut response = view::ok(&shown(&new));
    response.extensions_mut().insert(about(&new.key));
    Ok(response)
}

async fn set_quotas(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(id): PathName,
    QueryString(query): QueryString<KeyTenantQuery>,
    JsonBody(quotas): JsonBody<NarrowQuotas>,
) -> Result<Response, Problem> {
    let tenant = owner(&who, query.tenant_id, "tenant_id")?;
    let quotas = Some(quotas).filter(|quotas| *quotas != NarrowQuotas::default());
    check_quotas(&app, &who, &tenant, quotas.as_ref(), "")?;
    let key = app.keys.set_quotas(&tenant, &id, quotas).await.map_err(missing)?;
    key_quotas::heed(&app, &key);
    let mut response = view::ok(&key);
    response.extensions_mut().insert(about(&key));
    Ok(response)
}

/// Whether somebody may give a key these quotas: what the settings say of all keys binds
/// everybody but whoever runs the installation.
fn check_quotas(
    app: &App,
    who: &Identity,
    tenant: &TenantId,
    quotas: Option<&NarrowQuotas>,
    place: &str,
) -> Result<(), Problem> {
    let most = &app.quotas.of(tenant).per_key;
    let beyond = quotas.and_then(|quotas| quotas.beyond(most));
    match beyond.filter(|_| who.tenant != TenantId::default()) {
        None => Ok(()),
        Some(name) => {
            let why = "it is more than `quotas.per_key` of the settings";
            Err(Problem::bad("a quota is too high").at(format!("{place}/{name}"), why))
        }
    }
}

/// What the audit log says of a key.
fn about(key: &ApiKey) -> AuditDetails {
    AuditDetails(
        json!({"key_id": key.id, "tenant": key.tenant, "name": key.name, "role": key.role}),
    )
}
