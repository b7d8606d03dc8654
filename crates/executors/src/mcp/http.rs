//! Streamable HTTP transport, over the HTTP client with SSRF protection.
//!
//! `rmcp` manages sessions, resumes streams and starts a new session when one has
//! expired; this module sends the requests. A server in the operator's own files may be
//! at any address. That of a tenant is subject to the SSRF guard, as any address chosen
//! by others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpClient,
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use serde_json::Value;
use url::Url;
use windlass::{Error, ErrorKind, Secret, TenantId, Veil};

use super::events::{Events, events};
use super::message;
use crate::outbound::{Answer, Outbound, Request, on_behalf};

/// Read timeout and total timeout of a stream. Calls have their own deadlines, and
/// streams of notifications are reopened.
const SILENCE: Duration = Duration::from_secs(15 * 60);
const LIFE: Duration = Duration::from_secs(24 * 3600);
/// Maximum concurrent requests to one server.
const AT_ONCE: usize = 64;
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const BOTH: &str = "application/json, text/event-stream";
const SESSION: &str = "mcp-session-id";

type Failed = StreamableHttpError<Error>;

/// The HTTP client for one server's URL.
pub(super) fn wire(
    outbound: &Outbound,
    url: &str,
    owner: Option<&TenantId>,
    max_message: usize,
    veil: Arc<Veil>,
) -> Wire {
    let mut policy = outbound.policy().clone();
    (policy.read_timeout, policy.total_timeout) = (SILENCE, LIFE);
    // Each message is bounded below; the stream as a whole is not.
    policy.max_response_bytes = u64::MAX / 2;
    if owner.is_none() {
        policy.allow.extend(place(url).and_then(|place| place.parse().ok()));
    }
    Wire { outbound: outbound.beside(policy), owner: owner.cloned(), max_message, veil }
}

/// A transport to a URL. `client` sends the requests, with or without OAuth tokens.
pub(super) fn transport<C: StreamableHttpClient + Sync>(
    client: C,
    url: &str,
    headers: &[(String, String)],
    max_message: usize,
) -> Result<StreamableHttpClientTransport<C>, Error> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_concurrent_requests(AT_ONCE)
        .reinit_on_expired_session(true);
    config.max_sse_event_size = max_message;
    for (name, value) in headers {
        let wrong = |_| {
            let why = format!("`{}` is no header that can be sent", name.escape_default());
            Error::new(ErrorKind::InvalidDefinition, why)
        };
        let named =
            HeaderName::try_from(name.as_str()).map_err(|error| wrong(error.to_string()))?;
        let mut value = HeaderValue::from_str(value).map_err(|error| wrong(error.to_string()))?;
        value.set_sensitive(true);
        config.custom_headers.insert(named, value);
    }
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Host and port of a URL, as an entry of the policy's allow list.
fn place(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))
}

/// The HTTP client in the form that `rmcp` expects.
#[derive(Clone)]
pub(super) struct Wire {
    outbound: Outbound,
    /// Whose connections they are.
    owner: Option<TenantId>,
    max_message: usize,
    /// Redacts the server's secrets in its responses.
    veil: Arc<Veil>,
}

impl Wire {
    pub(super) fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    fn request(
        method: Method,
        uri: &str,
        session: Option<&str>,
        token: Option<String>,
        headers: &HashMap<HeaderName, HeaderValue>,
    ) -> Result<Request, Error> {
        let mut request = Request::parse(method, uri)?;
        for (name, value) in headers {
            let value = value.to_str().map_err(|_| {
                Error::new(ErrorKind::InvalidDefinition, format!("the header `{name}` is no text"))
            })?;
            request = request.secret_header(name.as_str(), &Secret::new(value))?;
        }
        if let Some(session) = session {
            request = request.header(SESSION, session)?;
        }
        if let Some(token) = token {
            request = request.bearer(&Secret::new(token))?;
        }
        Ok(request)
    }

    async fn send(&self, request: Request) -> Result<Answer, Failed> {
        let sent = on_behalf(self.owner.as_ref(), self.outbound.send(request)).await;
        let answer = sent.map_err(StreamableHttpError::Client)?;
        match refused(&answer) {
            Some(refused) => Err(refused),
            None => Ok(answer),
        }
    }

    /// The redaction for a response: the server's secrets and this request's token.
    fn veil(&self, token: Option<&str>) -> Veils {
        let token = token.map(|token| Arc::new(Veil::new([&Secret::new(token)])));
        Veils([Some(Arc::clone(&self.veil)), token])
    }

    async fn body(&self, mut answer: Answer) -> Result<Bytes, Failed> {
        let mut body = BytesMut::new();
        while let Some(part) = answer.chunk().await.map_err(StreamableHttpError::Client)? {
            body.extend_from_slice(&part);
            if body.len() > self.max_message {
                let why = format!("a message of more than {} bytes", self.max_message);
                return Err(StreamableHttpError::UnexpectedServerResponse(why.into()));
            }
        }
        Ok(body.freeze())
    }
}

/// Redacts a server's secrets and a token in its responses.
pub(super) struct Veils([Option<Arc<Veil>>; 2]);

impl Veils {
    /// The JSON with secrets redacted; `None` if it has none.
    pub(super) fn over_json(&self, json: &[u8]) -> Option<Vec<u8>> {
        let veils = self.0.iter().flatten();
        veils.fold(None, |hidden: Option<Vec<u8>>, veil| {
            veil.over_json(hidden.as_deref().unwrap_or(json)).or(hidden)
        })
    }
}

/// The error for 401 and 403, with the challenge.
fn refused(answer: &Answer) -> Option<Failed> {
    let challenge = answer.header("www-authenticate").map(str::to_owned);
    match answer.status() {
        StatusCode::UNAUTHORIZED => {
            // Without a challenge, the authorization server can still be discovered.
            let challenge = challenge.unwrap_or_else(|| "Bearer".to_owned());
            Some(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)))
        }
        StatusCode::FORBIDDEN => {
            let challenge = challenge?;
            let scope = parameter(&challenge, "scope");
            let refused = InsufficientScopeError::new(challenge, scope);
            Some(StreamableHttpError::InsufficientScope(refused))
        }
        _ => None,
    }
}

/// A parameter of a `WWW-Authenticate` challenge.
pub(super) fn parameter(challenge: &str, name: &str) -> Option<String> {
    let start = challenge.to_ascii_lowercase().find(&format!("{name}="))? + name.len() + 1;
    let rest = &challenge[start..];
    let value = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split([',', ' ']).next(),
    };
    value.map(str::to_owned)
}

impl StreamableHttpClient for Wire {
    type Error = Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let session = session_id.as_deref();
        let veils = self.veil(auth_header.as_deref());
        let body = serde_json::to_vec(&message)?;
        let request = Self::request(Method::POST, &uri, session, auth_header, &custom_headers)
            .and_then(|request| request.header("accept", BOTH))
            .map_err(StreamableHttpError::Client)?
            .body(body, HeaderValue::from_static(JSON));
        let answer = self.send(request).await?;
        let (status, media) = (answer.status(), answer.media_type());
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return match wanted(&message) {
                None => Ok(StreamableHttpPostResponse::Accepted),
                // A request without a response body will get no response later either.
                Some(_) => Err(useless(format!("HTTP {status}, where an answer was due"))),
            };
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let begun = answer.header(SESSION).map(str::to_owned);
        let has_session = session.is_some();
        if status.is_success() && media == EVENTS {
            let events = events(answer, self.max_message, wanted(&message), veils);
            return Ok(StreamableHttpPostResponse::Sse(events, begun));
        }
        let retry_after = answer.header("retry-after").map(str::to_owned);
        let body = self.body(answer).await?;
        if has_session && status == StatusCode::BAD_REQUEST && is_no_session(&body) {
            return Err(StreamableHttpError::SessionExpired);
        }
        let body = veils.over_json(&body).map_or(body, Bytes::from);
        let said = match media == JSON {
            true => read(&message, &body, self.max_message),
            false => Err(format!("it is `{media}`")),
        };
        match (said, wanted(&message)) {
            (Ok(said), _) if status.is_success() || is_error(&said) => {
                Ok(StreamableHttpPostResponse::Json(to_asked(&message, said)?, begun))
            }
            (_, None) if status.is_success() => Ok(StreamableHttpPostResponse::Accepted),
            (_, Some(id)) if is_discover(&message) && is_unknown_era(status) => {
                let why = format!("HTTP {status}");
                let refused = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None);
                let refused = JsonRpcMessage::error(refused, Some(id));
                Ok(StreamableHttpPostResponse::Json(refused, None))
            }
            _ if !status.is_success() => {
                Err(HttpStatusError::new(status.as_u16(), retry_after).into())
            }
            (Err(why), _) => Err(useless(format!("an answer that cannot be read: {why}"))),
            (Ok(_), _) => Err(useless("something else than an answer".to_owned())),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        let session = Some(&*session_id);
        let request = Self::request(Method::DELETE, &uri, session, auth_header, &custom_headers);
        // A server that does not support deleting sessions does no harm.
        self.send(request.map_err(StreamableHttpError::Client)?).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Failed> {
        let session = session_id.as_deref();
        let veils = self.veil(auth_header.as_deref());
        let mut request = Self::request(Method::GET, &uri, session, auth_header, &custom_headers)
            .and_then(|request| request.header("accept", EVENTS))
            .map_err(StreamableHttpError::Client)?;
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", &id).map_err(StreamableHttpError::Client)?;
        }
        let answer = self.send(request).await?;
        match (answer.status(), answer.media_type()) {
            (StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED, _) => {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            (status, media) if status.is_success() && media == EVENTS => {
                Ok(events(answer, self.max_message, None, veils))
            }
            (status, media) if status.is_success() => {
                Err(StreamableHttpError::UnexpectedContentType(Some(media)))
            }
            (status, _) => Err(HttpStatusError::new(status.as_u16(), None).into()),
        }
    }
}

/// The id of a message that is a request.
fn wanted(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

fn is_discover(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::DiscoverRequest(_))
}

/// The bodies with which servers of the official SDKs, and those modelled on their
/// examples, reject an unknown session with 400, before they look at the message.
const NO_SESSION: [&str; 2] =
    ["Bad Request: No valid session ID provided", "Bad Request: Server not initialized"];

/// Whether a 400 means that the session is unknown; the protocol's status for that is
/// 404. The message is then sent again in a new session, so it must be certain that no
/// tool has run: its error might contain the same words. Only one of the known texts
/// counts, either alone or in an error response without a request id.
fn is_no_session(body: &[u8]) -> bool {
    let is_known = |text: &str| NO_SESSION.contains(&text);
    let Ok(text) = str::from_utf8(body) else { return false };
    let Ok(Value::Object(said)) = serde_json::from_str::<Value>(text) else {
        return is_known(text.trim());
    };
    // The Python SDK sends this instead of `null`.
    let is_of_none = match said.get("id") {
        None | Some(Value::Null) => true,
        Some(id) => id == "server-error",
    };
    let Some(error) = said.get("error") else { return false };
    let is_refusal = matches!(error["code"].as_i64(), Some(-32000 | -32001 | -32600));
    is_of_none
        && is_refusal
        && !said.contains_key("result")
        && error["message"].as_str().is_some_and(is_known)
}

/// Whether a status may mean that the server does not know the stateless era.
fn is_unknown_era(status: StatusCode) -> bool {
    status.is_client_error()
        && !matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
        )
}

fn is_error(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Error(_))
}

/// Delivers a response to the pending request. An error response is accepted under any
/// id: a server that cannot parse a request makes one up.
fn to_asked(
    asked: &ClientJsonRpcMessage,
    said: ServerJsonRpcMessage,
) -> Result<ServerJsonRpcMessage, Failed> {
    match (said, wanted(asked)) {
        (JsonRpcMessage::Error(error), Some(id)) => {
            Ok(JsonRpcMessage::error(error.error, Some(id)))
        }
        (JsonRpcMessage::Response(response), Some(id)) if !is_same(&id, &response.id) => {
            Err(useless("the answer to another request".to_owned()))
        }
        (said, _) => Ok(said),
    }
}

/// Compares ids; some servers send numeric ids back as strings.
pub(super) fn is_same(asked: &RequestId, answered: &RequestId) -> bool {
    asked == answered || asked.to_string() == answered.to_string()
}

/// The error of a request that got something other than a JSON-RPC response.
fn useless(what: String) -> Failed {
    StreamableHttpError::UnexpectedServerResponse(what.into())
}

/// What a server that could be reached sent instead of a JSON-RPC response.
pub(super) fn answered_with(
    error: &(dyn std::error::Error + 'static),
) -> Option<(ErrorKind, String)> {
    match error.downcast_ref::<Failed>()? {
        StreamableHttpError::HttpStatus(status) => {
            let refused = matches!(status.status, 400..500) && !matches!(status.status, 408 | 429);
            let kind = match refused {
                true => ErrorKind::UpstreamRejected,
                false => ErrorKind::UpstreamFailed,
            };
            Some((kind, status.to_string()))
        }
        StreamableHttpError::UnexpectedServerResponse(what) => {
            Some((ErrorKind::UpstreamFailed, what.to_string()))
        }
        _ => None,
    }
}

/// Parses a response. What `rmcp` itself looks at is typed; every other result stays
/// JSON.
fn read(
    asked: &ClientJsonRpcMessage,
    body: &[u8],
    max_message: usize,
) -> Result<ServerJsonRpcMessage, String> {
    let typed = matches!(asked, JsonRpcMessage::Request(request) if matches!(
        request.request,
        ClientRequest::InitializeRequest(_)
            | ClientRequest::DiscoverRequest(_)
            | ClientRequest::ListToolsRequest(_)
    ));
    let read = message::read(body, max_message).map_err(|unreadable| unreadable.why)?;
    match typed {
        true => serde_json::from_slice(body).map_err(|error| error.to_string()),
        false => Ok(read),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let challenge = "Bearer error=\"insufficient_scope\", scope=\"a b\", realm=x";
        assert_eq!(parameter(challenge, "scope").as_deref(), Some("a b"));
        assert_eq!(parameter(challenge, "realm").as_deref(), Some("x"));
        assert_eq!(parameter(challenge, "resource_metadata"), None);
    }
}
