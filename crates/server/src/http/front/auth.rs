//! Authentication of requests. Rejects unknown hosts (DNS rebinding) and foreign
//! origins (CSRF, CORS), and then checks the API key or the bearer token.

use std::borrow::Cow;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use windlass::Secret;

use super::observe::{self, Requester};
use super::problem::Problem;
use super::revocation::{self, PresentedKey};
use super::slots::RequestSlot;
use crate::http::app::{App, HttpSettings};
use crate::http::routes::audit::{self, Performed};
use crate::state::identity::{Identity, Permission};

/// The header that holds a key and nothing else.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Answers a request that was let in.
pub(crate) type Answering = Arc<dyn Fn(Request, Arc<App>) -> Answered + Send + Sync>;
pub(crate) type Answered = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Authorization around a handler. It is not a layer, because each layer costs
/// every request a few allocations; and one type for all handlers, because axum
/// and the checks are compiled again for each type of handler.
#[derive(Clone)]
pub(crate) struct Gated {
    handler: Answering,
    /// None for what is open to all.
    action: Option<Permission>,
    /// The operation's name.
    name: &'static str,
}

impl Gated {
    pub(crate) fn new(handler: Answering, action: Option<Permission>, name: &'static str) -> Self {
        Self { handler, action, name }
    }
}

/// The handler of a route, whatever it takes from a request.
pub(crate) fn answering<T: 'static>(
    handler: impl Handler<T, Arc<App>, Future = Answered>,
) -> Answering {
    Arc::new(move |request, app| handler.clone().call(request, app))
}

impl Handler<(), Arc<App>> for Gated {
    type Future = Answered;

    fn call(self, request: Request, app: Arc<App>) -> Answered {
        let Some(action) = self.action else { return (self.handler)(request, app) };
        Box::pin(async move {
            let next = |request| (self.handler)(request, Arc::clone(&app));
            let answered = check(&app, (action, self.name), request, next).await;
            answered.unwrap_or_else(IntoResponse::into_response)
        })
    }
}

/// Lets a request through whose key may do this.
async fn check<F: Future<Output = Response>>(
    app: &Arc<App>,
    operation: (Permission, &'static str),
    request: Request,
    next: impl FnOnce(Request) -> F,
) -> Result<Response, Problem> {
    let pass = AuthHeader::of(&request);
    let identity = bearer_of_key(app, pass.as_ref().and_then(AuthHeader::key).as_deref()).await?;
    // Keys with a tool view are restricted to MCP.
    if identity.tools.is_some() {
        let why = "this key is for some of the tools, over /mcp";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", why)
            .hint("use a key without a view of tools"));
    }
    let response = admit(app, operation, identity, request, next).await?;
    Ok(watched(response, app, pass, PresentedKey::Key))
}

/// The same for a route that also takes tokens of an authorization server.
pub(crate) async fn check_bearer(
    app: &Arc<App>,
    action: Permission,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let pass = AuthHeader::of(&request);
    let shown = pass.as_ref().and_then(AuthHeader::key);
    let token = shown.as_deref().filter(|text| revocation::is_token(text));
    let identity = match (&app.bearers, token) {
        (Some(bearers), Some(token)) => match bearers.verify(token).await? {
            Some(identity) => identity,
            None => {
                let why = "this token is not for this server, or has expired";
                return Err(app.failed_key(unauthorized(why)).await);
            }
        },
        _ => bearer_of_key(app, shown.as_deref()).await?,
    };
    let operation = (action, "mcp");
    let response = admit(app, operation, identity, request, |request| next.run(request)).await?;
    Ok(watched(response, app, pass, PresentedKey::Bearer))
}

/// Ends a long-lived response when the key or token that it depends on stops
/// working.
fn watched(
    response: Response,
    app: &Arc<App>,
    pass: Option<AuthHeader>,
    shown: fn(Secret) -> PresentedKey,
) -> Response {
    let stream = pass.filter(|_| revocation::is_stream(&response));
    match stream.as_ref().and_then(AuthHeader::key) {
        Some(key) => revocation::until_lapsed(response, app, shown(Secret::new(key.into_owned()))),
        None => response,
    }
}

/// The holder of a key.
async fn bearer_of_key(app: &App, key: Option<&str>) -> Result<Identity, Problem> {
    let Some(key) = key else {
        return Err(unauthorized("this needs an API key")
            .hint("send Authorization: Bearer KEY; `windlass keys create` makes one"));
    };
    match app.keys.verify(key).await? {
        Some(identity) => Ok(identity),
        None => {
            let why = "this API key is not known, has expired or was revoked";
            Err(app.failed_key(unauthorized(why)).await)
        }
    }
}

/// `Ok` if the identity has the permission.
async fn admit<F: Future<Output = Response>>(
    app: &App,
    (action, name): (Permission, &'static str),
    identity: Identity,
    mut request: Request,
    next: impl FnOnce(Request) -> F,
) -> Result<Response, Problem> {
    let slot = request.extensions().get::<Arc<RequestSlot>>().cloned();
    if let Some(slot) = &slot {
        slot.identify(&identity)?;
    }
    let audited = audit::is_audited(action, request.method()).then(|| {
        let path = request.uri().path().to_owned();
        Performed { who: identity.clone(), name, path }
    });
    if !identity.may(action) {
        let why = format!("the role {} of this tenant may not do this", identity.role);
        let refusal = Problem::new(StatusCode::FORBIDDEN, "forbidden", why)
            .hint(format!("use a key with one of these roles: {}", action.roles()));
        let Some(performed) = audited else { return Err(refusal) };
        let answer = refusal.into_response();
        let (tenant, mut happened) = performed.answered(&answer);
        if let Some(left_out) = app.refusals.count(&tenant, &identity.key_id) {
            if left_out > 0 {
                happened.details = Some(json!({"left_out_before": left_out}));
            }
            app.write_down(&tenant, happened).await;
        }
        return Ok(answer);
    }
    let asker = observe::is_told(app).then(|| Requester::from(&identity));
    request.extensions_mut().insert(identity);
    let mut response = next(request).await;
    if let Some(performed) = audited {
        let (tenant, happened) = performed.answered(&response);
        app.write_down(&tenant, happened).await;
    }
    if let Some(slot) = slot.filter(|_| revocation::is_stream(&response)) {
        slot.follow()?;
    }
    if let Some(asker) = asker {
        response.extensions_mut().insert(asker);
    }
    Ok(response)
}

fn unauthorized(why: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", why)
}

/// The header that authenticates a request.
struct AuthHeader {
    value: HeaderValue,
    is_bare: bool,
    only_looks: bool,
}

impl AuthHeader {
    fn of(request: &Request) -> Option<Self> {
        let headers = request.headers();
        let bare = headers.get(&API_KEY);
        let value = bare.or_else(|| headers.get(header::AUTHORIZATION))?.clone();
        Some(Self { value, is_bare: bare.is_some(), only_looks: request.method() == Method::GET })
    }

    /// The key in it. A browser can only send it as a password; it then sends it
    /// with every request, so that counts for looking only.
    fn key(&self) -> Option<Cow<'_, str>> {
        let text = self.value.to_str().ok()?;
        if self.is_bare {
            return Some(Cow::Borrowed(text));
        }
        let (scheme, key) = text.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(Cow::Borrowed(key.trim()));
        }
        if scheme.eq_ignore_ascii_case("basic") && self.only_looks {
            let pair = String::from_utf8(STANDARD.decode(key.trim()).ok()?).ok()?;
            return pair.split_once(':').map(|(_, key)| Cow::Owned(key.to_owned()));
        }
        None
    }
}

/// Lets a page of another origin see an answer, which it may.
pub(crate) fn share(response: &mut Response, page: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    for (name, value) in SHARED {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// What pages of other origins that were allowed may send and see.
const SHARED: [(header::HeaderName, &str); 4] = [
    (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE"),
    (
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        "authorization, content-type, idempotency-key, last-event-id, prefer, range, x-api-key, \
         x-file-name, x-request-id",
    ),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, "content-range, location, retry-after, x-request-id"),
    (header::ACCESS_CONTROL_MAX_AGE, "600"),
];

/// Whether a browser asks what a page may send.
pub(crate) fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The page of another origin that a request is from, if it may be from there.
/// Rejects unknown hosts (DNS rebinding) and foreign origins (CSRF).
pub(crate) fn origin(
    app: &App,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<Option<HeaderValue>, Problem> {
    let host = host(headers, uri)?;
    if !is_known(host, &app.settings) {
        let why = format!("this server does not answer for `{host}`");
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", why)
            .hint("add the name to `server.hosts` in windlass.yaml"));
    }
    let Some(value) = headers.get(header::ORIGIN) else { return Ok(None) };
    let origin = value.to_str().unwrap_or_default();
    if is_own(origin, host, &app.settings) {
        return Ok(None);
    }
    if app.settings.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
        return Ok(Some(value.clone()));
    }
    let why = format!("pages of `{origin}` may not use this server");
    Err(Problem::new(StatusCode::FORBIDDEN, "unknown_origin", why)
        .hint("add the origin to `server.origins` in windlass.yaml"))
}

/// The name that a request is for. HTTP/2 has it in the address, HTTP/1.1 in a
/// header; where it is in both, they must agree, or what one checks another
/// does not see.
fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Result<&'a str, Problem> {
    let mut named = named(headers);
    let header = named.next().unwrap_or_default();
    let address = uri.authority().map(|authority| authority.as_str());
    let differs = |other: &str| !header.is_empty() && !other.eq_ignore_ascii_case(header);
    if named.next().is_some() || address.is_some_and(differs) {
        return Err(Problem::bad("a request is for one name").at("Host", "there are two"));
    }
    Ok(if header.is_empty() { address.unwrap_or_default() } else { header })
}

fn named(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or("\u{fffd}"))
}

/// Whether a page is of this server: of the scheme, too, or whoever can change
/// plain text on the way could act as a page that came over TLS.
fn is_own(origin: &str, host: &str, settings: &HttpSettings) -> bool {
    origin.split_once("://").is_some_and(|(scheme, from)| {
        from.eq_ignore_ascii_case(host)
            && scheme.eq_ignore_ascii_case(settings.scheme(without_port(host)))
    })
}

/// Addresses and this machine are known; names are those that were set.
fn is_known(host: &str, settings: &HttpSettings) -> bool {
    let name = without_port(host);
    let literal = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let name = name.trim_end_matches('.');
    literal || name.eq_ignore_ascii_case("localhost") || settings.is_own_name(name)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_this_machine_and_set_names_are_known() {
        let hosts = vec!["tools.example.com".to_owned()];
        let settings = HttpSettings { hosts, ..HttpSettings::default() };
        for host in
            ["localhost:8080", "127.0.0.1", "[::1]:80", "10.1.2.3:1", "Tools.Example.com:443"]
        {
            assert!(is_known(host, &settings), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "", "127.0.0.1.nip.io:80"] {
            assert!(!is_known(host, &settings), "{host}");
        }
    }

    #[test]
    fn a_page_is_of_this_server_only_with_its_scheme() {
        let hosts = vec!["tools.example.com".to_owned()];
        let plain = HttpSettings { hosts, ..HttpSettings::default() };
        let tls = HttpSettings { has_tls: true, ..plain.clone() };
        let behind = HttpSettings { without_tls: true, ..plain.clone() };
        for (settings, name, scheme, other) in [
            (&plain, "tools.example.com", "http", "https"),
            (&plain, "127.0.0.1:7700", "http", "https"),
            (&tls, "tools.example.com:7700", "https", "http"),
            (&tls, "[::1]:7700", "https", "http"),
            (&behind, "tools.example.com", "https", "http"),
            (&behind, "Tools.example.com.", "https", "http"),
            (&behind, "localhost:7700", "http", "https"),
        ] {
            assert!(is_own(&format!("{scheme}://{name}"), name, settings), "{scheme} {name}");
            assert!(!is_own(&format!("{other}://{name}"), name, settings), "{other} {name}");
            assert!(
                !is_own(&format!("ftp://{name}"), name, settings) && !is_own(name, name, settings)
            );
        }
    }
}
