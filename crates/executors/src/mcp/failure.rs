//! Errors of MCP servers, and the protocol's form of them, which is passed on unchanged
//! to clients of the protocol.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use windlass::{Content, Error, ErrorKind, Output, Text};

/// Maximum size of a kept protocol error.
const MAX_REFUSAL: usize = 8 * 1024;

/// A tool's own error (`isError`) with its full content. It is the source of an
/// [`Error`], which has only the text.
#[derive(Clone, Debug)]
pub struct ToolFailure(pub Output);

impl fmt::Display for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_text())
    }
}

impl std::error::Error for ToolFailure {}

/// A JSON-RPC error response. It, too, is the source of an [`Error`].
#[derive(Clone, Debug, PartialEq)]
pub struct ProtocolError {
    /// The JSON-RPC error code.
    pub code: i32,
    /// The error message.
    pub message: String,
    /// Additional data.
    pub data: Option<Value>,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ProtocolError {}

impl ProtocolError {
    /// A JSON-RPC error, shortened to the size that is kept.
    pub(super) fn new(code: i32, message: String, data: Option<Value>) -> Self {
        let fits = |data: &Value| data.to_string().len() <= MAX_REFUSAL;
        Self { code, message: shortened(message, MAX_REFUSAL), data: data.filter(fits) }
    }

    /// The error of a call that a server refused.
    pub fn into_error(self, server: &str) -> Error {
        let kind = match self.code {
            // Internal error, or one of the range for server errors.
            -32603 | -32099..=-32000 => ErrorKind::UpstreamFailed,
            _ => ErrorKind::UpstreamRejected,
        };
        let why = format!("`{server}` refused: {self}");
        Error::new(kind, why).with_source(self)
    }

    /// The JSON-RPC error that caused a call to fail, if one did.
    pub fn of(error: &Error) -> Option<&Self> {
        std::error::Error::source(error)?.downcast_ref()
    }
}

impl ToolFailure {
    /// A tool error of bounded size. A larger one is reduced to the beginning of its
    /// text.
    pub(super) fn capped(output: Output, max_bytes: usize) -> Self {
        // A short error keeps its form, however low the limit for results is.
        let size = serde_json::to_vec(&output).map_or(usize::MAX, |json| json.len());
        if size <= max_bytes.max(MAX_REFUSAL) {
            return Self(output);
        }
        Self(Output::from(vec![Content::text(shortened(output.to_text(), max_bytes))]))
    }

    /// The tool error that caused a call to fail, if one did.
    pub fn of(error: &Error) -> Option<&Self> {
        std::error::Error::source(error)?.downcast_ref()
    }
}

/// The error of a call whose server cannot be reached or has exited.
pub(super) fn gone(server: &str, why: &str) -> Error {
    // The server's last output is only shown to operators.
    let feedback = Text::Many(BTreeMap::from([
        (
            "en".to_owned(),
            format!(
                "The server `{server}` could not be reached, or ended before it answered. Try \
                 again; if it fails again, find another way."
            ),
        ),
        (
            "zh".to_owned(),
            format!(
                "服务器 `{server}` 无法访问,或在应答前已结束。请重试;若再次失败,请换一种方式。"
            ),
        ),
    ]));
    Error::new(ErrorKind::Network, format!("the server `{server}` {why}")).with_feedback(feedback)
}

/// The error of a call while its server is in backoff after failed starts. If the last
/// failure needs something other than time, such as a login, that error is returned.
pub(super) fn resting(server: &str, last: Error, left: Duration) -> Error {
    if !matches!(last.kind(), ErrorKind::Network | ErrorKind::UpstreamFailed) {
        return last;
    }
    // Rounded up, so that a retry after this time is not a moment too early.
    let seconds = left.as_secs() + 1;
    let feedback = Text::Many(BTreeMap::from([
        (
            "en".to_owned(),
            format!(
                "The server `{server}` is down, and is tried again in {seconds} s. Call the tool \
                 after that, or find another way."
            ),
        ),
        (
            "zh".to_owned(),
            format!(
                "服务器 `{server}` 已停止,{seconds} 秒后会再次尝试。请在此之后调用,或换一种方式。"
            ),
        ),
    ]));
    let why = format!("{}; it is tried again in {seconds} s", last.message());
    Error::new(last.kind(), why)
        .with_feedback(feedback)
        .with_retry_after(Duration::from_secs(seconds))
}

/// The error of a call whose response cannot be parsed.
pub(super) fn unreadable(server: &str, why: &str) -> Error {
    let why = format!("the answer of the server `{server}` cannot be read: {why}");
    Error::new(ErrorKind::UpstreamFailed, why)
}

/// The error of a call that got something other than a JSON-RPC response.
pub(super) fn useless(server: &str, kind: ErrorKind, what: &str) -> Error {
    Error::new(kind, format!("the server `{server}` answered with {what}"))
}

/// The beginning of a text, and how long it was.
fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        let total = text.len();
        text.truncate(text.floor_char_boundary(most));
        text = format!("{text}… [cut: {most} of {total} bytes are shown]");
    }
    text
}
