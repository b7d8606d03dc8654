//! Fast path for `tools/call` of stateless clients that want no progress and support
//! no elicitation.
//!
//! It covers most calls, and needs neither a service nor a task: the message is
//! parsed once, the tool is called, the answer is written. Everything else, errors
//! included, takes the general path, which implements the whole protocol.

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rmcp::model::{ErrorCode, RequestId, ServerJsonRpcMessage, ServerResult};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use windlass::{CallRequest, CancellationToken};

use super::catalogue::declares_output;
use super::client::McpClient;
use super::handler::has_headers;
use super::mailbox::{self, Pause};
use super::reply;
use super::service::McpHandler;
use crate::state::identity::{Identity, Permission};

/// The version whose calls may be plain.
const VERSION: &str = "2026-07-28";
/// Larger messages are not worth a shorter way.
const MAX_BYTES: usize = 64 * 1024;

/// Answers a plain call. Any other request comes back as it was.
pub(super) async fn answer(service: &McpHandler, request: Request) -> Result<Response, Request> {
    if !may_be_plain(request.method(), request.headers()) {
        return Err(request);
    }
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, MAX_BYTES).await else {
        // It said that it would be small; whoever sent it is gone, or lies.
        return Ok(StatusCode::BAD_REQUEST.into_response());
    };
    match PlainCall::read(&parts, &bytes) {
        Some(plain) => match plain.run(service, &parts).await {
            Some(response) => Ok(response),
            None => Err(Request::from_parts(parts, Body::from(bytes))),
        },
        None => Err(Request::from_parts(parts, Body::from(bytes))),
    }
}

fn may_be_plain(method: &Method, headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let accepts = |form: &str| text(headers, "accept").is_some_and(|all| all.contains(form));
    method == Method::POST
        && text(headers, "mcp-protocol-version") == Some(VERSION)
        && text(headers, "mcp-method") == Some("tools/call")
        && length.and_then(|length| length.parse().ok()).is_some_and(|own: usize| own <= MAX_BYTES)
        && text(headers, "content-type").is_some_and(|form| form.starts_with("application/json"))
        && accepts("application/json")
        && accepts("text/event-stream")
        && headers.keys().all(|name| !is_special(name.as_str()))
}

/// Headers that only the long way understands.
fn is_special(name: &str) -> bool {
    matches!(name, "mcp-session-id" | "last-event-id" | "traceparent")
        || name.starts_with("mcp-param-")
}

/// A header that was sent once.
fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    all.next().is_none().then(|| first.to_str().ok()).flatten()
}

/// The message of a plain call. It has nothing else in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainCall {
    jsonrpc: String,
    id: RequestId,
    method: String,
    params: Params,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(rename = "_meta")]
    meta: Meta,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: String,
    #[serde(rename = "io.modelcontextprotocol/clientInfo")]
    client: ClientInfo,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    _capabilities: NoCapabilities,
}

#[derive(Deserialize)]
struct ClientInfo {
    name: String,
    #[serde(rename = "version")]
    _version: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoCapabilities {}

impl PlainCall {
    fn read(parts: &Parts, bytes: &Bytes) -> Option<Self> {
        let plain: Self = serde_json::from_slice(bytes).ok()?;
        let is_right = plain.jsonrpc == "2.0"
            && plain.method == "tools/call"
            && plain.params.meta.version == VERSION
            && text(&parts.headers, "mcp-name") == Some(&plain.params.name);
        is_right.then_some(plain)
    }

    /// Calls the tool; nothing is done where it takes the long way to know which.
    async fn run(self, service: &McpHandler, parts: &Parts) -> Option<Response> {
        let Params { name, arguments, meta } = self.params;
        let identity = parts.extensions.get::<Identity>()?.clone();
        let client = McpClient::modern(identity, meta.client.name);
        client.must(Permission::CallTools).ok()?;
        let tool = service.catalogue(&client).find(&name)?;
        if tool.model_schema().as_object().is_none_or(has_headers) {
            return None;
        }
        let (asker, _) = mailbox::channel(json!({}), Pause::default());
        let stop = CancellationToken::new();
        let request = CallRequest::new(tool.name().as_str(), Value::Object(arguments))
            .call_ref(self.id.to_string())
            .context(client.context().object(asker))
            .begun_by(client.identity.key_id.clone())
            .cancel_token(stop.clone());
        // A client that hangs up has cancelled its call.
        let hung_up = stop.drop_guard();
        let result = service.shared.engine.call(request).await;
        drop(hung_up);
        let told = reply::of_call(&result, declares_output(&tool), service.shared.lang);
        let status = match &told {
            Err(error) if error.code == ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            Err(error) if error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY => {
                StatusCode::BAD_REQUEST
            }
            _ => StatusCode::OK,
        };
        let message = match told {
            Ok(result) => {
                ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), self.id)
            }
            Err(error) => ServerJsonRpcMessage::error(error, Some(self.id)),
        };
        let Ok(body) = serde_json::to_vec(&message) else {
            return Some(StatusCode::INTERNAL_SERVER_ERROR.into_response());
        };
        let json = HeaderValue::from_static("application/json");
        Some((status, [(header::CONTENT_TYPE, json)], body).into_response())
    }
}
