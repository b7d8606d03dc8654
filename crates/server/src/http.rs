//! The HTTP API.
//!
//! ```text
//! connection ─ listen ─ front ─► limits, names, origins ─ auth ─► a row of the table ─► Engine
//!                                                                      │
//!                                            openapi ◄─ operation ─────┘
//! ```

mod agents;
mod app;
mod approvals;
mod audit;
mod auth;
mod background;
mod batches;
mod calls;
mod cancel;
mod connections;
mod context;
mod credentials;
mod definitions;
mod event_id;
mod events;
mod extract;
mod failed_keys;
mod files;
mod front;
mod health;
mod hub;
mod imports;
mod kept;
mod keys;
mod lapse;
mod listen;
mod mcp;
mod members;
mod metrics;
mod oauth;
mod observe;
mod openapi;
mod operate;
mod operation;
mod own_tools;
mod page;
mod problem;
mod providers;
mod questions;
mod quotas;
mod readiness;
mod recovery;
mod reference;
mod refusals;
#[expect(dead_code, reason = "it only describes what others write")]
mod shape;
mod slots;
mod stream;
mod tools;
mod traffic;
mod turns;
mod view;

use std::sync::Arc;

use axum::Extension;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass::Error;
use windlass_store::Change;

pub(crate) use app::{App, HttpSettings};
pub(crate) use event_id::EventIds;
pub(crate) use failed_keys::FailedKeys;
pub(crate) use files::Links;
use front::Front;
use health::Documentation;
pub(crate) use hub::Hub;
pub(crate) use listen::{Listener, Tls};
pub(crate) use members::Members;
pub(crate) use metrics::Metrics;
use operation::{Operation, tagged};
pub(crate) use problem::Problem;
pub(crate) use readiness::Readiness;
pub(crate) use refusals::Refusals;

/// All routes.
fn rows() -> Vec<Operation> {
    tagged("tools", tools::rows())
        .chain(tagged("tools", definitions::rows()))
        .chain(tagged("tools", own_tools::rows()))
        .chain(tagged("providers", providers::rows()))
        .chain(tagged("providers", imports::rows()))
        .chain(tagged("credentials", oauth::rows()))
        .chain(tagged("credentials", credentials::rows()))
        .chain(tagged("calls", calls::rows()))
        .chain(tagged("calls", cancel::rows()))
        .chain(tagged("calls", questions::rows()))
        .chain(tagged("batches", batches::rows()))
        .chain(tagged("turns", turns::rows()))
        .chain(tagged("agents", agents::rows()))
        .chain(tagged("approvals", approvals::rows()))
        .chain(tagged("operation", operate::rows()))
        .chain(tagged("operation", quotas::rows()))
        .chain(tagged("events", events::rows()))
        .chain(tagged("files", files::rows()))
        .chain(tagged("keys", keys::rows()))
        .chain(tagged("audit", audit::rows()))
        .chain(tagged("health", health::rows()))
        .collect()
}

/// Everything that the server answers.
pub(crate) fn front(app: &Arc<App>) -> Front {
    let rows = rows();
    let documentation = Documentation::new(&rows);
    let (health, rows) = rows.into_iter().partition(|row| row.tag == "health");
    // Only the rows that show it carry it along.
    let routes = operation::router(health)
        .layer(Extension(documentation))
        .merge(mcp::routes(app))
        .merge(operation::router(rows))
        .fallback(async || {
            Problem::not_found("route").hint("/openapi.json names all routes").into_response()
        })
        .method_not_allowed_fallback(async || {
            let why = "this route does not take this method";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", why)
                .hint("the header Allow names those that it takes")
                .into_response()
        })
        .with_state(Arc::clone(app));
    let routes = match observe::is_told(app) {
        true => routes.layer(from_fn_with_state(Arc::clone(app), observe::observe)),
        false => routes,
    };
    Front::new(Arc::clone(app), routes)
}

/// What has to be there before the first request.
pub(crate) async fn prepare(app: &Arc<App>) -> Result<(), Error> {
    kept::load_all(app).await?;
    app.desk.read_rules().await?;
    app.desk.look(&app.engine).await?;
    let (desk, engine, stop) = (Arc::clone(&app.desk), app.engine.clone(), app.draining.clone());
    tokio::spawn(async move { stop.run_until_cancelled(desk.look_after(&engine)).await });
    let (own, stop) = (Arc::clone(app), app.draining.clone());
    tokio::spawn(async move { stop.run_until_cancelled(background::look_after(&own)).await });
    Ok(())
}

/// Begins to keep events and to tell them, once those of servers that crashed
/// are recovered. What comes back ends when all have been written.
pub(crate) async fn follow(
    app: &Arc<App>,
    stop: CancellationToken,
) -> Result<JoinHandle<()>, Error> {
    app.hub.prepare().await?;
    // Where it fails, it is tried again soon.
    recovery::look(app).await;
    recovery::start(app);
    Ok(app.hub.start(&app.engine, app.members.own().cloned(), stop))
}

/// Does what other servers did, and what they ask for.
pub(crate) async fn heed(app: &App, change: &Change) {
    let cancelled = cancel::changed(app, change).await;
    let kept = kept::changed(app, change).await;
    let rules = app.desk.changed(change).await;
    if let Err(error) = cancelled.and(kept).and(rules) {
        tracing::warn!(%error, "a change of another server could not be read");
    }
    app.hub.changed(change).await;
}
