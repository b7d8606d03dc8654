//! What handlers take from a request; whatever is wrong with it becomes a
//! problem that says where.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;

use super::app::App;
use super::problem::Problem;
use crate::identity::Identity;

/// Who asks. Only there behind the gate.
pub(crate) struct Who(pub(crate) Identity);

impl FromRequestParts<Arc<App>> for Who {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        parts.extensions.remove::<Identity>().map(Self).ok_or_else(|| {
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "this needs an API key")
        })
    }
}

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let media = request.headers().get(header::CONTENT_TYPE);
        let media = media.and_then(|media| media.to_str().ok());
        if media.is_some_and(|media| !is_json(media)) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "the body must be JSON",
            )
            .hint("send Content-Type: application/json"));
        }
        let bytes = Bytes::from_request(request, app).await.map_err(unreadable)?;
        parse(&bytes).map(Self)
    }
}

/// Whether a body may be JSON. `curl -d` says that it sends a form, whatever it
/// sends; nothing here takes forms.
fn is_json(media: &str) -> bool {
    let essence = media.split(';').next().unwrap_or_default().trim();
    ["application/json", "application/x-www-form-urlencoded"]
        .iter()
        .any(|known| essence.eq_ignore_ascii_case(known))
        || essence.get(essence.len().saturating_sub(5)..).is_some_and(|end| end == "+json")
}

pub(crate) fn unreadable(rejection: BytesRejection) -> Problem {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the body is larger than this server takes",
        )
        .hint("the operator sets `server.max_body_bytes`"),
        _ => Problem::bad(format!("the body cannot be read: {rejection}")),
    }
}

/// The body as a type. Only where it does not fit, it is looked at again to
/// find out where.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        let deserializer = &mut serde_json::Deserializer::from_slice(bytes);
        let place = serde_path_to_error::deserialize::<_, T>(deserializer).err();
        let path = place.map(|place| place.path().to_string()).unwrap_or_default();
        let pointer = match path.as_str() {
            "" | "." => String::new(),
            path => format!("/{}", path.replace(['.', '['], "/").replace(']', "")),
        };
        Problem::bad("the body is not what this route takes").at(pointer, error.to_string())
    })
}

/// The parameters of the query.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        serde_urlencoded::from_str(query).map(Self).map_err(|error| {
            Problem::bad("the query is not what this route takes").at("query", error.to_string())
        })
    }
}

/// The one parameter of the path.
pub(crate) struct Name(pub(crate) String);

impl FromRequestParts<Arc<App>> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let bad = |error: &dyn std::fmt::Display| Problem::bad(format!("bad path: {error}"));
        let params =
            RawPathParams::from_request_parts(parts, app).await.map_err(|error| bad(&error))?;
        let found = params.iter().next().map(|(_, value)| value.to_owned());
        found.map(Self).ok_or_else(|| bad(&"a name is missing"))
    }
}

impl Name {
    /// The id that it stands for; whatever is no id does not exist.
    pub(crate) fn id<T: std::str::FromStr>(&self, what: &str) -> Result<T, Problem> {
        self.0.parse().map_err(|_| Problem::not_found(what))
    }
}
