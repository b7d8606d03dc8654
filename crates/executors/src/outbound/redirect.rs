//! Redirect policy: where a redirect leads, and which headers go along.

use http::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, LOCATION};
use http::header::{CONTENT_LANGUAGE, USER_AGENT};
use http::{HeaderMap, Method, StatusCode};
use windlass::{Error, ErrorKind};

use super::request::Request;
use super::target;

/// The only headers sent on to another origin. Any other may be a credential:
/// `authorization`, `cookie`, or whatever header an API uses for its key.
const HARMLESS: [HeaderName; 3] = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT];
/// Headers that describe a body; dropped when a redirect turns the request into one
/// without.
const OF_BODY: [HeaderName; 3] = [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE];

/// The request that a redirect asks for; `None` if the response is not a redirect.
pub(super) fn next(
    request: &Request,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<Request>, Error> {
    let keeps_method = match status.as_u16() {
        301 | 302 => request.method != Method::POST,
        303 => matches!(request.method, Method::GET | Method::HEAD),
        307 | 308 => true,
        _ => return Ok(None),
    };
    let Some(location) = headers.get(LOCATION).filter(|_| request.follow) else { return Ok(None) };
    let from = target::shown(&request.url);
    let location = location.to_str().ok().and_then(|text| request.url.join(text).ok());
    let Some(url) = location else {
        let why = format!("{from} redirects to something that is no URL");
        return Err(Error::new(ErrorKind::UpstreamRejected, why));
    };
    if request.url.scheme() == "https" && url.scheme() == "http" {
        return Err(target::denied(format!("{from} redirects to an address without encryption")));
    }
    let mut next = request.clone();
    if !keeps_method {
        next.method = Method::GET;
        next.body.clear();
        OF_BODY.iter().for_each(|name| drop(next.headers.remove(name)));
    }
    if url.origin() != request.url.origin() {
        if !next.body.is_empty() {
            let to = target::shown(&url);
            return Err(target::denied(format!(
                "{from} redirects to {to}, and the body of a request is not sent to another origin"
            )));
        }
        let kept =
            HARMLESS.iter().filter_map(|name| Some((name.clone(), next.headers.remove(name)?)));
        next.headers = kept.collect();
    }
    next.url = url;
    Ok(Some(next))
}
