//! The HTTP API.
//!
//! ```text
//! connection ─ front ─► limits, hosts, origins ─ auth ─► a row of routes ─► Engine
//!                                                             │
//!                                        document ◄─ operation ┘
//! ```

mod app;
mod broker;
mod cluster;
mod document;
mod front;
pub(crate) mod key_quotas;
mod metrics;
mod readiness;
mod routes;

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
pub(crate) use broker::EventBroker;
pub(crate) use broker::event_id::EventIds;
pub(crate) use cluster::membership::Membership;
use cluster::{background, recovery, registrations};
use document::operation;
pub(crate) use front::failed_keys::FailedKeys;
pub(crate) use front::listen::{HttpListener, Tls};
pub(crate) use front::problem::Problem;
pub(crate) use front::refusals::Refusals;
use front::{Ingress, observe};
pub(crate) use metrics::Metrics;
pub(crate) use readiness::Readiness;
pub(crate) use routes::files::Links;
use routes::health::Documentation;
use routes::{cancel, mcp};

/// Everything that the server answers.
pub(crate) fn front(app: &Arc<App>) -> Ingress {
    let rows = routes::rows();
    let documentation = Documentation::new(&rows);
    let (health, rows) = rows.into_iter().partition(|row| row.tag == "health");
    // Only routes that need it carry it.
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
    Ingress::new(Arc::clone(app), routes)
}

/// What has to be there before the first request.
pub(crate) async fn prepare(app: &Arc<App>) -> Result<(), Error> {
    registrations::load_all(app).await?;
    key_quotas::read_all(app).await?;
    app.approvals.read_rules().await?;
    app.approvals.look(&app.engine).await?;
    let (approvals, engine, stop) =
        (Arc::clone(&app.approvals), app.engine.clone(), app.draining.clone());
    tokio::spawn(async move { stop.run_until_cancelled(approvals.look_after(&engine)).await });
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
    app.events.prepare().await?;
    // Retried soon if it fails.
    recovery::look(app).await;
    recovery::start(app);
    Ok(app.events.start(&app.engine, app.membership.own().cloned(), stop))
}

/// Does what other servers did, and what they ask for.
pub(crate) async fn heed(app: &App, change: &Change) {
    // First: whoever listens waits until its events are kept.
    app.events.changed(change).await;
    let cancelled = cancel::changed(app, change).await;
    let kept = registrations::changed(app, change).await;
    let rules = app.approvals.changed(change).await;
    let quotas = key_quotas::changed(app, change).await;
    if let Err(error) = cancelled.and(kept).and(rules).and(quotas) {
        tracing::warn!(%error, "a change of another server could not be read");
    }
}
