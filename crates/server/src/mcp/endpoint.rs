//! The protocol over HTTP: `/mcp` for all tools, `/mcp/PROVIDER` for those of one
//! provider under their own names.
//!
//! Both eras share an address. The older one has sessions; a session belongs to
//! the key that began it, and answers nobody else. Nothing else is kept between
//! requests: an address costs nothing, however many providers there are.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;
use tower::Service as _;
use windlass::{Error, ErrorKind, TenantId};

use super::plain;
use super::service::{Service, Shared};
use super::sessions::{MAX_SESSIONS, OwnSessions, Sessions};
use super::shares::Owner;
use super::who::{View, Who};
use crate::http::Problem;
use crate::state::identity::Identity;

const SESSION: &str = "mcp-session-id";
/// When to try again where all sessions of a key are in use.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The protocol's routes. Who asks has been checked before.
pub(crate) struct Endpoint {
    shared: Arc<Shared>,
    who: Who,
    config: StreamableHttpServerConfig,
    sessions: Arc<Sessions>,
    /// What is shown at `/mcp`.
    root: View,
}

/// The sessions that an endpoint keeps, and the largest message it takes.
pub(crate) struct EndpointLimits {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) max_body_bytes: usize,
}

impl Endpoint {
    /// The endpoint of a server that checks keys, names of hosts and origins of
    /// pages for all its routes.
    pub(crate) fn behind_keys(
        shared: Arc<Shared>,
        limits: EndpointLimits,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(limits.max_body_bytes);
        Self::new(shared, Who::Bearer, config, limits.sessions, View::All, stop)
    }

    /// The endpoint of a server for this machine alone: no keys, but no other
    /// names and no pages from elsewhere either.
    pub(crate) fn for_this_machine(
        shared: Arc<Shared>,
        root: View,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let pages = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
        let config = StreamableHttpServerConfig::default()
            .with_allowed_origins(pages)
            .enforce_origin_validation();
        let sessions = Sessions::new(MAX_SESSIONS);
        Self::new(shared, Who::Operator, config, sessions, root, stop)
    }

    fn new(
        shared: Arc<Shared>,
        who: Who,
        config: StreamableHttpServerConfig,
        sessions: Arc<Sessions>,
        root: View,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let config = config.with_json_response(true).with_cancellation_token(stop.child_token());
        Arc::new(Self { shared, who, config, sessions, root })
    }

    /// The routes.
    pub(crate) fn router<S: Clone + Send + Sync + 'static>(self: &Arc<Self>) -> Router<S> {
        Router::new()
            .route("/mcp", any(all))
            .route("/mcp/{provider}", any(one))
            .with_state(Arc::clone(self))
    }

    /// Answers a request. Sessions are kept to those who began them.
    async fn serve(&self, owner: Owner, view: View, request: Request) -> Response {
        let named = session_of(request.headers());
        if named.is_some_and(|session| !self.sessions.has(&owner, &view, session)) {
            // As if there were none: whose it is, is nobody's business.
            return (StatusCode::NOT_FOUND, "Session not found").into_response();
        }
        let request = match self.who {
            Who::Operator => request,
            Who::Bearer => {
                let service = Service::new(&self.shared, Who::Bearer, view.clone());
                match plain::answer(&service, request).await {
                    Ok(response) => return response,
                    Err(request) => request,
                }
            }
        };
        let sessions = OwnSessions::new(&self.sessions, owner, view.clone());
        let (shared, who) = (Arc::clone(&self.shared), self.who.clone());
        let factory = move || Ok(Service::new(&shared, who.clone(), view.clone()));
        let mut service =
            StreamableHttpService::new(factory, Arc::clone(&sessions), self.config.clone());
        let ends = request.method() == Method::DELETE;
        let mut response = match service.call(request).await {
            Ok(response) => response.map(Body::new),
            Err(never) => match never {},
        };
        if sessions.refused() {
            let why = "sessions of this key: all that it may have are in use";
            let full = Error::new(ErrorKind::QuotaExceeded, why).with_retry_after(RETRY_AFTER);
            return Problem::from(full).into_response();
        }
        if ends && response.status() == StatusCode::ACCEPTED {
            // The session has ended; clients take anything else for a doubt.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }

    fn knows(&self, tenant: &TenantId, provider: &str) -> bool {
        self.shared.engine.providers().get_for(tenant, provider).is_some()
    }
}

async fn all(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    let owner = owner_of(&request);
    endpoint.serve(owner, endpoint.root.clone(), request).await
}

async fn one(
    State(endpoint): State<Arc<Endpoint>>,
    Path(provider): Path<String>,
    request: Request,
) -> Response {
    let owner = owner_of(&request);
    let is_shown = match &endpoint.root {
        View::All => true,
        View::Provider(only) => *only == provider,
    };
    let known = is_shown && endpoint.knows(&owner.tenant, &provider);
    let view = View::Provider(provider);
    if !known {
        endpoint.sessions.end_view(&owner.tenant, &view);
        return (StatusCode::NOT_FOUND, "there is no such provider").into_response();
    }
    endpoint.serve(owner, view, request).await
}

/// Whose the sessions are that a request begins.
fn owner_of(request: &Request) -> Owner {
    match request.extensions().get::<Identity>() {
        Some(who) => Owner { tenant: who.tenant.clone(), key: Arc::clone(&who.key_id) },
        None => Owner { tenant: TenantId::default(), key: "operator".into() },
    }
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION)?.to_str().ok()
}
