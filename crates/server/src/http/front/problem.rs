//! Problem details (RFC 9457): every error of the API, with our error code, the
//! invalid fields and a hint.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use windlass::{Error, ErrorKind};

/// The media type of a problem.
pub(crate) const MEDIA: &str = "application/problem+json";

/// The default of `Retry-After`.
pub(crate) const LATER: Duration = Duration::from_secs(2);

/// Why a request got no answer. Small, because nearly everything may end in
/// one.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Problem(Box<ProblemBody>);

/// A problem document (RFC 9457).
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemBody {
    /// The problem type, as a URI.
    #[serde(rename = "type")]
    kind: String,
    /// The kind in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// The details of this occurrence.
    detail: String,
    /// Our error code.
    code: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The invalid fields of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    errors: Vec<InvalidField>,
    /// The result of the rejected call, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<serde_json::Value>,
    #[serde(skip)]
    retry_after: Option<Duration>,
}

/// One thing that is wrong with a request.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Fault")]
pub(crate) struct InvalidField {
    /// Its location: a JSON pointer into the body, or the name of a parameter.
    pub(crate) path: String,
    /// What.
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self(Box::new(ProblemBody {
            kind: format!("urn:windlass:problem:{code}"),
            title: status.canonical_reason().unwrap_or("Problem").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.to_owned(),
            hint: None,
            errors: Vec::new(),
            result: None,
            retry_after: None,
        }))
    }

    /// The request is invalid.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", detail)
    }

    /// 404, for what does not exist and for what is another tenant's alike.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no such {what}"))
    }

    /// Conflict: it was decided already, or it exists already.
    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", detail)
    }

    /// Too many keys that do not work came from one address.
    pub(crate) fn too_many_failed_keys(wait: Duration) -> Self {
        let why = "too many keys that do not work came from this address";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_failed_keys", why)
            .hint("requests with a valid key are still accepted")
            .retry_after(Some(wait))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn at(mut self, path: impl Into<String>, message: impl Into<String>) -> Self {
        self.0.errors.push(InvalidField { path: path.into(), message: message.into() });
        self
    }

    /// The details of this occurrence.
    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The same with the places of another.
    pub(crate) fn with_faults(mut self, mut other: Self) -> Self {
        self.0.errors.append(&mut other.0.errors);
        self
    }

    /// The same with other words for what is wrong.
    pub(crate) fn each_fault(mut self, change: impl FnMut(&mut InvalidField)) -> Self {
        self.0.errors.iter_mut().for_each(change);
        self
    }

    pub(crate) fn result(mut self, result: serde_json::Value) -> Self {
        self.0.result = Some(result);
        self
    }

    pub(crate) fn retry_after(mut self, after: Option<Duration>) -> Self {
        self.0.retry_after = after;
        self
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let info = error.kind().info();
        let status = StatusCode::from_u16(info.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut problem =
            Self::new(status, info.name, error.message()).retry_after(error.retry_after());
        problem.0.title = info.meaning.to_owned();
        for violation in error.violations() {
            problem = problem.at(
                violation.path.clone(),
                format!("expected {}, got {}", violation.expected, violation.got),
            );
        }
        if error.kind() == ErrorKind::QuotaExceeded {
            problem =
                problem.hint("GET /v1/quotas shows all; the operator sets them under `quotas`");
        }
        if error.kind() == ErrorKind::StorageUnavailable {
            problem = problem.hint("the database cannot be used; try again, and look at /readyz");
        }
        problem
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() {
            tracing::warn!(code = self.0.code, detail = self.0.detail, "a request failed");
        }
        let later = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(LATER);
        let retry_after = self.0.retry_after.or(later);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let media = [(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA))];
        let mut response = (status, media, body).into_response();
        if let Some(after) = retry_after {
            let seconds = after.as_secs_f64().ceil().max(1.0) as u64;
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            // One header for each scheme: browsers only read the first scheme of a header.
            for scheme in ["Bearer realm=\"windlass\"", "Basic realm=\"windlass\""] {
                let scheme = HeaderValue::from_static(scheme);
                response.headers_mut().append(header::WWW_AUTHENTICATE, scheme);
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_has_the_status_of_the_table() {
        for &kind in ErrorKind::ALL {
            let problem = Problem::from(Error::new(kind, "why"));
            let told = serde_json::to_value(&problem).unwrap();
            let response = problem.into_response();
            assert_eq!(response.status().as_u16(), kind.info().status, "{kind}");
            assert_eq!(
                (&told["status"], &told["code"]),
                (&kind.info().status.into(), &kind.name().into())
            );
        }
    }
}
