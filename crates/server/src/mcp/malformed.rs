//! Errors for requests that could not be parsed.
//!
//! A request with a known method but invalid parameters arrives as an unknown one;
//! its sender gets an error that says what is invalid.

#![expect(deprecated, reason = "clients with a session set levels")]

use rmcp::model::{
    CallToolRequestParams, CompleteRequestParams, GetPromptRequestParams, InitializeRequestParams,
    PaginatedRequestParams, ReadResourceRequestParams, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionsListenRequestParams, UnsubscribeRequestParams,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Methods of only one of the two protocols.
const OLDER: [&str; 4] =
    ["initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
const NEWER: [&str; 1] = ["subscriptions/listen"];

/// Why the parameters of a method do not fit; none if the client's protocol has no such
/// method.
pub(super) fn fault(method: &str, params: Option<Value>, is_modern: bool) -> Option<String> {
    let others: &[&str] = if is_modern { &OLDER } else { &NEWER };
    if others.contains(&method) {
        return None;
    }
    let read: fn(Value) -> Option<String> = match method {
        "initialize" => misfit::<InitializeRequestParams>,
        "tools/call" => misfit::<CallToolRequestParams>,
        "prompts/get" => misfit::<GetPromptRequestParams>,
        "resources/read" => misfit::<ReadResourceRequestParams>,
        "resources/subscribe" => misfit::<SubscribeRequestParams>,
        "resources/unsubscribe" => misfit::<UnsubscribeRequestParams>,
        "subscriptions/listen" => misfit::<SubscriptionsListenRequestParams>,
        "completion/complete" => misfit::<CompleteRequestParams>,
        "logging/setLevel" => misfit::<SetLevelRequestParams>,
        "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
            misfit::<PaginatedRequestParams>
        }
        _ => return None,
    };
    let why = match params {
        Some(params) => read(params).unwrap_or_else(|| "they do not fit".to_owned()),
        None => "they are missing".to_owned(),
    };
    Some(format!("the params of {method} are wrong: {why}"))
}

fn misfit<T: DeserializeOwned>(params: Value) -> Option<String> {
    serde_json::from_value::<T>(params).err().map(|error| error.to_string())
}
