//! Tools of a tenant: stored as the definitions that were sent, and loaded by every
//! server.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use windlass::{TenantId, Tool};
use windlass_store::{Document, Expect, Put};

use super::definitions::{self, DefinitionBody, example};
use super::tools::show;
use super::view;
use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::document::shape::ToolDoc;
use crate::http::front::extract::{Authenticated, JsonBody, PathName};
use crate::http::front::problem::Problem;
use crate::state::identity::{Identity, Permission};
use crate::state::quota::NewResource;

/// Where definitions are kept.
pub(crate) const SPACE: &str = "tools";
/// What their sources begin with.
const SOURCE: &str = "api/tools/";
/// The largest definition.
const MAX_BYTES: usize = 1024 * 1024;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::post("/v1/tools", "register_tool", register)
            .may(Permission::WriteTools, "Register a tool of the tenant's own")
            .details("Fails if the tenant has a tool of this name; PUT replaces it.")
            .body::<DefinitionBody>()
            .example(example)
            .answer::<ToolDoc>(201, "The tool"),
        RouteSpec::put("/v1/tools/{name}", "replace_tool", replace)
            .may(Permission::WriteTools, "Register or replace a tool")
            .body::<DefinitionBody>()
            .example(example)
            .answer::<ToolDoc>(200, "The tool"),
        RouteSpec::delete("/v1/tools/{name}", "delete_tool", delete)
            .may(Permission::WriteTools, "Delete a tool of the tenant's own; running calls finish")
            .answer_as(204, "Deleted", "", None),
    ]
}

/// A definition that was sent: exactly one tool.
struct SubmittedTool {
    name: String,
    text: String,
}

async fn read(
    app: &Arc<App>,
    tenant: &TenantId,
    body: &DefinitionBody,
) -> Result<SubmittedTool, Problem> {
    let text = body.text();
    if text.len() > MAX_BYTES {
        return Err(Problem::bad("the definition is too large").at("/definition", "at most 1 MiB"));
    }
    let parsed = definitions::check(app, tenant, text.clone()).await?.usable()?;
    if !(parsed.providers.is_empty() && parsed.imports.is_empty() && parsed.library.is_empty()) {
        let why = "there is more than a tool in it";
        return Err(Problem::bad("one tool at a time")
            .at("/definition", why)
            .hint("POST /v1/providers takes providers with their tools"));
    }
    match parsed.tools.as_slice() {
        [one] => Ok(SubmittedTool { name: one.spec.name.to_string(), text }),
        found => Err(Problem::bad("one tool at a time")
            .at("/definition", format!("there are {} tools in it", found.len()))),
    }
}

async fn register(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    JsonBody(body): JsonBody<DefinitionBody>,
) -> Result<Response, Problem> {
    let sent = read(&app, &who.tenant, &body).await?;
    let kept = keep(&app, &who, &sent, Expect::Absent).await?;
    if !kept {
        let why = format!("the tool `{}` is there already", sent.name);
        return Err(Problem::conflict(why).hint("replace it with PUT /v1/tools/{name}"));
    }
    let mut response = answer(&app, &who.tenant, &sent.name, StatusCode::CREATED)?;
    // A name may have slashes, and letters of any script.
    let name = utf8_percent_encode(&sent.name, NON_ALPHANUMERIC);
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/tools/{name}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

async fn replace(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(name): PathName,
    JsonBody(body): JsonBody<DefinitionBody>,
) -> Result<Response, Problem> {
    let sent = read(&app, &who.tenant, &body).await?;
    if sent.name != name {
        let why = format!("the definition is of `{}`, the path of `{name}`", sent.name);
        return Err(Problem::bad("two names").at("/definition/name", why));
    }
    keep(&app, &who, &sent, Expect::Anything).await?;
    answer(&app, &who.tenant, &sent.name, StatusCode::OK)
}

async fn delete(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    PathName(name): PathName,
) -> Result<Response, Problem> {
    if app.documents.delete(SPACE, &who.tenant, &name, Expect::Anything).await? {
        app.engine.unload_for(&who.tenant, &source(&name));
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    match app.tool_of(&who.tenant, &name) {
        Some(tool) => Err(Problem::conflict(format!("`{name}` comes from {}", tool.source()))
            .hint("only the tenant's own tools can be deleted here")),
        None => Err(Problem::not_found("tool")),
    }
}

/// Keeps a definition if it can be loaded; returns whether what was there was
/// expected.
async fn keep(
    app: &App,
    who: &Identity,
    sent: &SubmittedTool,
    expect: Expect,
) -> Result<bool, Problem> {
    let tenant = &who.tenant;
    let before = app.documents.get(SPACE, tenant, &sent.name).await?;
    if before.is_some() && expect == Expect::Absent {
        return Ok(false);
    }
    if let Some(other) = holder(app, tenant, &sent.name) {
        return Err(taken(&other));
    }
    let _turn = app.quotas.making(tenant, NewResource::Tools).await;
    let owner = match &before {
        Some(before) => before.owner.clone(),
        None => Some(who.key_id.to_string()),
    };
    app.allow_tools((tenant, owner.as_deref()), &source(&sent.name), 1).await?;
    if let Err(problem) = load(app, tenant, &sent.name, &sent.text) {
        restore(app, tenant, &sent.name, before);
        return Err(problem);
    }
    let body = json!({"definition": sent.text});
    let put = Put { owner, ..Put::new(SPACE, tenant.clone(), sent.name.clone(), body) };
    match app.documents.put(put, expect).await {
        Ok(Some(_)) => Ok(true),
        Ok(None) => {
            let now = app.documents.get(SPACE, tenant, &sent.name).await?;
            restore(app, tenant, &sent.name, now);
            Ok(false)
        }
        Err(error) => {
            restore(app, tenant, &sent.name, before);
            Err(error.into())
        }
    }
}

/// The tenant's tool of this name that came in another way, such as with a
/// provider.
fn holder(app: &App, tenant: &TenantId, name: &str) -> Option<Arc<Tool>> {
    let own = app.tool_of(tenant, name).filter(|tool| tool.owner() == Some(tenant));
    own.filter(|tool| tool.name().as_str() == name && **tool.source() != *source(name))
}

fn taken(tool: &Tool) -> Problem {
    let (name, provider) = (tool.name(), tool.spec().provider.as_deref());
    match provider {
        Some(provider) => Problem::conflict(format!(
            "`{name}` belongs to the provider `{provider}`"
        ))
        .hint(format!(
            "choose another name, or delete the provider with DELETE /v1/providers/{provider}"
        )),
        None => Problem::conflict(format!("`{name}` comes from {}", tool.source()))
            .hint("choose another name"),
    }
}

pub(crate) fn source(name: &str) -> String {
    format!("{SOURCE}{name}")
}

fn load(app: &App, tenant: &TenantId, name: &str, text: &str) -> Result<(), Problem> {
    definitions::load(app, tenant, &source(name), text)
}

/// Makes a tool what is kept of it.
pub(crate) fn restore(app: &App, tenant: &TenantId, name: &str, kept: Option<Document>) {
    match kept.and_then(|mut kept| Some(kept.body.get_mut("definition")?.take())) {
        Some(Value::String(text)) => {
            if let Err(problem) = load(app, tenant, name, &text) {
                let why = problem.detail();
                tracing::error!(%tenant, tool = name, why, "a kept definition cannot be loaded");
            }
        }
        // Only tools that were registered here: another source may own the name.
        _ => app.engine.unload_for(tenant, &source(name)),
    }
}

fn answer(
    app: &App,
    tenant: &TenantId,
    name: &str,
    status: StatusCode,
) -> Result<Response, Problem> {
    let tool = app.tool_of(tenant, name).ok_or_else(|| Problem::not_found("tool"))?;
    Ok(view::with_status(status, &show(&tool, app.lang)))
}
