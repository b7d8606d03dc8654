//! Extractors: what handlers take from a request. Invalid input becomes a problem
//! document that says where.

use std::any::TypeId;
use std::sync::Arc;

use axum::body::{self, Bytes, HttpBody as _};
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};

use windlass_executors::rest::DocumentLimits;

use super::problem::{InvalidField, Problem};
use crate::cli::arguments::UniqueKeys;
use crate::http::app::App;
use crate::state::identity::Identity;

/// The longest name in a path; no store takes longer ones.
const MAX_NAME: usize = 512;

/// The authenticated identity. Only set behind [`auth`](super::auth).
pub(crate) struct Authenticated(pub(crate) Identity);

impl FromRequestParts<Arc<App>> for Authenticated {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        parts.extensions.remove::<Identity>().map(Self).ok_or_else(|| {
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "this needs an API key")
        })
    }
}

/// A JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + 'static> FromRequest<Arc<App>> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        parse(&json(request, app).await?).map(Self)
    }
}

/// A JSON body that may hold an API document.
pub(crate) struct DocumentBody<T>(pub(crate) T);

impl<T: DeserializeOwned + 'static> FromRequest<Arc<App>> for DocumentBody<T> {
    type Rejection = Problem;

    async fn from_request(mut request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let limits = DocumentLimits::default();
        request
            .extensions_mut()
            .insert(Largest(app.settings.max_body_bytes.max(limits.file_bytes)));
        let bytes = json(request, app).await?;
        limits.check_json(&bytes).map_err(|why| too_large().at("", why))?;
        parse(&bytes).map(Self)
    }
}

/// A JSON body that a model's API wrote: half of a surrogate pair in a text does
/// not make it unreadable.
pub(crate) struct ModelBody(pub(crate) Value);

impl FromRequest<Arc<App>> for ModelBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let bytes = json(request, app).await?;
        let parsed = parse(&bytes).or_else(|problem| {
            let text = str::from_utf8(&bytes).map_err(|_| problem)?;
            parse(windlass::replace_lone_surrogates(text).as_bytes())
        });
        parsed.map(Self)
    }
}

/// A JSON body that holds secrets: what is wrong with it is told without
/// repeating what was sent.
pub(crate) struct SecretBody<T>(pub(crate) T);

impl<T: DeserializeOwned + 'static> FromRequest<Arc<App>> for SecretBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let parsed = parse(&json(request, app).await?);
        parsed.map(Self).map_err(|problem| problem.each_fault(unrepeated))
    }
}

/// Leaves what was found out of a fault, and what was expected in. What was
/// found always comes first.
fn unrepeated(fault: &mut InvalidField) {
    let Some((found, expected)) = fault.message.rsplit_once(", expected ") else { return };
    if found.starts_with("unknown field") {
        fault.path.clear();
    }
    fault.message = format!("expected {expected}");
}

/// The bytes of a body that says that it is JSON.
async fn json(request: Request, app: &Arc<App>) -> Result<Bytes, Problem> {
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
    whole(request, app).await
}

/// How large the body of a request may be, where that is not what is set for
/// all.
#[derive(Clone, Copy)]
pub(crate) struct Largest(pub(crate) usize);

/// How much of a body that is too large is read and dropped. A client that is
/// still sending would meet a closed connection, and not the answer.
const DROPPED: u64 = 64 * 1024 * 1024;

/// The whole body. A client that never ends it does not hold on to us for ever.
pub(crate) async fn whole(request: Request, app: &Arc<App>) -> Result<Bytes, Problem> {
    let own = request.extensions().get::<Largest>();
    let most = own.map_or(app.settings.max_body_bytes, |Largest(most)| *most);
    // A client with `Expect: 100-continue` has not started to send.
    let asks = request.headers().contains_key(header::EXPECT);
    let body = request.into_body();
    let announced = body.size_hint().lower();
    if announced > most as u64 && (asks || announced > most as u64 + DROPPED) {
        return Err(too_large());
    }
    match tokio::time::timeout(app.settings.body_timeout, read(body, most)).await {
        Ok(read) => read,
        Err(_) => {
            let why = "the body did not come in time";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", why)
                .hint("send the body at once"))
        }
    }
}

async fn read(body: body::Body, most: usize) -> Result<Bytes, Problem> {
    let mut stream = body.into_data_stream();
    let (mut parts, mut size) = (Vec::new(), 0);
    while let Some(part) = stream.next().await {
        let part =
            part.map_err(|error| Problem::bad(format!("the body cannot be read: {error}")))?;
        size += part.len() as u64;
        if size > most as u64 + DROPPED {
            break;
        }
        if size <= most as u64 {
            parts.push(part);
        } else {
            parts.clear();
        }
    }
    match parts.as_slice() {
        _ if size > most as u64 => Err(too_large()),
        // Most bodies arrive in one chunk.
        [one] => Ok(one.clone()),
        parts => Ok(parts.concat().into()),
    }
}

fn too_large() -> Problem {
    let why = "the body is larger than this server takes";
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", why)
        .hint("the operator sets `server.max_body_bytes`")
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

/// The body as a type. Only where it does not fit, it is looked at again to
/// find out where. A key that is given twice could mean two things.
pub(crate) fn parse<T: DeserializeOwned + 'static>(bytes: &[u8]) -> Result<T, Problem> {
    // Serde would also accept an array of the struct's values.
    let is_any = TypeId::of::<T>() == TypeId::of::<Value>();
    if !is_any && !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(misfit::<Map<String, Value>>(bytes));
    }
    let Ok(parsed) = serde_json::from_slice(bytes) else { return Err(misfit::<T>(bytes)) };
    match serde_json::from_slice::<UniqueKeys>(bytes) {
        Ok(UniqueKeys) => Ok(parsed),
        Err(_) => Err(misfit::<UniqueKeys>(bytes)),
    }
}

fn misfit<T: DeserializeOwned>(bytes: &[u8]) -> Problem {
    let problem = Problem::bad("the body is not what this route takes")
        .hint("/docs shows what each route takes");
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Err(error) => problem.at(pointer(error.path()), error.inner().to_string()),
        // Trailing data after the JSON value.
        Ok(_) => {
            let error = deserializer.end().err().map(|error| error.to_string());
            problem.at("", error.unwrap_or_else(|| "this is not JSON".to_owned()))
        }
    }
}

/// A place in a body as a JSON pointer.
fn pointer(path: &Path) -> String {
    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Seq { index } => Some(format!("/{index}")),
            Segment::Map { key } => Some(format!("/{}", escape(key))),
            Segment::Enum { .. } | Segment::Unknown => None,
        })
        .collect()
}

/// The parameters of the query.
pub(crate) struct QueryString<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for QueryString<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default().as_bytes();
        let problem = || Problem::bad("the query is not what this route takes");
        let mut seen = Vec::new();
        for (name, value) in form_urlencoded::parse(query) {
            if value.chars().any(char::is_control) {
                return Err(problem().at(name, "must not hold control characters"));
            }
            if seen.contains(&name) {
                return Err(problem().at(name, "is given twice"));
            }
            seen.push(name);
        }
        let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query));
        serde_path_to_error::deserialize(pairs).map(Self).map_err(|error| {
            let place = match error.path().iter().next() {
                Some(Segment::Map { key }) => key.clone(),
                _ => "query".to_owned(),
            };
            problem().at(place, error.inner().to_string())
        })
    }
}

/// The one parameter of the path.
pub(crate) struct PathName(pub(crate) String);

impl FromRequestParts<Arc<App>> for PathName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let bad =
            |why: String| Problem::bad("the path is not what this route takes").at("path", why);
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|error| bad(error.to_string()))?;
        match params.iter().next() {
            None => Err(bad("a name is missing".to_owned())),
            Some((_, name)) if name.len() > MAX_NAME => {
                Err(bad(format!("a name has at most {MAX_NAME} bytes")))
            }
            Some((_, name)) if name.chars().any(char::is_control) => {
                Err(bad("a name must not hold control characters".to_owned()))
            }
            Some((_, name)) => Ok(Self(name.to_owned())),
        }
    }
}

impl PathName {
    /// The id that it stands for; whatever is no id does not exist.
    pub(crate) fn id<T: std::str::FromStr>(&self, what: &str) -> Result<T, Problem> {
        self.0.parse().map_err(|_| Problem::not_found(what))
    }
}
