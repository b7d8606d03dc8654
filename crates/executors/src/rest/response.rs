//! Turns an API's response into a result, or into an error that a model can act on.

mod failure;

use std::borrow::Cow;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use url::Url;
use windlass::{Body, Content, Data, Error, Output, Secret};

use super::media::{self, Form};
use crate::outbound::Answer;

/// Replacement for redacted text.
const HIDDEN: &str = "[hidden]";
/// Response headers kept with a result: pagination, rate limits, request ids.
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

/// Reads a response to its end. `hidden` are values to redact, in case the API echoes
/// them.
pub(super) async fn read(mut answer: Answer, hidden: &[Secret]) -> Result<Output, Error> {
    let (status, url) = (answer.status(), answer.url().clone());
    let headers = without_in_headers(answer.take_headers(), hidden);
    let bytes = answer.bytes().await.map(|bytes| without(bytes, hidden));
    if !status.is_success() {
        // The body of an error response helps, but is not needed.
        let bytes = bytes.unwrap_or_default();
        return Err(failure::of(&url, status, &headers, without_mark(&bytes)));
    }
    let bytes = bytes?;
    let mut output = content(&headers, &bytes.slice_ref(without_mark(&bytes)), status);
    for (name, value) in facts(&url, status, &headers) {
        output.metadata.insert(&name, value);
    }
    Ok(output)
}

/// Strips the UTF-8 byte order mark, which JSON does not allow.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Redacts a body.
fn without(bytes: Bytes, hidden: &[Secret]) -> Bytes {
    let mut kept = bytes;
    for shape in hidden.iter().map(|shape| shape.expose().as_bytes()) {
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

fn without_in_headers(mut headers: HeaderMap, hidden: &[Secret]) -> HeaderMap {
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
    // Some services label JSON as text, and an unlabelled response may be anything.
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

/// The body as text, if it is.
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

/// The file name, without any directories.
fn filename(headers: &HeaderMap) -> Option<String> {
    let text = header(headers, "content-disposition")?;
    let parameter = |wanted: &str| {
        text.split(';').skip(1).find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim())
        })
    };
    // RFC 6266: `filename*` takes precedence.
    let extended = parameter("filename*").and_then(|value| {
        let mut parts = value.trim_matches('"').splitn(3, '\'');
        let charset = parts.next()?;
        let bytes = percent_decode_str(parts.nth(1)?);
        charset.eq_ignore_ascii_case("utf-8").then(|| bytes.decode_utf8().ok())?
    });
    let plain = || parameter("filename").map(|value| Cow::Borrowed(value.trim_matches('"')));
    let name = extended.or_else(plain)?;
    let name = name.rsplit(['/', '\\']).next()?.trim();
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    (!name.is_empty() && name != "." && name != "..").then_some(name)
}

/// Metadata from status and headers, for people and programs.
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

/// Links of RFC 8288's `Link` header, by relation. URLs are in `<` and `>`, and may
/// contain commas.
fn links(url: &Url, headers: &HeaderMap) -> Map<String, Value> {
    let mut links = Map::new();
    for text in headers.get_all("link").iter().filter_map(|value| value.to_str().ok()) {
        let mut rest = text;
        while let Some((target, behind)) =
            rest.split_once('<').and_then(|(_, rest)| rest.split_once('>'))
        {
            let (parameters, next) = behind.split_at(behind.find('<').unwrap_or(behind.len()));
            rest = next;
            let relation = parameters.trim_end_matches([',', ' ']).split(';').find_map(|one| {
                let (name, value) = one.trim().split_once('=')?;
                let value = value.trim().trim_matches('"');
                name.trim().eq_ignore_ascii_case("rel").then(|| value.to_owned())
            });
            let address = url.join(target).map_or_else(|_| target.to_owned(), String::from);
            if let Some(relation) = relation.filter(|relation| relation.len() <= 40) {
                links.insert(relation, json!(address));
            }
        }
    }
    links
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
