//! Health endpoints: liveness, readiness and metrics; and the OpenAPI document.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::view;
use crate::http::app::App;
use crate::http::document::openapi;
use crate::http::document::operation::RouteSpec;
use crate::http::document::reference;
use crate::http::front::problem::LATER;
use crate::state::identity::Permission;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/healthz", "healthz", healthz)
            .open("Liveness: whether the process runs")
            .answer::<Health>(200, "It runs"),
        RouteSpec::get("/readyz", "readyz", readyz)
            .open("Readiness: whether the server accepts calls")
            .details(
                "Reads from and writes to the database; the result is cached for a second. A \
                 full disk, or a database file that was deleted or replaced, is 503 with the \
                 reason.",
            )
            .answer::<Health>(200, "It accepts calls")
            .answer::<Health>(503, "It shuts down, or cannot use its database"),
        RouteSpec::get("/metrics", "metrics", metrics)
            .may(Permission::Observe, "Metrics for Prometheus, over all tenants")
            .answer_as(200, "Metrics in the Prometheus text format", "text/plain", None),
        RouteSpec::get("/openapi.json", "openapi", document)
            .may(Permission::ReadTools, "The OpenAPI document")
            .answer::<BTreeMap<String, Value>>(200, "An OpenAPI 3.1 document"),
        RouteSpec::get("/docs", "docs", page)
            .may(Permission::ReadTools, "The API reference as a page")
            .details("A browser asks for a user name and a password: any name, and the API key.")
            .answer_as(200, "A page", "text/html", None),
    ]
}

/// The health of the server.
#[derive(Serialize, JsonSchema)]
struct Health {
    /// `ok`, `draining` or `database unavailable`.
    status: &'static str,
    /// Why the database cannot be used, without where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// How long it has been running, in seconds.
    uptime: u64,
    /// Its version.
    version: &'static str,
}

fn health(app: &App, status: &'static str, reason: Option<String>) -> Response {
    let code = match status {
        "ok" => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let version = env!("CARGO_PKG_VERSION");
    let health = Health { status, reason, uptime: app.started.elapsed().as_secs(), version };
    let mut response = view::with_status(code, &health);
    if code == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = HeaderValue::from(LATER.as_secs());
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

async fn healthz(State(app): State<Arc<App>>) -> Response {
    health(&app, "ok", None)
}

async fn readyz(State(app): State<Arc<App>>) -> Response {
    if app.draining.is_cancelled() {
        return health(&app, "draining", None);
    }
    match app.readiness.ask(&app.engine, &*app.documents).await {
        Ok(()) => health(&app, "ok", None),
        Err(error) => health(&app, "database unavailable", Some(without_places(error.message()))),
    }
}

/// Health is public, so its messages do not reveal where the database is.
fn without_places(message: &str) -> String {
    let word = |word| if str::contains(word, ['/', '\\']) { "…" } else { word };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let media = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    let writable = app.readiness.ask(&app.engine, &*app.documents).await.is_ok();
    ([(header::CONTENT_TYPE, media)], app.metrics.render(&app, writable)).into_response()
}

/// The description in both forms, made once.
#[derive(Clone)]
pub(crate) struct Documentation {
    document: Bytes,
    page: Bytes,
}

impl Documentation {
    pub(crate) fn new(rows: &[RouteSpec]) -> Self {
        let document = openapi::document(rows);
        let page = reference::page(&document).into();
        Self { document: document.to_string().into(), page }
    }
}

async fn document(Extension(documentation): Extension<Documentation>) -> Response {
    let media = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, media)], documentation.document).into_response()
}

async fn page(Extension(documentation): Extension<Documentation>) -> Response {
    let policy = HeaderValue::from_static(
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    );
    ([(header::CONTENT_SECURITY_POLICY, policy)], Html(documentation.page)).into_response()
}
