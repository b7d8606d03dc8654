//! Results and records, as the API shows them.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use windlass::{CallResult, Content, ErrorKind, Lang};

use super::problem::Problem;
use super::shape::{self, ContentDoc, TruncatedDoc, UsageDoc, ViolationDoc};

/// A result, written without a detour.
pub(crate) struct ResultView<'a>(pub(crate) &'a CallResult, pub(crate) Lang);

impl Serialize for ResultView<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(result, lang) = *self;
        let mut view = to.serialize_struct("CallResult", 17)?;
        view.serialize_field("call_id", &result.id)?;
        if let Some(call_ref) = &result.call_ref {
            view.serialize_field("call_ref", call_ref)?;
        }
        view.serialize_field("tool_name", &result.tool_name)?;
        view.serialize_field("is_success", &result.is_success())?;
        match &result.outcome {
            Ok(output) => {
                match output.value() {
                    Some(value) => view.serialize_field("output", value)?,
                    None => view.serialize_field("output", &output.to_text())?,
                }
                view.serialize_field("content", &output.content)?;
                if !output.metadata.is_empty() {
                    view.serialize_field("metadata", &output.metadata)?;
                }
                if let Some(truncated) = &output.truncated {
                    view.serialize_field("truncated", truncated)?;
                }
            }
            Err(error) => {
                let info = error.kind().info();
                view.serialize_field("error", error.message())?;
                view.serialize_field("error_kind", info.name)?;
                view.serialize_field("error_type", info.error_type)?;
                view.serialize_field("error_code", info.code)?;
                view.serialize_field("feedback", &error.feedback(lang))?;
                if !error.violations().is_empty() {
                    view.serialize_field("validation_errors", error.violations())?;
                }
                if !error.metadata().is_empty() {
                    view.serialize_field("metadata", error.metadata())?;
                }
                if let Some(after) = error.retry_after() {
                    view.serialize_field("retry_after", &after.as_secs_f64())?;
                }
            }
        }
        view.serialize_field("attempts", &result.attempts)?;
        if let Some(same_as) = &result.same_as {
            view.serialize_field("same_as", same_as)?;
        }
        view.serialize_field("queue_time", &result.queue_wait.as_secs_f64())?;
        view.serialize_field("execution_time", &result.run_time.as_secs_f64())?;
        view.serialize_field("executed_at", &result.created_at)?;
        if let Some(usage) = &result.usage {
            view.serialize_field("usage", usage)?;
        }
        view.end()
    }
}

/// The one result of a call.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "CallResult")]
pub(crate) struct ResultDoc {
    /// The call's id; its record has the same.
    #[schemars(schema_with = "shape::id")]
    call_id: String,
    /// The id that the model gave the call.
    call_ref: Option<String>,
    /// The tool.
    tool_name: String,
    /// Whether the tool gave a result.
    is_success: bool,
    /// The result as JSON, or as text where it is none; only of a success.
    output: Option<Value>,
    /// The result as content blocks; only of a success.
    content: Option<Vec<ContentDoc>>,
    /// What the tool tells besides.
    #[serde(default)]
    #[schemars(schema_with = "shape::object")]
    metadata: Option<Value>,
    /// How much of the result is shown, and the handle to the rest.
    truncated: Option<TruncatedDoc>,
    /// What went wrong, for operators.
    error: Option<String>,
    /// What kind of error.
    error_kind: Option<String>,
    /// The kind in the words of S0.
    error_type: Option<String>,
    /// The kind as a code.
    error_code: Option<String>,
    /// What went wrong, for the model.
    feedback: Option<String>,
    /// What is wrong with the arguments.
    validation_errors: Option<Vec<ViolationDoc>>,
    /// When to try again, in seconds.
    retry_after: Option<f64>,
    /// How often it was tried.
    attempts: u32,
    /// The earlier call whose result this is.
    #[serde(default)]
    #[schemars(schema_with = "shape::maybe_id")]
    same_as: Option<String>,
    /// How long it waited for a slot, in seconds.
    queue_time: f64,
    /// How long it ran, in seconds.
    execution_time: f64,
    /// When the call came.
    #[schemars(schema_with = "shape::time")]
    executed_at: String,
    /// What models took to answer, for this call and those that it made.
    usage: Option<UsageDoc>,
}

/// The HTTP answer of a call. Whatever came of it is a result, and 200; only
/// where the server had no room or no database for it, that is the server's
/// failure and says so to proxies and clients that know nothing of tools.
pub(crate) fn answer(result: &CallResult, lang: Lang) -> Response {
    match result.error() {
        Some(error) if is_ours(error.kind()) => Problem::from(error.clone())
            .result(json!(ResultView(result, lang)))
            .retry_after(error.retry_after().or(Some(std::time::Duration::from_secs(1))))
            .into_response(),
        // A person has been asked; the result comes later.
        Some(error) if error.kind() == ErrorKind::ApprovalRequired => {
            let mut response = with_status(StatusCode::ACCEPTED, &ResultView(result, lang));
            if let Ok(place) = HeaderValue::from_str(&format!("/v1/approvals/{}", result.id)) {
                response.headers_mut().insert(header::LOCATION, place);
            }
            response
        }
        _ => ok(&ResultView(result, lang)),
    }
}

fn is_ours(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::QueueFull
            | ErrorKind::RateLimited
            | ErrorKind::QuotaExceeded
            | ErrorKind::StorageUnavailable
    )
}

/// Something as JSON.
pub(crate) fn ok<T: Serialize>(body: &T) -> Response {
    with_status(StatusCode::OK, body)
}

pub(crate) fn with_status<T: Serialize>(status: StatusCode, body: &T) -> Response {
    // Most answers fit, and need not be moved while they are written.
    let mut bytes = Vec::with_capacity(1024);
    match serde_json::to_writer(&mut bytes, body) {
        Ok(()) => {
            let mut response = Response::new(bytes.into());
            *response.status_mut() = status;
            // With room for those that every answer gets.
            let mut headers = HeaderMap::with_capacity(8);
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *response.headers_mut() = headers;
            response
        }
        Err(error) => Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("the answer has no JSON form: {error}"),
        )
        .into_response(),
    }
}

/// Content, for events.
pub(crate) fn content(content: &Content) -> Value {
    json!(content)
}
