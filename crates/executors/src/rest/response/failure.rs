//! Error responses: maps the status to a kind of error, and quotes the API's message.

use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use url::Url;
use windlass::{Error, ErrorKind, Text};

use super::header;
use crate::outbound::of_status;
use crate::rest::schema::brief;

/// Maximum length of the API's message in the feedback to the model.
const MAX_SAID: usize = 1_000;

/// The error for an unsuccessful response, with the API's own message.
pub(super) fn of(url: &Url, status: StatusCode, headers: &HeaderMap, bytes: &[u8]) -> Error {
    if let (true, Some(location)) = (status.is_redirection(), header(headers, LOCATION.as_str())) {
        return redirected(url, status, headers, location);
    }
    let said = said(headers, bytes);
    let error = of_status(url, status, headers, &said);
    if said.is_empty() {
        return error;
    }
    // The default texts of these kinds do not quote the API.
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
        ErrorKind::CredentialInvalid if status == 401 => Text::both(
            format!("Authentication failed: {said}. The tool's credential has to be mended."),
            format!("认证失败: {said}。需要更正工具凭证。"),
        ),
        ErrorKind::CredentialInvalid => Text::both(
            format!("The service does not allow this ({status}): {said}"),
            format!("服务不允许此操作 ({status}): {said}"),
        ),
        _ => return error,
    };
    error.with_feedback(feedback)
}

/// A redirect that was not followed, because requests with side effects are not repeated.
fn redirected(url: &Url, status: StatusCode, headers: &HeaderMap, location: &str) -> Error {
    let target = url.join(location).map_or_else(|_| location.to_owned(), String::from);
    let target = brief(&target, MAX_SAID);
    let error = of_status(url, status, headers, &format!("it leads to {target}"));
    error.with_feedback(match status.as_u16() {
        // The request succeeded; the result is at another URL.
        303 => Text::both(
            format!(
                "The service took the request, and says that the answer is at {target}. That was \
                 not fetched. Do not send the request again."
            ),
            format!("服务已接受该请求, 结果位于 {target}, 但未获取。请勿重复发送该请求。"),
        ),
        _ => Text::both(
            format!(
                "The service redirects the request ({status}) to {target}. It was not sent there."
            ),
            format!("服务将该请求重定向 ({status}) 到 {target}, 请求未发送到该地址。"),
        ),
    })
}

/// The error message in a body: RFC 9457 problem details, or common alternatives.
fn said(headers: &HeaderMap, bytes: &[u8]) -> String {
    let kind = header(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let json = serde_json::from_slice::<Value>(bytes).ok();
    let text = match json {
        Some(value) => message(&value).unwrap_or_else(|| value.to_string()),
        None if kind.contains("html") => return String::new(),
        None if kind.contains("xml") => in_xml(&String::from_utf8_lossy(bytes)),
        None => String::from_utf8_lossy(bytes).into_owned(),
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let text: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    brief(&text, MAX_SAID)
}

/// The message in a JSON error.
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
            // A model most needs to know which fields are wrong.
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

/// The message in an XML error: the text of the first element with a matching name.
fn in_xml(text: &str) -> String {
    const NAMES: [&str; 7] =
        ["message", "faultstring", "detail", "errormessage", "description", "title", "error"];
    let named = |wanted: &str| {
        text.match_indices('<').find_map(|(at, _)| {
            let (tag, behind) = text[at + 1..].split_once('>')?;
            let name = tag.split_whitespace().next()?;
            let name = name.rsplit(':').next()?;
            let (words, _) = behind.split_once("</").filter(|(words, _)| !words.contains('<'))?;
            let said = name.eq_ignore_ascii_case(wanted) && !words.trim().is_empty();
            said.then(|| words.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
        })
    };
    NAMES.into_iter().find_map(named).unwrap_or_default()
}
