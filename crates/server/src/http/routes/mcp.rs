//! Mounts the Model Context Protocol beside the API: the same keys, and a
//! `WWW-Authenticate` challenge that tells clients without a token where to get one.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use super::view;
use crate::http::app::App;
use crate::http::front::auth;
use crate::mcp::{EndpointLimits, MAX_TOOLS, McpEndpoint, McpState};
use crate::state::identity::Permission;

const METADATA: &str = "/.well-known/oauth-protected-resource";

/// The routes.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let servers = Some(Arc::clone(&app.servers));
    let questions = Arc::clone(&app.questions);
    let prerequisites = app.prerequisites.clone();
    let shared = McpState::new(
        app.engine.clone(),
        servers,
        questions,
        app.lang,
        MAX_TOOLS,
        Some(prerequisites),
        app.tracer.clone(),
    );
    let limits = EndpointLimits {
        sessions: Arc::clone(&app.sessions),
        max_body_bytes: app.settings.max_body_bytes,
    };
    let endpoint = McpEndpoint::behind_keys(shared, limits, &app.draining);
    endpoint
        .router()
        .layer(from_fn_with_state(Arc::clone(app), enter))
        .route(METADATA, get(metadata))
        .route(&format!("{METADATA}/mcp"), get(metadata))
}

/// Where this server is, as whoever asks knows it.
fn base(host: Option<&HeaderValue>, proto: Option<&HeaderValue>) -> String {
    let text = |header: Option<&HeaderValue>| header?.to_str().ok().map(str::to_owned);
    let (host, proto) = (text(host), text(proto));
    let (host, proto) =
        (host.as_deref().unwrap_or("localhost"), proto.as_deref().unwrap_or("http"));
    format!("{proto}://{host}")
}

/// Lets in who has a key or a token, and tells others where it is said how to get
/// one (RFC 9728). One layer and not two: each costs every request something.
async fn enter(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (host, proto) = {
        let own = |name: &str| request.headers().get(name).cloned();
        (own("host"), own("x-forwarded-proto"))
    };
    let entered = auth::check_bearer(&app, Permission::ReadTools, request, next).await;
    let mut response = entered.into_response();
    if response.status() == StatusCode::UNAUTHORIZED {
        let place = format!("{}{METADATA}/mcp", base(host.as_ref(), proto.as_ref()));
        if let Ok(value) = HeaderValue::from_str(&format!("Bearer resource_metadata=\"{place}\"")) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
        }
    }
    response
}

async fn metadata(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let mut about = json!({
        "resource": format!("{}/mcp", base(headers.get("host"), headers.get("x-forwarded-proto"))),
        "resource_name": "windlass",
        "bearer_methods_supported": ["header"],
    });
    if let Some(bearers) = &app.bearers {
        about["resource"] = bearers.audience().into();
        about["authorization_servers"] = json!([bearers.issuer()]);
    }
    view::ok(&about).into_response()
}
