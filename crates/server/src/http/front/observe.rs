//! Request telemetry: a log line and a span for each request.
//!
//! Neither has more of a request than its method, its route and its status: paths,
//! queries and headers may contain personal data.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::Response;
use windlass::{Context, TenantId, TraceContext};

use super::RequestId;
use crate::http::app::App;
use crate::state::identity::Identity;
use crate::telemetry::{self, RequestSpan};

/// What a request to nowhere is called.
const NOWHERE: &str = "(no route)";

/// The identity of the request, as an extension of the response for telemetry.
#[derive(Clone)]
pub(crate) struct Requester {
    tenant: TenantId,
    key: Arc<str>,
}

impl From<&Identity> for Requester {
    fn from(identity: &Identity) -> Self {
        Self { tenant: identity.tenant.clone(), key: Arc::clone(&identity.key_id) }
    }
}

/// Tells about a request.
pub(crate) async fn observe(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = request.extensions_mut().remove::<RequestId>();
    let seen = ObservedRequest::begin(&app, &mut request);
    let mut response = next.run(request).await;
    seen.end(&app, &mut response, id.as_ref());
    response
}

/// Whether anybody wants to know; else requests do not come by here.
pub(crate) fn is_told(app: &App) -> bool {
    app.tracer.is_some() || tracing::enabled!(tracing::Level::DEBUG)
}

/// A request under way.
struct ObservedRequest {
    began: Instant,
    method: Method,
    route: Arc<str>,
    span: Option<RequestSpan>,
}

impl ObservedRequest {
    fn begin(app: &App, request: &mut Request) -> Self {
        let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        Self {
            began: Instant::now(),
            method: request.method().clone(),
            route: matched.unwrap_or(NOWHERE).into(),
            span: app.tracer.as_ref().and_then(|tracer| tracer.begin(request.headers_mut())),
        }
    }

    fn end(self, app: &App, response: &mut Response, id: Option<&RequestId>) {
        let asker = response.extensions_mut().remove::<Requester>();
        let status = response.status().as_u16();
        tracing::debug!(
            method = %self.method,
            route = &*self.route,
            status,
            ms = self.began.elapsed().as_secs_f64() * 1000.0,
            request_id = id.and_then(|RequestId(id)| id.to_str().ok()),
            key = asker.as_ref().map(|asker| &*asker.key),
            tenant = asker.as_ref().map(|asker| asker.tenant.as_str()),
            "request"
        );
        if let (Some(tracer), Some(span)) = (&app.tracer, self.span) {
            let tenant = asker.map(|asker| asker.tenant);
            tracer.request(span.end(self.method, self.route, status, tenant));
        }
    }
}

impl App {
    /// Where in a trace the calls of a request belong.
    pub(crate) fn trace(&self, headers: &HeaderMap) -> Option<TraceContext> {
        let trace = telemetry::from_headers(headers)?;
        Some(if self.tracer.is_some() { trace.reported() } else { trace })
    }

    /// A context with the place in a trace that a request names.
    pub(crate) fn traced(&self, context: Context, headers: &HeaderMap) -> Context {
        match self.trace(headers) {
            Some(trace) => context.trace(trace),
            None => context,
        }
    }
}
