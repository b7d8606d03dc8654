//! `http_request`: an HTTP request with any method to any URL.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass::{Call, Error, ErrorKind, Output};

use super::{NetworkContext, text};
use crate::outbound::{Answer, Request};

const FORM: &str = "application/x-www-form-urlencoded";
const DEFAULT_TIMEOUT: f64 = 30.0;

#[derive(Deserialize)]
struct HttpRequestArguments {
    url: String,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    headers: Option<Map<String, Value>>,
    #[serde(default)]
    body: Option<Value>,
    #[serde(default)]
    timeout: Option<f64>,
}

/// Sends a request. Any status is a successful result, since the caller wants to see it.
pub(super) async fn run(context: &NetworkContext, call: &Call) -> Result<Output, Error> {
    let asked: HttpRequestArguments = call.parse()?;
    let method = asked.method.as_deref().unwrap_or("GET");
    let method = Method::from_bytes(method.as_bytes())
        .ok()
        .filter(|method| *method != Method::CONNECT)
        .ok_or_else(|| invalid(format!("`{}` is no method", method.escape_default())))?;
    let mut request = Request::parse(method.clone(), &asked.url)?.made_by(call);
    for (name, value) in asked.headers.iter().flatten() {
        request = match value {
            Value::String(value) => request.header(name, value)?,
            Value::Number(_) | Value::Bool(_) => request.header(name, &value.to_string())?,
            Value::Null => request,
            _ => return Err(invalid(format!("the header `{name}` must be a string"))),
        };
    }
    let empty = |body: &Value| body.is_null() || body.as_object().is_some_and(Map::is_empty);
    if let Some(body) = asked.body.filter(|body| !empty(body)) {
        if matches!(method, Method::GET | Method::HEAD) {
            return Err(invalid(format!("a {method} request has no body; put it into the URL")));
        }
        request = with_body(request, &asked.headers, &body);
    }
    let seconds = asked.timeout.unwrap_or(DEFAULT_TIMEOUT).clamp(1.0, 300.0);
    let time = Duration::from_secs_f64(seconds);
    let answer = context.outbound.send(request.read_timeout(time).total_timeout(time)).await?;
    describe(answer).await
}

/// An object is sent as JSON, or as a form if the headers say so; text is sent as it is.
fn with_body(request: Request, headers: &Option<Map<String, Value>>, body: &Value) -> Request {
    let content_type = headers.iter().flatten().find_map(|(name, value)| {
        name.eq_ignore_ascii_case(CONTENT_TYPE.as_str()).then(|| value.as_str()).flatten()
    });
    match body {
        Value::String(text) => {
            request.body(text.clone(), HeaderValue::from_static("text/plain; charset=utf-8"))
        }
        Value::Object(fields) if content_type.is_some_and(|own| own.starts_with(FORM)) => {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            for (name, value) in fields {
                match value {
                    Value::String(text) => form.append_pair(name, text),
                    value => form.append_pair(name, &value.to_string()),
                };
            }
            request.body(form.finish(), HeaderValue::from_static(FORM))
        }
        body => request.json(body),
    }
}

async fn describe(answer: Answer) -> Result<Output, Error> {
    let status = answer.status().as_u16();
    let headers = header_object(answer.headers());
    let media_type = answer.media_type();
    let content_type = answer.header(CONTENT_TYPE.as_str()).unwrap_or_default().to_owned();
    let url = answer.url().to_string();
    let bytes = answer.bytes().await?;
    let body = match () {
        () if bytes.is_empty() => Value::Null,
        () if text::is_json(&media_type) => serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(text::decode(&bytes, &content_type))),
        () if text::is_text(&media_type) || std::str::from_utf8(&bytes).is_ok() => {
            Value::String(text::decode(&bytes, &content_type))
        }
        () => json!({"base64": STANDARD.encode(&bytes), "media_type": media_type}),
    };
    Ok(Output::json(json!({"status_code": status, "headers": headers, "body": body}))
        .with_metadata("url", url))
}

/// Headers by name; repeated ones are joined with commas.
fn header_object(headers: &HeaderMap) -> Map<String, Value> {
    let mut object = Map::new();
    for name in headers.keys() {
        let all: Vec<_> = headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        object.insert(name.to_string(), all.join(", ").into());
    }
    object
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArguments, message)
}
