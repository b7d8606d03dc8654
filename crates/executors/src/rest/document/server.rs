//! Base URLs of an API.

use serde_json::Value;

use super::reference::At;

/// Maximum length of a URL.
const MAX_ADDRESS: usize = 2_000;

/// The URLs under `servers`, with variables replaced by their defaults.
pub(super) fn read(at: At<'_>) -> Vec<String> {
    at.list("servers").filter_map(address).collect()
}

fn address(server: At<'_>) -> Option<String> {
    let mut rest = server.text("url")?.trim();
    let mut url = String::new();
    // In one pass: variables in values of variables are not expanded.
    while let Some((before, (name, behind))) =
        rest.split_once('{').and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        url.push_str(before);
        let value = server.get("variables").and_then(|all| all.get(name)).and_then(|variable| {
            let first = variable.list("enum").next().and_then(|value| text(value.value));
            variable.value.get("default").and_then(text).or(first)
        });
        match value {
            Some(value) => url.push_str(&value),
            // A variable without a default stays visible.
            None => url.extend(["{", name, "}"]),
        }
        rest = behind;
        if url.len() > MAX_ADDRESS {
            return None;
        }
    }
    url.push_str(rest);
    (url.len() <= MAX_ADDRESS).then_some(url)
}

/// Defaults should be strings, but `default: 8443` is common.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The base URL from Swagger's `schemes`, `host` and `basePath`.
pub(super) fn of_swagger(root: At<'_>, operation: Option<At<'_>>) -> Vec<String> {
    let own = operation.filter(|at| at.value.get("schemes").is_some());
    let schemes: Vec<&str> =
        own.unwrap_or(root).list("schemes").filter_map(|scheme| scheme.value.as_str()).collect();
    let scheme = ["https", "http"].into_iter().find(|scheme| schemes.contains(scheme));
    let base = root.text("basePath").unwrap_or("/").trim();
    match root.text("host").map(str::trim).filter(|host| !host.is_empty()) {
        Some(host) => vec![format!("{}://{host}{base}", scheme.unwrap_or("https"))],
        // Relative to the document's own URL.
        None => vec![base.to_owned()],
    }
}
