//! Results and records as HTTP responses.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use windlass::{CallResult, Content, Lang};

use crate::http::front::problem::Problem;

/// The HTTP answer of a call, with the status that the table of kinds has for it.
/// Whatever came of a call is a result; only where the server had no room or no
/// database for it, that is the server's failure and says so to proxies and clients
/// that know nothing of tools.
pub(crate) fn answer(result: &CallResult, lang: Lang) -> Response {
    let Some(error) = result.error() else { return ok(&result.view(lang)) };
    let status = StatusCode::from_u16(error.kind().info().call_status).unwrap_or_default();
    if !status.is_success() {
        return Problem::from(error.clone())
            .result(json!(result.view(lang)))
            .retry_after(error.retry_after().or(Some(Duration::from_secs(1))))
            .into_response();
    }
    let mut response = with_status(status, &result.view(lang));
    // Suspended until a person approves; the result comes later.
    if status == StatusCode::ACCEPTED
        && let Ok(place) = HeaderValue::from_str(&format!("/v1/approvals/{}", result.id))
    {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

/// Something as JSON.
pub(crate) fn ok<T: Serialize>(body: &T) -> Response {
    with_status(StatusCode::OK, body)
}

pub(crate) fn with_status<T: Serialize>(status: StatusCode, body: &T) -> Response {
    // Large enough for most responses, so that the buffer is not reallocated.
    let mut bytes = Vec::with_capacity(1024);
    match serde_json::to_writer(&mut bytes, body) {
        Ok(()) => {
            let mut response = Response::new(bytes.into());
            *response.status_mut() = status;
            // Capacity for the headers that every response gets.
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
