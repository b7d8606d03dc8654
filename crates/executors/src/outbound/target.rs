//! URL checks of the SSRF guard, before any DNS lookup.

use std::net::IpAddr;

use url::{Host, Origin, Url};
use windlass::{Error, ErrorKind};

use super::policy::{OutboundPolicy, plain_name};

/// Longer URLs are an attack or a mistake.
const MAX_URL: usize = 8 * 1024;

/// Parses a URL as a browser would: every notation of an IPv4 address, from `0x7f.1` to
/// full-width digits, becomes the address that it means.
pub(super) fn parse(text: &str) -> Result<Url, Error> {
    if text.len() > MAX_URL {
        return Err(invalid(format!("the URL is longer than {MAX_URL} bytes")));
    }
    // The parser's error message quotes no part of the URL.
    Url::parse(text).map_err(|error| invalid(format!("the URL cannot be read: {error}")))
}

/// Checks everything that needs no DNS lookup: scheme, credentials, literal addresses.
pub(super) fn check(url: &Url, policy: &OutboundPolicy) -> Result<(), Error> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(denied("only http and https addresses may be requested"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(denied("a URL with a user name or password in it is not requested"));
    }
    if url.as_str().len() > MAX_URL {
        return Err(invalid(format!("the URL is longer than {MAX_URL} bytes")));
    }
    let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
        return Err(invalid("the URL names no host"));
    };
    if port == 0 {
        return Err(denied("port 0 is not requested"));
    }
    let address: IpAddr = match host {
        Host::Ipv4(address) => address.into(),
        Host::Ipv6(address) => address.into(),
        Host::Domain(name) if plain_name(name).is_empty() => {
            return Err(invalid("the URL names no host"));
        }
        // Checked once its addresses are known.
        Host::Domain(_) => return Ok(()),
    };
    policy.judge(None, address, port).map_err(|what| refused(&shown(url), what))
}

/// The URL for error messages: only its origin, since path and query may hold secrets.
pub(super) fn shown(url: &Url) -> String {
    match url.origin() {
        origin @ Origin::Tuple(..) => origin.ascii_serialization(),
        Origin::Opaque(_) => format!("{}:", url.scheme()),
    }
}

/// The error for a destination that the policy does not allow.
pub(super) fn refused(target: &str, what: &str) -> Error {
    denied(format!("{target} leads to {what}, which is not allowed here"))
}

pub(super) fn denied(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Denied, message)
}

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArguments, message)
}
