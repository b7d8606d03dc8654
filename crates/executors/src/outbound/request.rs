//! [`Request`]: an outgoing HTTP request and the limits on its response.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use url::Url;
use windlass::{Call, Error, ErrorKind, Secret};

use super::policy::OutboundPolicy;
use super::target;

/// Headers that the HTTP client sets itself. A caller's `host` or `content-length` would
/// allow request smuggling.
const OWN: [&str; 15] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// An outgoing request. Nothing has been checked or sent yet.
#[derive(Clone)]
pub struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) follow: bool,
    read_timeout: Option<Duration>,
    total_timeout: Option<Duration>,
    max_bytes: Option<u64>,
}

/// Timeouts and size limit of one request.
#[derive(Clone, Copy)]
pub(super) struct RequestLimits {
    pub(super) read_timeout: Duration,
    pub(super) total_timeout: Duration,
    pub(super) max_bytes: u64,
}

impl Request {
    /// A request for a URL given as text.
    pub fn parse(method: Method, url: &str) -> Result<Self, Error> {
        Ok(Self::new(method, target::parse(url)?))
    }

    /// A request for a URL.
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            follow: true,
            read_timeout: None,
            total_timeout: None,
            max_bytes: None,
        }
    }

    /// Propagates the call's trace context: adds `traceparent` and `tracestate` if the
    /// call has one.
    #[must_use]
    pub fn made_by(mut self, call: &Call) -> Self {
        let Some(trace) = call.trace() else { return self };
        if let Ok(parent) = HeaderValue::try_from(trace.to_string()) {
            self.headers.insert("traceparent", parent);
        }
        if let Some(state) = trace.state().and_then(|state| HeaderValue::from_str(state).ok()) {
            self.headers.insert("tracestate", state);
        }
        self
    }

    /// A `GET` request.
    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// The URL, to be changed before the request is sent.
    pub fn url_mut(&mut self) -> &mut Url {
        &mut self.url
    }

    /// Sets a header and replaces an earlier one of the same name.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        self.set(name, value, false)?;
        Ok(self)
    }

    /// Sets a header whose value is secret. No error shows the value.
    pub fn secret_header(mut self, name: &str, value: &Secret) -> Result<Self, Error> {
        self.set(name, value.expose(), true)?;
        Ok(self)
    }

    /// Sets `Authorization: Bearer …`.
    pub fn bearer(self, token: &Secret) -> Result<Self, Error> {
        self.secret_header("authorization", &Secret::new(format!("Bearer {}", token.expose())))
    }

    /// Sets `Accept`.
    #[must_use]
    pub fn accept(mut self, types: HeaderValue) -> Self {
        self.headers.insert(ACCEPT, types);
        self
    }

    /// Sets a JSON body and its content type.
    #[must_use]
    pub fn json(self, value: &Value) -> Self {
        self.body(value.to_string(), HeaderValue::from_static("application/json"))
    }

    /// Sets the body. A `Content-Type` header that is already set is kept.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>, content_type: HeaderValue) -> Self {
        self.body = body.into();
        self.headers.entry(CONTENT_TYPE).or_insert(content_type);
        self
    }

    /// Returns redirects as responses instead of following them.
    #[must_use]
    pub fn without_redirects(mut self) -> Self {
        self.follow = false;
        self
    }

    /// Read timeout of this request, in place of the policy's.
    #[must_use]
    pub fn read_timeout(mut self, time: Duration) -> Self {
        self.read_timeout = Some(time);
        self
    }

    /// Total timeout of this request, at most the policy's.
    #[must_use]
    pub fn total_timeout(mut self, time: Duration) -> Self {
        self.total_timeout = Some(time);
        self
    }

    /// Maximum decoded body size of the response, at most the policy's.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    pub(super) fn limits(&self, policy: &OutboundPolicy) -> RequestLimits {
        let total_timeout =
            self.total_timeout.map_or(policy.total_timeout, |own| own.min(policy.total_timeout));
        let max_bytes = policy.max_response_bytes;
        RequestLimits {
            read_timeout: self.read_timeout.unwrap_or(policy.read_timeout).min(total_timeout),
            total_timeout,
            max_bytes: self.max_bytes.map_or(max_bytes, |own| own.min(max_bytes)),
        }
    }

    /// The request as hyper sends it.
    pub(super) fn to_wire(
        &self,
        user_agent: Option<&HeaderValue>,
    ) -> Result<http::Request<http_body_util::Full<Bytes>>, Error> {
        let mut request = http::Request::new(http_body_util::Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.url.as_str().parse().map_err(|_| {
            target::invalid(format!("a request to {} cannot be written", target::shown(&self.url)))
        })?;
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        if !headers.contains_key(USER_AGENT)
            && let Some(own) = user_agent
        {
            headers.insert(USER_AGENT, own.clone());
        }
        Ok(request)
    }

    fn set(&mut self, name: &str, value: &str, secret: bool) -> Result<(), Error> {
        let invalid = |why: String| Error::new(ErrorKind::InvalidArguments, why);
        let name = HeaderName::try_from(name)
            .map_err(|_| invalid(format!("`{}` is no name of a header", name.escape_default())))?;
        if OWN.contains(&name.as_str()) {
            return Err(invalid(format!("the header `{name}` cannot be set")));
        }
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            invalid(format!("the header `{name}` has characters that none may have"))
        })?;
        value.set_sensitive(secret);
        self.headers.insert(name, value);
        Ok(())
    }
}
