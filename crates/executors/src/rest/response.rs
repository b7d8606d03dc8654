//! What an API answered becomes a result, or an error that a model can act on.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Map, Value, json};
use url::Url;
use windlass::{Body, Content, Data, Error, ErrorKind, Output, Text};

use super::media::{self, Form};
use crate::outbound::{Answer, of_status};

/// How much of what an API says about a failure a model reads.
const MAX_SAID: usize = 1_000;
/// What stands in place of a hidden text.
const HIDDEN: &str = "[hidden]";
/// Headers that are kept with a result: pages, limits, what to quote to support.
const KEPT: [&str; 12] = [
    "etag",
    "last-modified",
    "location",
    "ratelimit",
    "ratelimit-limit",
    "ratelimit-policy",
    "ratelimit-remaining",
    "ratelimit-reset",
    "request-id",
    "retry-after",
    "x-request-id",
    "x-total-count",
];

/// Reads an answer to its end. `hidden` are texts that an API may echo and
/// nobody may see.
pub(super) async fn read(mut answer: Answer, hidden: &[&str]) -> Result<Output, Error> {
    let (status, url) = (answer.status(), answer.url().clone());
    let headers = without_in_headers(answer.take_headers(), hidden);
    let bytes = answer.bytes().await.map(|bytes| without(bytes, hidden));
    if !status.is_success() {
        // What was said about a failure is welcome, but not needed.
        let bytes = bytes.unwrap_or_default();
        return Err(failure(&url, status, &headers, &bytes));
    }
    let mut output = content(&headers, &bytes?, status);
    for (name, value) in facts(&url, status, &headers) {
        output.metadata.insert(&name, value);
    }
    Ok(output)
}

/// The bytes of a body without what must not be seen.
fn without(bytes: Bytes, hidden: &[&str]) -> Bytes {
    let mut kept = bytes;
    for shape in hidden.iter().map(|shape| shape.as_bytes()) {
        let mut at = 0;
        let mut clean = Vec::new();
        let found = |from: usize| {
            kept[from..].windows(shape.len()).position(|part| part == shape).map(|n| n + from)
        };
        while let Some(next) = found(at) {
            clean.extend_from_slice(&kept[at..next]);
            clean.extend_from_slice(HIDDEN.as_bytes());
            at = next + shape.len();
        }
        if at > 0 {
            clean.extend_from_slice(&kept[at..]);
            kept = clean.into();
        }
    }
    kept
}

fn without_in_headers(mut headers: HeaderMap, hidden: &[&str]) -> HeaderMap {
    for value in headers.values_mut().filter(|_| !hidden.is_empty()) {
        let clean = without(Bytes::copy_from_slice(value.as_bytes()), hidden);
        if clean != value.as_bytes() {
            *value = HeaderValue::from_bytes(&clean).unwrap_or(HeaderValue::from_static(HIDDEN));
        }
    }
    headers
}

fn content(headers: &HeaderMap, bytes: &Bytes, status: StatusCode) -> Output {
    let kind = header(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    if bytes.is_empty() {
        return Output::text(format!("{status}"));
    }
    if kind == media::JSON
        && let Ok(value) = serde_json::from_slice::<Value>(bytes)
    {
        return Output::json(value);
    }
    let plain = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let looks_like_json = plain.is_empty() && matches!(bytes.first(), Some(b'{' | b'['));
    // Some services call their JSON text, and an answer without a type may be
    // anything.
    if (!plain.is_empty() && media::is_json(&plain) || looks_like_json)
        && let Ok(value) = serde_json::from_slice::<Value>(bytes)
    {
        return Output::json(value);
    }
    match plain.as_str() {
        kind if kind.starts_with("image/") && kind != "image/svg+xml" => {
            Content::new(Body::Image(Data::new(bytes, kind))).into()
        }
        kind if kind.starts_with("audio/") => {
            Content::new(Body::Audio(Data::new(bytes, kind))).into()
        }
        _ => match text(kind, &plain, bytes) {
            Some(text) => Output::text(text),
            None => file(headers, bytes, &plain),
        },
    }
}

/// The body as text, where it is one.
fn text(whole: &str, plain: &str, bytes: &[u8]) -> Option<String> {
    let is_text = plain.is_empty()
        || plain == "image/svg+xml"
        || media::is_json(plain)
        || matches!(media::form(plain), Form::Text | Form::UrlEncoded);
    if !is_text {
        return None;
    }
    match media::charset(whole).as_deref() {
        Some("iso-8859-1" | "latin1" | "us-ascii" | "ascii") => {
            Some(bytes.iter().map(|byte| char::from(*byte)).collect())
        }
        _ => String::from_utf8(bytes.to_vec()).ok(),
    }
}

fn file(headers: &HeaderMap, bytes: &[u8], plain: &str) -> Output {
    let kind = if plain.is_empty() { "application/octet-stream" } else { plain };
    let block = Content::blob(bytes, kind).with_meta("size", bytes.len());
    match filename(headers) {
        Some(name) => block.with_meta("filename", name).into(),
        None => block.into(),
    }
}

/// The name of a file, without the folders that a service may put before it.
fn filename(headers: &HeaderMap) -> Option<String> {
    let text = header(headers, "content-disposition")?;
    let (_, name) = text.split_once("filename=")?;
    let name = name.split(';').next()?.trim().trim_matches('"');
    let name = name.rsplit(['/', '\\']).next()?.trim();
    (!name.is_empty() && name != "." && name != "..").then(|| name.to_owned())
}

/// What is kept of the headers, for people and programs.
fn facts(url: &Url, status: StatusCode, headers: &HeaderMap) -> Vec<(String, Value)> {
    let mut facts = vec![("status".to_owned(), json!(status.as_u16()))];
    let mut kept = Map::new();
    for (name, value) in headers {
        let known = KEPT.contains(&name.as_str())
            || name.as_str().starts_with("x-ratelimit-")
            || name.as_str().starts_with("x-rate-limit-");
        if let (true, Ok(value)) = (known, value.to_str()) {
            kept.insert(name.to_string(), json!(value));
        }
    }
    if !kept.is_empty() {
        facts.push(("headers".to_owned(), Value::Object(kept)));
    }
    let links = links(url, headers);
    if !links.is_empty() {
        facts.push(("links".to_owned(), Value::Object(links)));
    }
    facts
}

/// The pages that RFC 8288's `Link` names, by relation.
fn links(url: &Url, headers: &HeaderMap) -> Map<String, Value> {
    let mut links = Map::new();
    for text in headers.get_all("link").iter().filter_map(|value| value.to_str().ok()) {
        for part in text.split(",").map(str::trim) {
            let Some((target, parameters)) =
                part.strip_prefix('<').and_then(|part| part.split_once('>'))
            else {
                continue;
            };
            let relation = parameters.split(';').find_map(|parameter| {
                let (name, value) = parameter.trim().split_once('=')?;
                (name.trim() == "rel").then(|| value.trim().trim_matches('"').to_owned())
            });
            let address = url.join(target).map_or_else(|_| target.to_owned(), String::from);
            if let Some(relation) = relation.filter(|relation| relation.len() <= 40) {
                links.insert(relation, json!(address));
            }
        }
    }
    links
}

/// The error of an answer that is no success, with the API's own words.
fn failure(url: &Url, status: StatusCode, headers: &HeaderMap, bytes: &[u8]) -> Error {
    let said = said(headers, bytes);
    let error = of_status(url, status, headers, &said);
    if said.is_empty() || error.kind() == ErrorKind::CredentialInvalid && status != 403 {
        return error;
    }
    // The default texts of these kinds have no room for what the API says.
    let feedback = match error.kind() {
        ErrorKind::UpstreamRejected => Text::both(
            format!("The service refused the request ({status}): {said}"),
            format!("服务拒绝了该请求 ({status}): {said}"),
        ),
        ErrorKind::UpstreamFailed => Text::both(
            format!("The service failed ({status}): {said}"),
            format!("服务出错 ({status}): {said}"),
        ),
        ErrorKind::RateLimited => Text::both(
            format!("The rate limit was reached: {said}. Wait a moment, then try again."),
            format!("已达到调用频率上限: {said}。请稍后重试。"),
        ),
        ErrorKind::CredentialInvalid => Text::both(
            format!("The service does not allow this ({status}): {said}"),
            format!("服务不允许此操作 ({status}): {said}"),
        ),
        _ => return error,
    };
    error.with_feedback(feedback)
}

/// What an API says about a failure: RFC 9457's problem, or what others write
/// in its place.
fn said(headers: &HeaderMap, bytes: &[u8]) -> String {
    let kind = header(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let json = serde_json::from_slice::<Value>(bytes).ok();
    let text = match json {
        Some(value) => message(&value).unwrap_or_else(|| value.to_string()),
        None if kind.contains("html") || kind.contains("xml") => return String::new(),
        None => String::from_utf8_lossy(bytes).into_owned(),
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let text: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    super::schema::brief(&text, MAX_SAID)
}

/// The message in an error of JSON.
fn message(value: &Value) -> Option<String> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::trim);
    let own = |key: &str| text(key).filter(|text| !text.is_empty()).map(str::to_owned);
    let inner = ["error", "errors", "fault", "detail"]
        .into_iter()
        .find_map(|key| value.get(key).filter(|inner| inner.is_object() || inner.is_array()));
    let first = [
        "detail",
        "error_description",
        "message",
        "msg",
        "Message",
        "errorMessage",
        "error",
        "title",
        "reason",
        "description",
    ];
    let mut parts: Vec<String> = Vec::new();
    match value {
        Value::String(text) => parts.push(text.clone()),
        Value::Array(items) => parts.extend(items.iter().take(5).filter_map(message)),
        Value::Object(_) => {
            if let (Some(title), Some(detail)) = (own("title"), own("detail")) {
                parts.push(format!("{title}: {detail}"));
            } else {
                parts.extend(first.into_iter().find_map(own));
            }
            // Which fields are wrong is what a model needs most.
            match inner {
                Some(inner @ Value::Object(_)) if parts.is_empty() => parts.extend(message(inner)),
                Some(inner) => parts.push(inner.to_string()),
                None => {}
            }
        }
        _ => {}
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
