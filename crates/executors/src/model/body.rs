//! Request bodies for model APIs.

use http::Method;
use serde_json::Value;
use url::Url;
use windlass::{Error, ErrorKind};

use crate::outbound::Request;

/// A prompt: what is sent to a model.
#[derive(Clone, Debug)]
pub struct Prompt<'p> {
    /// The system prompt; empty for none.
    pub system: &'p str,
    /// The conversation, in the format of the API.
    pub messages: &'p [Value],
    /// Tool declarations: an array in the format of the API.
    pub tools: &'p Value,
    /// Maximum number of output tokens.
    pub max_tokens: u64,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// Whether to stream the answer.
    pub stream: bool,
}

/// A request to a path below a base URL.
pub(super) fn post(base: &Url, path: &str) -> Result<Request, Error> {
    Ok(Request::new(Method::POST, below(base, path)?))
}

/// Appends a path to a base URL, with or without a trailing slash.
fn below(base: &Url, path: &str) -> Result<Url, Error> {
    let text = format!("{}/{path}", base.as_str().trim_end_matches('/'));
    Url::parse(&text).map_err(|why| {
        Error::new(ErrorKind::InvalidDefinition, format!("the model's address is wrong: {why}"))
    })
}

pub(super) fn has_tools(prompt: &Prompt<'_>) -> bool {
    prompt.tools.as_array().is_some_and(|tools| !tools.is_empty())
}
