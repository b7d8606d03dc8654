//! The protocol over HTTP: `/mcp` for all tools, `/mcp/PROVIDER` for those of one
//! provider under their own names.
//!
//! Both eras share an address. The older one has sessions; a session belongs to
//! the key that began it, and answers nobody else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::plain;
use super::service::{Service, Shared};
use super::who::{View, Who};
use crate::identity::Identity;

/// How long a session may be silent.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// How many sessions and views are kept.
const MAX_SESSIONS: usize = 10_000;
const MAX_VIEWS: usize = 256;
const SESSION: &str = "mcp-session-id";

type Http = StreamableHttpService<Service, LocalSessionManager>;

/// The protocol's routes. Who asks has been checked before.
pub(crate) struct Endpoint {
    shared: Arc<Shared>,
    who: Who,
    config: StreamableHttpServerConfig,
    views: Mutex<HashMap<String, Http>>,
    owners: Mutex<HashMap<String, Owner>>,
}

/// Whose session it is.
struct Owner {
    key: String,
    used: Instant,
}

impl Endpoint {
    /// The endpoint of a server that checks keys, names of hosts and origins of
    /// pages for all its routes.
    pub(crate) fn behind_keys(
        shared: Arc<Shared>,
        max_body_bytes: usize,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(max_body_bytes);
        Self::new(shared, Who::Bearer, config, stop)
    }

    /// The endpoint of a server for this machine alone: no keys, but no other
    /// names and no pages from elsewhere either.
    pub(crate) fn for_this_machine(shared: Arc<Shared>, stop: &CancellationToken) -> Arc<Self> {
        let pages = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
        let config = StreamableHttpServerConfig::default()
            .with_allowed_origins(pages)
            .enforce_origin_validation();
        Self::new(shared, Who::Operator, config, stop)
    }

    fn new(
        shared: Arc<Shared>,
        who: Who,
        config: StreamableHttpServerConfig,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let config = config.with_json_response(true).with_cancellation_token(stop.child_token());
        let (views, owners) = (Mutex::default(), Mutex::default());
        Arc::new(Self { shared, who, config, views, owners })
    }

    /// The routes.
    pub(crate) fn router<S: Clone + Send + Sync + 'static>(self: &Arc<Self>) -> Router<S> {
        Router::new()
            .route("/mcp", any(all))
            .route("/mcp/{provider}", any(one))
            .with_state(Arc::clone(self))
    }

    /// The service of a view; the same for all requests, for it has sessions.
    fn service(&self, view: View) -> Option<Http> {
        let name = match &view {
            View::All => String::new(),
            View::Provider(name) => name.clone(),
        };
        let mut views = self.views.lock();
        if let Some(known) = views.get(&name) {
            return Some(known.clone());
        }
        if views.len() >= MAX_VIEWS {
            return None;
        }
        let mut sessions = LocalSessionManager::default();
        let mut config = SessionConfig::default();
        config.keep_alive = Some(IDLE);
        sessions.session_config = config;
        let (shared, who) = (Arc::clone(&self.shared), self.who.clone());
        let factory = move || Ok(Service::new(&shared, who.clone(), view.clone()));
        let service = StreamableHttpService::new(factory, Arc::new(sessions), self.config.clone());
        views.insert(name, service.clone());
        Some(service)
    }

    /// Answers a request. Sessions are kept to those who began them.
    async fn serve(&self, view: View, request: Request) -> Response {
        let key = request.extensions().get::<Identity>().map(|who| who.key_id.clone());
        let key = key.unwrap_or_default();
        let named = session_of(request.headers());
        if named.as_ref().is_some_and(|session| self.is_foreign(session, &key)) {
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
        let Some(mut service) = self.service(view) else {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        };
        let ends = request.method() == Method::DELETE;
        let mut response = match service.call(request).await {
            Ok(response) => response.map(Body::new),
            Err(never) => match never {},
        };
        if ends && response.status() == StatusCode::ACCEPTED {
            // The session has ended; clients take anything else for a doubt.
            *response.status_mut() = StatusCode::NO_CONTENT;
            named.iter().for_each(|session| drop(self.owners.lock().remove(session)));
        } else if let (None, Some(session)) = (named, session_of(response.headers())) {
            self.begun(session, &key);
        }
        response
    }

    /// Whether a session is somebody else's.
    fn is_foreign(&self, session: &str, key: &str) -> bool {
        let mut owners = self.owners.lock();
        match owners.get_mut(session) {
            Some(owner) if owner.key == key => {
                owner.used = Instant::now();
                false
            }
            Some(_) => true,
            None => false,
        }
    }

    fn begun(&self, session: String, key: &str) {
        let mut owners = self.owners.lock();
        if owners.len() >= MAX_SESSIONS {
            owners.retain(|_, owner| owner.used.elapsed() < IDLE);
        }
        owners.insert(session, Owner { key: key.to_owned(), used: Instant::now() });
    }
}

async fn all(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    endpoint.serve(View::All, request).await
}

async fn one(
    State(endpoint): State<Arc<Endpoint>>,
    Path(provider): Path<String>,
    request: Request,
) -> Response {
    // A view is made for a provider that there is, not for every name.
    let known = match request.extensions().get::<Identity>() {
        Some(who) => endpoint.knows(&who.tenant, &provider),
        None => endpoint.knows(&windlass::TenantId::default(), &provider),
    };
    if !known {
        return (StatusCode::NOT_FOUND, "there is no such provider").into_response();
    }
    endpoint.serve(View::Provider(provider), request).await
}

impl Endpoint {
    fn knows(&self, tenant: &windlass::TenantId, provider: &str) -> bool {
        self.shared.engine.providers().get_for(tenant, provider).is_some()
    }
}

fn session_of(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION)?.to_str().ok().map(str::to_owned)
}
