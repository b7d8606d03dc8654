//! Mounts the Model Context Protocol beside the API: the same keys, and a word
//! to clients without one about where to get one.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use super::app::App;
use super::auth::{self, Gate};
use super::view;
use crate::identity::Action;
use crate::mcp::{Endpoint, MAX_TOOLS, Shared};

const METADATA: &str = "/.well-known/oauth-protected-resource";

/// The routes.
pub(super) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let servers = Some(Arc::clone(&app.servers));
    let shared = Shared::new(app.engine.clone(), servers, app.lang, MAX_TOOLS);
    let endpoint = Endpoint::behind_keys(shared, app.settings.max_body_bytes, &app.draining);
    let gate = Gate { app: Arc::clone(app), action: Action::ReadTools };
    endpoint
        .router()
        .layer(from_fn_with_state(gate, auth::check_bearer))
        .layer(from_fn_with_state(Arc::clone(app), point_out))
        .route(METADATA, get(metadata))
        .route(&format!("{METADATA}/mcp"), get(metadata))
}

/// Where this server is, as whoever asks knows it.
fn base(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let proto = headers.get("x-forwarded-proto").and_then(|proto| proto.to_str().ok());
    format!("{}://{}", proto.unwrap_or("http"), host.unwrap_or("localhost"))
}

/// Tells clients without a key where it is said how to get one (RFC 9728).
async fn point_out(State(_): State<Arc<App>>, request: Request, next: Next) -> Response {
    let place = format!("{}{METADATA}/mcp", base(request.headers()));
    let mut response = next.run(request).await;
    if response.status() == StatusCode::UNAUTHORIZED
        && let Ok(value) = HeaderValue::from_str(&format!("Bearer resource_metadata=\"{place}\""))
    {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
    }
    response
}

async fn metadata(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let mut about = json!({
        "resource": format!("{}/mcp", base(&headers)),
        "resource_name": "windlass",
        "bearer_methods_supported": ["header"],
    });
    if let Some(bearers) = &app.bearers {
        about["resource"] = bearers.audience().into();
        about["authorization_servers"] = json!([bearers.issuer()]);
    }
    view::ok(&about).into_response()
}
