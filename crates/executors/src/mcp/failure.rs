//! What goes wrong with a server, and the forms of it that another client of the
//! protocol should see unchanged.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use windlass::{Content, Error, ErrorKind, Output, Text};

/// What is kept of an error of the protocol.
const MAX_REFUSAL: usize = 8 * 1024;

/// A tool's own failure, with all that the server said about it. It is the cause
/// of an [`Error`], which has only the text.
#[derive(Clone, Debug)]
pub struct ToolFailure(pub Output);

impl fmt::Display for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_text())
    }
}

impl std::error::Error for ToolFailure {}

/// A request that a server refused. It is the cause of an [`Error`], too.
#[derive(Clone, Debug, PartialEq)]
pub struct ProtocolError {
    /// JSON-RPC's code.
    pub code: i32,
    /// What the server said.
    pub message: String,
    /// What else it said.
    pub data: Option<Value>,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ProtocolError {}

impl ProtocolError {
    /// What a server said when it refused something, as far as it is kept: an
    /// error has no room for a book.
    pub(super) fn new(code: i32, message: String, data: Option<Value>) -> Self {
        let fits = |data: &Value| data.to_string().len() <= MAX_REFUSAL;
        Self { code, message: shortened(message, MAX_REFUSAL), data: data.filter(fits) }
    }

    /// The error of a call that a server refused.
    pub fn into_error(self, server: &str) -> Error {
        let kind = match self.code {
            // Its own failure, or one that it has no better word for.
            -32603 | -32099..=-32000 => ErrorKind::UpstreamFailed,
            _ => ErrorKind::UpstreamRejected,
        };
        let why = format!("`{server}` refused: {self}");
        Error::new(kind, why).with_source(self)
    }

    /// What a server refused, where that is why a call failed.
    pub fn of(error: &Error) -> Option<&Self> {
        std::error::Error::source(error)?.downcast_ref()
    }
}

impl ToolFailure {
    /// A failure of which no more is kept than of a result: what does not fit
    /// becomes the beginning of its text.
    pub(super) fn capped(output: Output, max_bytes: usize) -> Self {
        // A short failure keeps its form, however small a result has to be.
        let size = serde_json::to_vec(&output).map_or(usize::MAX, |json| json.len());
        if size <= max_bytes.max(MAX_REFUSAL) {
            return Self(output);
        }
        Self(Output::from(vec![Content::text(shortened(output.to_text(), max_bytes))]))
    }

    /// What a server's tool said, where it failed.
    pub fn of(error: &Error) -> Option<&Self> {
        std::error::Error::source(error)?.downcast_ref()
    }
}

/// The error of a call whose server cannot be reached, or is gone.
pub(super) fn gone(server: &str, why: &str) -> Error {
    // What it said last is for operators.
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

/// The error of a call of a server that is left alone for so long, as it was down
/// the last times. Where it wants something else than time, the error says that.
pub(super) fn resting(server: &str, last: Error, left: Duration) -> Error {
    if !matches!(last.kind(), ErrorKind::Network | ErrorKind::UpstreamFailed) {
        return last;
    }
    // Nobody who comes a moment too early should find the door still closed.
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

/// The error of a call whose answer makes no sense.
pub(super) fn unreadable(server: &str, why: &str) -> Error {
    let why = format!("the answer of the server `{server}` cannot be read: {why}");
    Error::new(ErrorKind::UpstreamFailed, why)
}

/// The error of a call that was answered with something else than an answer.
pub(super) fn useless(server: &str, kind: ErrorKind, what: &str) -> Error {
    Error::new(kind, format!("the server `{server}` answered with {what}"))
}

/// The beginning of what a server said, and how much there was.
fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        let total = text.len();
        text.truncate(text.floor_char_boundary(most));
        text = format!("{text}… [cut: {most} of {total} bytes are shown]");
    }
    text
}
