//! Maps failed requests to kinds of errors, in one place, so that every kind of tool that
//! speaks HTTP reports the same errors.

use std::error::Error as StdError;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use tokio::time::Instant;
use url::Url;
use windlass::{Error, ErrorKind, duration};

use super::request::RequestLimits;
use super::target;

/// Upper bound for `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The error for an unsuccessful status. `said` is an excerpt of the response body; empty
/// if there is none.
pub fn of_status(url: &Url, status: StatusCode, headers: &HeaderMap, said: &str) -> Error {
    let kind = match status.as_u16() {
        401 | 403 => ErrorKind::CredentialInvalid,
        429 => ErrorKind::RateLimited,
        500.. => ErrorKind::UpstreamFailed,
        _ => ErrorKind::UpstreamRejected,
    };
    let mut message = format!("{} answered {status}", target::shown(url));
    if !said.is_empty() {
        message = format!("{message}: {said}");
    }
    let error = Error::new(kind, message);
    match retry_after(headers) {
        Some(wait) if kind.info().retryable => error.with_retry_after(wait),
        _ => error,
    }
}

/// The error for a failure of the HTTP client.
pub(super) fn of_client(url: &Url, cause: hyper_util::client::legacy::Error) -> Error {
    let mut inner: Option<&(dyn StdError + 'static)> = Some(&cause);
    while let Some(error) = inner {
        if let Some(own) = error.downcast_ref::<Error>() {
            return own.clone();
        }
        if let Some(hyper) = error.downcast_ref::<hyper::Error>()
            && hyper.is_parse()
        {
            let why = format!("the answer of {} is no valid HTTP", target::shown(url));
            return Error::new(ErrorKind::UpstreamFailed, why).with_source(cause);
        }
        inner = error.source();
    }
    let why = format!("the connection to {} broke off", target::shown(url));
    Error::new(ErrorKind::Network, why).with_source(cause)
}

/// The error for a read timeout or for the total timeout.
pub(super) fn too_slow(url: &Url, limits: &RequestLimits, until: Instant) -> Error {
    let from = target::shown(url);
    let why = if Instant::now() >= until {
        format!("the request to {from} took more than {}", duration::format(limits.total_timeout))
    } else {
        format!("{from} was silent for {}", duration::format(limits.read_timeout))
    };
    Error::new(ErrorKind::Timeout, why)
}

/// The value of `Retry-After`, which is either a number of seconds or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default()
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, retry_after: &str) -> Error {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, retry_after.parse().unwrap());
        let url = Url::parse("https://api.example.com/users/alice?key=hush").unwrap();
        of_status(&url, StatusCode::from_u16(status).unwrap(), &headers, "")
    }

    #[test]
    fn every_status_has_its_kind_and_no_secret() {
        let kinds = [
            (301, "upstream_rejected"),
            (400, "upstream_rejected"),
            (401, "credential_invalid"),
            (403, "credential_invalid"),
            (404, "upstream_rejected"),
            (408, "upstream_rejected"),
            (429, "rate_limited"),
            (500, "upstream_failed"),
            (503, "upstream_failed"),
            (999, "upstream_failed"),
        ];
        for (status, kind) in kinds {
            let error = error(status, "x");
            assert_eq!(error.kind().name(), kind, "{status}");
            assert!(error.message().starts_with("https://api.example.com answered "), "{error}");
            assert!(!error.message().contains("hush") && !error.message().contains("alice"));
        }
    }

    #[test]
    fn the_wait_is_seconds_or_a_date() {
        assert_eq!(error(429, "7").retry_after(), Some(Duration::from_secs(7)));
        assert_eq!(error(503, "99999999").retry_after(), Some(MAX_RETRY_AFTER));
        let past = error(429, "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(past.retry_after(), Some(Duration::ZERO));
        assert!(error(429, "Tue, 31 Dec 2199 23:59:59 GMT").retry_after() > Some(Duration::ZERO));
        assert_eq!(error(429, "soon").retry_after(), None);
        assert_eq!(error(404, "7").retry_after(), None, "nobody tries that again");
    }
}
