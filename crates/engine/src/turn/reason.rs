//! Failure reasons of model APIs. Gateways wrap the message of the API behind
//! them, as an object or as JSON text.

use serde_json::Value;

/// Maximum nesting of wrapped messages.
const MAX_DEPTH: usize = 6;
/// Keys of messages, in order of preference.
const WORDS: [&str; 7] =
    ["message", "detail", "msg", "error_description", "description", "reason", "title"];
/// Keys of wrapped errors.
const WITHIN: [&str; 8] =
    ["error", "errors", "message", "detail", "details", "metadata", "raw", "response"];
/// Fallback keys without a message.
const CODES: [&str; 3] = ["type", "status", "code"];

/// The error message for a failure of a model API.
pub(super) fn failure(error: &Value) -> String {
    format!("the model's API failed: {}", failure_reason(error))
}

/// Extracts the reason from the `error` of a model API's response, including a
/// wrapped error of another API.
pub fn failure_reason(error: &Value) -> String {
    let words = words_of(error, 0).or_else(|| {
        let code = CODES.iter().map(|key| &error[*key]).find(|code| !code.is_null())?;
        Some(code.as_str().map_or_else(|| code.to_string(), str::to_owned))
    });
    words.unwrap_or_else(|| "no reason given".to_owned())
}

fn words_of(error: &Value, depth: usize) -> Option<String> {
    if depth > MAX_DEPTH {
        return None;
    }
    match error {
        Value::String(text) => {
            let text = text.trim();
            let inner = text
                .starts_with(['{', '['])
                .then(|| super::lenient_json(text).ok())
                .flatten()
                .and_then(|inner| words_of(&inner, depth + 1));
            inner.or_else(|| (!text.is_empty()).then(|| text.to_owned()))
        }
        Value::Array(errors) => errors.iter().find_map(|error| words_of(error, depth + 1)),
        Value::Object(_) => {
            let own = WORDS.iter().find_map(|key| match &error[*key] {
                text @ Value::String(_) => words_of(text, depth + 1),
                _ => None,
            });
            // A message that was already used is not parsed again.
            let is_told = |key: &str| own.is_some() && key == "message" && error[key].is_string();
            let within = WITHIN
                .iter()
                .filter(|key| !is_told(key))
                .find_map(|key| words_of(&error[*key], depth + 1));
            match (own, within) {
                (Some(own), Some(within)) if !own.contains(&within) => {
                    Some(format!("{own}: {within}"))
                }
                (own, within) => own.or(within),
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_found_however_they_are_wrapped() {
        let inner = r#"{"error": {"type": "x", "message": "no such model"}}"#;
        for error in [
            json!("no such model"),
            json!({"message": "no such model"}),
            json!({"error": {"message": "no such model"}}),
            json!({"message": inner}),
            json!({"message": {"detail": [{"msg": "no such model"}]}}),
            json!([{"error": {"code": 404, "message": "no such model"}}]),
            json!({"detail": "no such model"}),
        ] {
            assert_eq!(failure_reason(&error), "no such model", "{error}");
        }
        let quoted = json!({"message": "Provider returned error", "code": 400,
                            "metadata": {"raw": inner, "provider_name": "x"}});
        assert_eq!(failure_reason(&quoted), "Provider returned error: no such model");
        assert_eq!(failure_reason(&json!({"type": "overloaded_error"})), "overloaded_error");
        assert_eq!(failure_reason(&json!({"code": 500})), "500");
        assert_eq!(failure_reason(&json!({})), "no reason given");
    }
}
