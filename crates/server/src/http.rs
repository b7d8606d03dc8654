//! The HTTP API.
//!
//! ```text
//! connection ─ listen ─► limits, names, origins ─ auth ─► a row of the table ─► Engine
//!                                                              │
//!                                    openapi ◄─ operation ─────┘
//! ```

mod app;
mod approvals;
mod auth;
mod batches;
mod calls;
mod context;
mod credentials;
mod events;
mod extract;
mod files;
mod health;
mod hub;
mod keys;
mod listen;
mod mcp;
mod metrics;
mod openapi;
mod operate;
mod operation;
mod own_tools;
mod problem;
mod providers;
mod stream;
mod tools;
mod view;

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use windlass::{CallId, Error};
use windlass_store::Change;

pub(crate) use app::{App, HttpSettings};
pub(crate) use files::Links;
use health::Documentation;
pub(crate) use hub::Hub;
pub(crate) use listen::{Listener, Tls};
pub(crate) use metrics::{Counted, Metrics};
use operation::{Operation, tagged};
use problem::Problem;

/// Answers that are smaller are not worth it.
const COMPRESS_FROM: u64 = 1024;

/// All routes.
fn rows() -> Vec<Operation> {
    tagged("tools", tools::rows())
        .chain(tagged("tools", own_tools::rows()))
        .chain(tagged("providers", providers::rows()))
        .chain(tagged("credentials", credentials::rows()))
        .chain(tagged("calls", calls::rows()))
        .chain(tagged("batches", batches::rows()))
        .chain(tagged("approvals", approvals::rows()))
        .chain(tagged("operation", operate::rows()))
        .chain(tagged("events", events::rows()))
        .chain(tagged("files", files::rows()))
        .chain(tagged("keys", keys::rows()))
        .chain(tagged("health", health::rows()))
        .collect()
}

/// Everything that the server answers.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let rows = rows();
    let documentation = Documentation::new(&rows);
    let compress = SizeAbove::new(COMPRESS_FROM).and(NotForContentType::SSE);
    operation::router(rows, app)
        .layer(Extension(documentation))
        .merge(mcp::routes(app))
        .fallback(async || Problem::not_found("route").into_response())
        .method_not_allowed_fallback(async || {
            let why = "this route does not take this method";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", why).into_response()
        })
        .layer(DefaultBodyLimit::max(app.settings.max_body_bytes))
        .layer(CompressionLayer::new().compress_when(compress))
        .layer(from_fn_with_state(Arc::clone(app), auth::check_origin))
        .layer(from_fn(request_id))
        .with_state(Arc::clone(app))
}

/// What has to be there before the first request.
pub(crate) async fn prepare(app: &App) -> Result<(), Error> {
    providers::load_all(app).await?;
    own_tools::load_all(app).await?;
    app.desk.read_rules().await?;
    app.desk.finish_left(&app.engine).await
}

/// Does what other servers did, and what they ask for.
pub(crate) async fn heed(app: &App, change: &Change) {
    if change.space == calls::CANCELS
        && let Ok(id) = change.id.parse::<CallId>()
    {
        app.engine.cancel_call(&change.tenant, id);
    }
    let providers = providers::changed(app, change).await;
    let tools = own_tools::changed(app, change).await;
    let rules = app.desk.changed(change).await;
    if let Err(error) = providers.and(tools).and(rules) {
        tracing::warn!(%error, "a change of another server could not be read");
    }
    app.hub.changed(change).await;
}

/// Gives every answer the id of its request, so that people can talk about it.
async fn request_id(request: Request, next: Next) -> Response {
    let given = request.headers().get("x-request-id").filter(|id| id.len() <= 128).cloned();
    let mut response = next.run(request).await;
    let id = given.or_else(|| {
        let id = windlass::CallId::at(jiff::Timestamp::now()).to_string();
        axum::http::HeaderValue::from_str(&id).ok()
    });
    if let Some(id) = id {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}
