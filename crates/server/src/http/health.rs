//! What machines ask: whether the server lives, may be sent requests, and how
//! it does; and the API's own description.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::app::App;
use super::openapi;
use super::operation::Operation;
use super::reference;
use super::view;
use crate::identity::Action;

/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn rows() -> Vec<Operation> {
    vec![
        Operation::get("/healthz", "healthz", healthz)
            .open("Whether the process lives")
            .answer::<Health>(200, "It lives"),
        Operation::get("/readyz", "readyz", readyz)
            .open("Whether the server takes calls")
            .answer::<Health>(200, "It does")
            .answer::<Health>(503, "It ends, or cannot use its database"),
        Operation::get("/metrics", "metrics", metrics)
            .may(Action::Observe, "Counts for Prometheus, over all tenants")
            .answer_as(200, "Counts in Prometheus' text form", "text/plain", None),
        Operation::get("/openapi.json", "openapi", document)
            .may(Action::ReadTools, "This description, for machines")
            .answer::<BTreeMap<String, Value>>(200, "An OpenAPI 3.1 document"),
        Operation::get("/docs", "docs", page)
            .may(Action::ReadTools, "This description, for people")
            .details("A browser asks for a name and a password: any name, and the key.")
            .answer_as(200, "A page", "text/html", None),
    ]
}

/// How the server does.
#[derive(Serialize, JsonSchema)]
struct Health {
    /// `ok`, `draining` or `database unavailable`.
    status: &'static str,
    /// How long it has been running, in seconds.
    uptime: u64,
    /// Its version.
    version: &'static str,
}

fn health(app: &App, status: &'static str) -> Response {
    let code = match status {
        "ok" => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let version = env!("CARGO_PKG_VERSION");
    view::with_status(code, &Health { status, uptime: app.started.elapsed().as_secs(), version })
}

async fn healthz(State(app): State<Arc<App>>) -> Response {
    health(&app, "ok")
}

async fn readyz(State(app): State<Arc<App>>) -> Response {
    if app.draining.is_cancelled() {
        return health(&app, "draining");
    }
    let asked = tokio::time::timeout(PATIENCE, app.documents.event_range()).await;
    match asked {
        Ok(Ok(_)) => health(&app, "ok"),
        _ => health(&app, "database unavailable"),
    }
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let media = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, media)], app.metrics.render(&app.engine)).into_response()
}

/// The description in both forms, made once.
#[derive(Clone)]
pub(crate) struct Documentation {
    document: Bytes,
    page: Bytes,
}

impl Documentation {
    pub(crate) fn new(rows: &[Operation]) -> Self {
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
