//! Hosted calls of OpenAI's Responses, which the API has run itself although
//! they look like the caller's: xAI writes its own searches as
//! `custom_tool_call` items, and a shell may run in a container of the API.

use std::collections::HashSet;

use serde_json::Value;

/// Prefix of the ids of xAI's own searches.
const OWN_ID: &str = "xs_call";
/// Names of the tools that xAI runs itself.
const OWN_NAMES: [&str; 6] = [
    "x_keyword_search",
    "x_semantic_search",
    "x_thread_fetch",
    "x_user_search",
    "browse_page",
    "web_search_with_snippets",
];
/// Tool types with which a caller can declare custom tools.
const CUSTOM: [&str; 3] = ["custom", "namespace", "tool_search"];

/// Which calls of a response are hosted.
#[derive(Clone, Debug, Default)]
pub(super) struct HostedCalls {
    /// Whether the caller declared custom tools; unknown if the response does
    /// not repeat the tools.
    has_custom: Option<bool>,
    /// Ids of calls that already have an answer.
    answered: HashSet<String>,
}

impl HostedCalls {
    /// Reads the metadata of a response: its model and its tools.
    pub(super) fn hear(&mut self, response: &Value) {
        let is_custom = |tool: &Value| tool["type"].as_str().is_some_and(|it| CUSTOM.contains(&it));
        if let Some(tools) = response["tools"].as_array().filter(|tools| !tools.is_empty()) {
            self.has_custom = Some(tools.iter().any(is_custom));
        } else if response["model"].as_str().is_some_and(|model| model.starts_with("grok")) {
            self.has_custom = Some(false);
        }
    }

    /// Reads an output item that may answer another one.
    pub(super) fn hear_item(&mut self, item: &Value) {
        let is_output = item["type"].as_str().is_some_and(|kind| kind.ends_with("_output"));
        if let Some(id) = item["call_id"].as_str().filter(|_| is_output) {
            self.answered.insert(id.to_owned());
        }
    }

    /// Whether the API runs the call of an item.
    pub(super) fn runs(&self, item: &Value) -> bool {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str().unwrap_or_default() {
            _ if self.answered.contains(id) => true,
            "custom_tool_call" => {
                let has_own_name =
                    || item["name"].as_str().is_some_and(|it| OWN_NAMES.contains(&it));
                id.starts_with(OWN_ID) || self.has_custom.map_or_else(has_own_name, |has| !has)
            }
            "shell_call" => {
                let place = item["environment"]["type"].as_str().unwrap_or("local");
                place != "local"
            }
            _ => false,
        }
    }
}
