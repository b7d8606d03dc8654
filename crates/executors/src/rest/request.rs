//! Builds a request from validated arguments.
//!
//! URLs are built from parts, never by replacing text: a value that a model chooses
//! cannot change the rest of the URL (path traversal, parameter injection). As a second
//! defence, the finished URL must have the plan's origin and base path.

mod body;
mod path;
mod style;

use std::borrow::Cow;

use http::HeaderName;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::Url;
use windlass::{Error, ErrorKind};

pub(crate) use self::body::Payload;
pub(crate) use self::path::{Base, names_of, parts};
use super::plan::{Credential, Location, ParameterPlan, Plan};

/// Everything except the unreserved characters of RFC 3986.
pub(crate) const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// With `allowReserved`: only what would end the value.
const RESERVED: &AsciiSet = &ENCODED
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'[')
    .remove(b']')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b',')
    .remove(b';')
    .remove(b'=');

/// Headers of the connection, of authentication and of the body, which no argument may
/// set.
const RESERVED_HEADERS: [&str; 19] = [
    "accept",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

pub(crate) fn is_reserved_header(name: &str) -> bool {
    RESERVED_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Parts of a request signature (AWS, Google), which a model cannot compute. Without
/// their vendor prefixes.
const SIGNING: [&str; 8] = [
    "algorithm",
    "content-sha256",
    "credential",
    "date",
    "expires",
    "security-token",
    "signature",
    "signedheaders",
];
const SIGNATURES: [&str; 8] = [
    "content-digest",
    "content-md5",
    "digest",
    "signature",
    "signature-input",
    "x-hub-signature",
    "x-hub-signature-256",
    "x-signature",
];

/// Whether a header or query parameter is part of a request signature.
pub(crate) fn is_signing(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let own = name.strip_prefix("x-amz-").or_else(|| name.strip_prefix("x-goog-"));
    SIGNATURES.contains(&name.as_str()) || own.is_some_and(|own| SIGNING.contains(&own))
}

/// Whether a name is a valid header name.
pub(crate) fn is_header_name(name: &str) -> bool {
    HeaderName::from_bytes(name.as_bytes()).is_ok()
}

/// What names of headers end with whose values are secret.
const SECRET: [&str; 7] =
    ["authorization", "apikey", "cookie", "token", "secret", "password", "credential"];
/// Words that make a key one that everybody may know.
const PUBLIC: [&str; 6] = ["idempotency", "public", "publishable", "cache", "routing", "sort"];

/// Whether the name of a header says that its value is secret: then it belongs
/// into a credential, and not into a definition, which is stored and shown as it is.
pub(crate) fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = || name.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    let last = words().next_back().unwrap_or_default();
    let last = last.strip_suffix('s').unwrap_or(last);
    let is_secret = matches!(last, "auth" | "key") || SECRET.iter().any(|own| last.ends_with(own));
    is_secret && !words().any(|word| PUBLIC.contains(&word))
}

/// Whether a header may hold a key: not one that decides where a request goes
/// or where it ends.
pub(crate) fn takes_key(name: &str) -> bool {
    let known = ["authorization", "cookie"].iter().any(|own| name.eq_ignore_ascii_case(own));
    is_header_name(name) && (known || !is_reserved_header(name))
}

/// A request without credentials.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) url: Url,
    pub(crate) headers: Vec<(String, String)>,
    /// The pairs of the `Cookie` header.
    pub(crate) cookies: Vec<String>,
    pub(crate) body: Option<Payload>,
}

/// Builds the request of a call. `argument` looks up an argument by name.
pub(crate) fn build<'a>(
    plan: &Plan,
    base: &Base,
    argument: &dyn Fn(&str) -> Option<&'a Value>,
) -> Result<Request, Error> {
    let value_of =
        |place: &ParameterPlan| argument(place.argument()).filter(|value| !value.is_null());
    let path = path::build(plan, &value_of)?;
    let (mut query, mut headers, mut cookies) = (Vec::new(), Vec::new(), Vec::new());
    for place in &plan.parameters {
        let Some(value) = value_of(place) else { continue };
        match place.location {
            Location::Path => {}
            Location::Query => query.extend(own_pairs(plan, place, value)),
            Location::Header => {
                headers
                    .push((place.name.clone(), header(&place.name, &style::text(place, value))?));
            }
            Location::Cookie => cookies.extend(own_pairs(plan, place, value)),
        }
    }
    let body = plan.body.as_ref().map(|body| body::build(body, argument)).transpose()?.flatten();
    for (name, value) in &plan.headers {
        headers.push((name.clone(), header(name, value)?));
    }
    Ok(Request { url: base.with(&path, &query)?, headers, cookies, body })
}

/// The pairs of a parameter. The keys of an object become names in the request, but must
/// not be the name of a credential.
fn own_pairs(plan: &Plan, place: &ParameterPlan, value: &Value) -> Vec<String> {
    let mut pairs = style::pairs(place, value);
    if value.is_object() {
        let is_key = |name: &str| {
            plan.security.iter().flatten().any(|credential| match credential {
                Credential::ApiKey { location, name: key, .. } => {
                    *location == place.location && encode(key, false).eq_ignore_ascii_case(name)
                }
                _ => false,
            })
        };
        pairs.retain(|pair| !is_key(pair.split('=').next().unwrap_or_default()));
    }
    pairs
}

/// Checks a header value: one line of visible characters.
pub(crate) fn header(name: &str, value: &str) -> Result<String, Error> {
    let value = value.trim_matches([' ', '\t']);
    if value.bytes().any(|byte| byte != b'\t' && !(b' '..=b'~').contains(&byte)) {
        return Err(refused(format!("the header `{name}` takes one line of ASCII text")));
    }
    Ok(value.to_owned())
}

fn encode(text: &str, allow_reserved: bool) -> String {
    let set = if allow_reserved { RESERVED } else { ENCODED };
    Cow::from(utf8_percent_encode(text, set)).into_owned()
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidArguments, why)
}
