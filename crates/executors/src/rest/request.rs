//! Checked arguments become a request.
//!
//! Everything is written from its parts, never by replacing text in an address:
//! what a model puts into a value stays that value. The result is checked once
//! more: it has the origin and the base path that the plan says.

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

/// Everything but what RFC 3986 calls unreserved.
pub(crate) const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// With `allowReserved`: also everything that would end the value.
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

/// Headers that belong to the connection, to credentials or to the body: no
/// argument sets them.
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

/// Parts of a signature, which depends on the whole request: what a model would
/// write there is wrong. Of Amazon's and Google's, without what they begin with.
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

/// Whether a header, or a parameter of a query, is part of a signature.
pub(crate) fn is_signing(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let own = name.strip_prefix("x-amz-").or_else(|| name.strip_prefix("x-goog-"));
    SIGNATURES.contains(&name.as_str()) || own.is_some_and(|own| SIGNING.contains(&own))
}

/// Whether a name is one of a header that can be sent.
pub(crate) fn is_header_name(name: &str) -> bool {
    HeaderName::from_bytes(name.as_bytes()).is_ok()
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
    /// The parts of the `Cookie` header.
    pub(crate) cookies: Vec<String>,
    pub(crate) body: Option<Payload>,
}

/// Builds the request of one call. `argument` gives an argument by its name.
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

/// The pairs of a parameter. The keys of an object are names in the request, and
/// none of them is the name of a credential.
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

/// A value that can be sent in a header: one line of visible characters.
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
