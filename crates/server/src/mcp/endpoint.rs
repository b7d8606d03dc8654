//! MCP over Streamable HTTP: `/mcp` for all tools, `/mcp/PROVIDER` for those of one
//! provider under their own names.
//!
//! The session-based and the stateless protocol share a path. A session belongs to
//! the key that began it. Nothing else is kept between requests.

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

use super::client::{ClientAuth, ServedTools};
use super::fast_path;
use super::service::{McpHandler, McpState};
use super::sessions::{MAX_SESSIONS, OwnSessions, Sessions};
use super::shares::ShareOwner;
use crate::http::Problem;
use crate::state::identity::Identity;

const SESSION: &str = "mcp-session-id";
/// When to try again where all sessions of a key are in use.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The routes of the protocol. Requests are already authenticated.
pub(crate) struct McpEndpoint {
    shared: Arc<McpState>,
    who: ClientAuth,
    config: StreamableHttpServerConfig,
    sessions: Arc<Sessions>,
    /// What is shown at `/mcp`.
    root: ServedTools,
}

/// The sessions that an endpoint keeps, and the largest message it takes.
pub(crate) struct EndpointLimits {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) max_body_bytes: usize,
}

impl McpEndpoint {
    /// The endpoint of a server that checks keys, names of hosts and origins of
    /// pages for all its routes.
    pub(crate) fn behind_keys(
        shared: Arc<McpState>,
        limits: EndpointLimits,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(limits.max_body_bytes);
        Self::new(shared, ClientAuth::Bearer, config, limits.sessions, ServedTools::All, stop)
    }

    /// The endpoint of a server for this machine alone: no keys, but no other
    /// names and no pages from elsewhere either.
    pub(crate) fn for_this_machine(
        shared: Arc<McpState>,
        root: ServedTools,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let pages = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
        let config = StreamableHttpServerConfig::default()
            .with_allowed_origins(pages)
            .enforce_origin_validation();
        let sessions = Sessions::new(MAX_SESSIONS);
        Self::new(shared, ClientAuth::Operator, config, sessions, root, stop)
    }

    fn new(
        shared: Arc<McpState>,
        who: ClientAuth,
        config: StreamableHttpServerConfig,
        sessions: Arc<Sessions>,
        root: ServedTools,
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
    async fn serve(&self, owner: ShareOwner, view: ServedTools, request: Request) -> Response {
        let named = session_of(request.headers());
        if named.is_some_and(|session| !self.sessions.has(&owner, &view, session)) {
            // As if there were none: whose it is, is nobody's business.
            return (StatusCode::NOT_FOUND, "Session not found").into_response();
        }
        let request = match self.who {
            ClientAuth::Operator => request,
            ClientAuth::Bearer => {
                let service = McpHandler::new(&self.shared, ClientAuth::Bearer, view.clone());
                match fast_path::answer(&service, request).await {
                    Ok(response) => return response,
                    Err(request) => request,
                }
            }
        };
        let sessions = OwnSessions::new(&self.sessions, owner, view.clone());
        let (shared, who) = (Arc::clone(&self.shared), self.who.clone());
        let factory = move || Ok(McpHandler::new(&shared, who.clone(), view.clone()));
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

async fn all(State(endpoint): State<Arc<McpEndpoint>>, request: Request) -> Response {
    let owner = owner_of(&request);
    endpoint.serve(owner, endpoint.root.clone(), request).await
}

async fn one(
    State(endpoint): State<Arc<McpEndpoint>>,
    Path(provider): Path<String>,
    request: Request,
) -> Response {
    let owner = owner_of(&request);
    let is_shown = match &endpoint.root {
        ServedTools::All => true,
        ServedTools::Provider(only) => *only == provider,
    };
    let known = is_shown && endpoint.knows(&owner.tenant, &provider);
    let view = ServedTools::Provider(provider);
    if !known {
        endpoint.sessions.end_view(&owner.tenant, &view);
        return (StatusCode::NOT_FOUND, "there is no such provider").into_response();
    }
    endpoint.serve(owner, view, request).await
}

/// Whose the sessions are that a request begins.
fn owner_of(request: &Request) -> ShareOwner {
    match request.extensions().get::<Identity>() {
        Some(who) => ShareOwner { tenant: who.tenant.clone(), key: Arc::clone(&who.key_id) },
        None => ShareOwner { tenant: TenantId::default(), key: "operator".into() },
    }
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION)?.to_str().ok()
}
