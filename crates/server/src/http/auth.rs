//! Who may come in: the name that a request is for, the page that it is from,
//! and the key that it carries.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::app::App;
use super::problem::Problem;
use crate::identity::Action;

/// What a route asks of whoever uses it.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) app: Arc<App>,
    pub(crate) action: Action,
}

/// Lets a request through whose key may do what the route does.
pub(crate) async fn check(
    State(gate): State<Gate>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let Some(key) = key_of(&request) else {
        return Err(unauthorized("this needs an API key")
            .hint("send Authorization: Bearer KEY; `windlass keys create` makes one"));
    };
    let identity = gate.app.keys.verify(&key).await?;
    let Some(identity) = identity else {
        return Err(unauthorized("this API key is not known, has expired or was revoked"));
    };
    if !identity.role.may(gate.action) {
        let why = format!("the role {} may not do this", identity.role);
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", why)
            .hint("use a key with another role; `windlass keys create --role` makes one"));
    }
    request.extensions_mut().insert(identity);
    Ok(next.run(request).await)
}

fn unauthorized(why: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", why)
}

/// The key that a request carries. A browser can only send it as a password; it
/// then sends it with every request, so that counts for looking only.
fn key_of(request: &Request) -> Option<Cow<'_, str>> {
    let headers = request.headers();
    if let Some(key) = headers.get("x-api-key") {
        return key.to_str().ok().map(Cow::Borrowed);
    }
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Cow::Borrowed(key.trim()));
    }
    if scheme.eq_ignore_ascii_case("basic") && request.method() == Method::GET {
        let pair = String::from_utf8(STANDARD.decode(key.trim()).ok()?).ok()?;
        return pair.split_once(':').map(|(_, key)| Cow::Owned(key.to_owned()));
    }
    None
}

/// What is wrong with a request for another name, which a page gets when it
/// makes a name of its own point here, and with a request of another page.
pub(crate) fn origin_problem(app: &App, headers: &HeaderMap, uri: &Uri) -> Option<Problem> {
    let host = match headers.get(header::HOST) {
        Some(host) => host.to_str().unwrap_or_default(),
        None => uri.authority().map_or("", |authority| authority.as_str()),
    };
    if !is_known(host, &app.settings.hosts) {
        let why = format!("this server does not answer for `{host}`");
        return Some(
            Problem::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", why)
                .hint("add the name to `server.hosts` in windlass.yaml"),
        );
    }
    let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or_default();
    let own = origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host));
    if own || app.settings.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
        return None;
    }
    let why = format!("pages of `{origin}` may not use this server");
    Some(
        Problem::new(StatusCode::FORBIDDEN, "unknown_origin", why)
            .hint("add the origin to `server.origins` in windlass.yaml"),
    )
}

/// Addresses and this machine are known; names are those that were set.
fn is_known(host: &str, hosts: &[String]) -> bool {
    let name = without_port(host);
    let literal = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let name = name.trim_end_matches('.');
    literal
        || name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
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
        let hosts = ["tools.example.com".to_owned()];
        for host in
            ["localhost:8080", "127.0.0.1", "[::1]:80", "10.1.2.3:1", "Tools.Example.com:443"]
        {
            assert!(is_known(host, &hosts), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "", "127.0.0.1.nip.io:80"] {
            assert!(!is_known(host, &hosts), "{host}");
        }
    }
}
