//! Results and records, as the API shows them.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use windlass::{CallResult, Content, ErrorKind, Lang};

use crate::http::front::problem::Problem;

/// The HTTP answer of a call. Whatever came of it is a result, and 200; only
/// where the server had no room or no database for it, that is the server's
/// failure and says so to proxies and clients that know nothing of tools.
pub(crate) fn answer(result: &CallResult, lang: Lang) -> Response {
    match result.error() {
        Some(error) if is_ours(error.kind()) => Problem::from(error.clone())
            .result(json!(result.view(lang)))
            .retry_after(error.retry_after().or(Some(std::time::Duration::from_secs(1))))
            .into_response(),
        // A person has been asked; the result comes later.
        Some(error) if error.kind() == ErrorKind::ApprovalRequired => {
            let mut response = with_status(StatusCode::ACCEPTED, &result.view(lang));
            if let Ok(place) = HeaderValue::from_str(&format!("/v1/approvals/{}", result.id)) {
                response.headers_mut().insert(header::LOCATION, place);
            }
            response
        }
        _ => ok(&result.view(lang)),
    }
}

fn is_ours(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::QueueFull
            | ErrorKind::RateLimited
            | ErrorKind::QuotaExceeded
            | ErrorKind::StorageUnavailable
    )
}

/// Something as JSON.
pub(crate) fn ok<T: Serialize>(body: &T) -> Response {
    with_status(StatusCode::OK, body)
}

pub(crate) fn with_status<T: Serialize>(status: StatusCode, body: &T) -> Response {
    // Most answers fit, and need not be moved while they are written.
    let mut bytes = Vec::with_capacity(1024);
    match serde_json::to_writer(&mut bytes, body) {
        Ok(()) => {
            let mut response = Response::new(bytes.into());
            *response.status_mut() = status;
            // With room for those that every answer gets.
            let mut headers = HeaderMap::with_capacity(8);
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *response.headers_mut() = headers;
            response
        }
        Err(error) => Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("the answer has no JSON form: {error}"),
        )
        .into_response(),
    }
}

/// Content, for events.
pub(crate) fn content(content: &Content) -> Value {
    json!(content)
}
