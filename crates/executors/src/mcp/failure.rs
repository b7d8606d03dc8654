//! What goes wrong with a server, and the forms of it that another client of the
//! protocol should see unchanged.

use std::fmt;

use serde_json::Value;
use windlass::{Error, ErrorKind, Output};

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
    /// What a server's tool said, where it failed.
    pub fn of(error: &Error) -> Option<&Self> {
        std::error::Error::source(error)?.downcast_ref()
    }
}

/// The error of a call whose server cannot be reached, or is gone.
pub(super) fn gone(server: &str, why: &str) -> Error {
    // What it said last is for operators.
    let feedback = format!(
        "The server `{server}` could not be reached, or ended before it answered. Try again; if it \
         fails again, find another way. / 服务器 `{server}` 无法访问,或在应答前已结束。请重试;\
         若再次失败,请换一种方式。"
    );
    Error::new(ErrorKind::Network, format!("the server `{server}` {why}")).with_feedback(feedback)
}
