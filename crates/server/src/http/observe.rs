//! What is told about every request: a line in the log, and a span.
//!
//! Neither holds more of a request than its method, its route and how it was
//! answered: paths, queries and headers may hold what is nobody's business.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use windlass::{TenantId, TraceContext};

use super::app::App;
use crate::identity::Identity;
use crate::telemetry::{self, RequestSpan};

/// What a request to nowhere is called.
const NOWHERE: &str = "(no route)";

/// Who asked, left on an answer for those who tell about it.
#[derive(Clone)]
pub(crate) struct Asker {
    tenant: TenantId,
    key: String,
}

impl From<&Identity> for Asker {
    fn from(identity: &Identity) -> Self {
        Self { tenant: identity.tenant.clone(), key: identity.key_id.clone() }
    }
}

/// The route that a request met, left on an answer for the same.
#[derive(Clone)]
struct Route(MatchedPath);

/// Leaves the route of a request on its answer.
pub(crate) async fn note_route(request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    if let Some(matched) = matched {
        response.extensions_mut().insert(Route(matched));
    }
    response
}

/// Whether anybody wants to know; else a request costs nothing here.
pub(crate) fn is_told(app: &App) -> bool {
    app.tracer.is_some() || tracing::enabled!(tracing::Level::DEBUG)
}

/// A request under way.
pub(crate) struct Seen {
    began: Instant,
    method: Method,
    span: Option<RequestSpan>,
}

impl Seen {
    pub(crate) fn begin<B>(app: &App, request: &mut Request<B>) -> Self {
        Self {
            began: Instant::now(),
            method: request.method().clone(),
            span: app.tracer.as_ref().and_then(|tracer| tracer.begin(request.headers_mut())),
        }
    }

    /// Tells about a request that was answered.
    pub(crate) fn end(self, app: &App, response: &mut Response, id: Option<&HeaderValue>) {
        let asker = response.extensions_mut().remove::<Asker>();
        let matched = response.extensions_mut().remove::<Route>();
        let route: Arc<str> = matched.as_ref().map_or(NOWHERE, |it| it.0.as_str()).into();
        let status = response.status().as_u16();
        tracing::debug!(
            method = %self.method,
            route = &*route,
            status,
            ms = self.began.elapsed().as_secs_f64() * 1000.0,
            request_id = id.and_then(|id| id.to_str().ok()),
            key = asker.as_ref().map(|asker| asker.key.as_str()),
            tenant = asker.as_ref().map(|asker| asker.tenant.as_str()),
            "request"
        );
        if let (Some(tracer), Some(span)) = (&app.tracer, self.span) {
            let tenant = asker.map(|asker| asker.tenant);
            tracer.request(span.end(self.method, route, status, tenant));
        }
    }
}

impl App {
    /// Where in a trace the calls of a request belong.
    pub(crate) fn trace(&self, headers: &HeaderMap) -> Option<TraceContext> {
        let trace = telemetry::from_headers(headers)?;
        Some(if self.tracer.is_some() { trace.reported() } else { trace })
    }
}
