//! Errors of model APIs, whether they come as an HTTP status, in an answer or in the
//! middle of a stream. The only place that interprets an API's own error codes.

use serde_json::Value;
use windlass::{Error, ErrorKind, Secret, Veil, failure_reason};

/// A failed or interrupted model request.
#[derive(Debug)]
pub struct Refused {
    /// What went wrong.
    pub error: Error,
    /// Whether and when to retry.
    pub again: Again,
}

/// How to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// At once: the stream broke off.
    AtOnce,
    /// After a backoff.
    Later,
    /// With another model: this one is overloaded.
    Elsewhere,
}

impl Refused {
    /// The stream broke off.
    pub fn broken(error: Error) -> Self {
        Self { error, again: Again::AtOnce }
    }

    /// The error in an event or an answer, if it is one.
    pub(super) fn of(event: &Value) -> Option<Self> {
        let error = event.get("error").filter(|error| !error.is_null())?;
        let why = failure_reason(error);
        // A gateway may wrap the error of the API behind it.
        let error = match &error["error"] {
            within @ Value::Object(_) => within,
            _ => error,
        };
        // Anthropic and OpenAI have an error type, Gemini a status, others an HTTP status
        // code.
        let words = [&error["type"], &error["status"], &error["code"]];
        let word = words.iter().find_map(|word| word.as_str()).unwrap_or_default();
        let status = error["code"].as_u64().unwrap_or_default();
        let is_overloaded =
            matches!(word, "overloaded_error" | "server_is_overloaded" | "UNAVAILABLE")
                || matches!(status, 503 | 529);
        let kind = match (word, status) {
            ("rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED", _) | (_, 429) => {
                ErrorKind::RateLimited
            }
            ("authentication_error" | "permission_error", _)
            | ("UNAUTHENTICATED" | "PERMISSION_DENIED", _)
            | (_, 401 | 403) => ErrorKind::CredentialInvalid,
            ("invalid_request_error" | "not_found_error", _)
            | ("INVALID_ARGUMENT" | "NOT_FOUND", _)
            | (_, 400 | 404) => ErrorKind::UpstreamRejected,
            _ => ErrorKind::UpstreamFailed,
        };
        let again = if is_overloaded { Again::Elsewhere } else { Again::Later };
        Some(Self { error: Error::new(kind, format!("the model's API failed: {why}")), again })
    }

    /// Redacts the API key.
    pub(super) fn under(self, veil: &Veil) -> Self {
        Self { error: veil.over_error(self.error), ..self }
    }
}

/// Redacts the API key in an error, in case the API has echoed it.
pub(super) fn without(error: Error, key: Option<&Secret>) -> Error {
    Veil::new(key).over_error(error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_api_says_in_its_own_way_what_went_wrong() {
        let kinds = [
            (json!({"type": "overloaded_error"}), ErrorKind::UpstreamFailed, Again::Elsewhere),
            (
                json!({"code": 503, "status": "UNAVAILABLE"}),
                ErrorKind::UpstreamFailed,
                Again::Elsewhere,
            ),
            (json!({"code": 429, "message": "slow"}), ErrorKind::RateLimited, Again::Later),
            (json!({"type": "authentication_error"}), ErrorKind::CredentialInvalid, Again::Later),
            (json!({"code": "invalid_request_error"}), ErrorKind::UpstreamRejected, Again::Later),
            (json!("out of memory"), ErrorKind::UpstreamFailed, Again::Later),
        ];
        for (error, kind, again) in kinds {
            let refused = Refused::of(&json!({"error": error})).unwrap();
            assert_eq!((refused.error.kind(), refused.again), (kind, again), "{error}");
        }
        assert!(Refused::of(&json!({"error": null, "choices": []})).is_none());
    }
}
