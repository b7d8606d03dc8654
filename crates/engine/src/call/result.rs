//! The result of a call.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::call::content::{Content, Facts, Output, Truncated};
use crate::error::{Error, Violation};
use crate::journal::record::time;
use crate::value::name::CallId;
use crate::value::text::Lang;
use crate::value::usage::Usage;

/// The one result of a call.
#[derive(Clone, Debug)]
pub struct CallResult {
    /// The call's id; its record has the same.
    pub id: CallId,
    /// The id that the model gave the call.
    pub call_ref: Option<Arc<str>>,
    /// The tool's name, as asked for.
    pub tool_name: Arc<str>,
    /// The output, or the error.
    pub outcome: Result<Arc<Output>, Error>,
    /// Number of attempts.
    pub attempts: u32,
    /// The earlier call whose result this is (idempotency key or cache).
    pub same_as: Option<CallId>,
    /// Time in the queue.
    pub queue_wait: Duration,
    /// Execution time.
    pub run_time: Duration,
    /// When the call was received.
    pub created_at: Timestamp,
    /// Model usage of this call and its nested calls; `None` if no model was
    /// asked.
    pub usage: Option<Box<Usage>>,
}

impl CallResult {
    /// Whether the tool gave a result.
    pub fn is_success(&self) -> bool {
        self.outcome.is_ok()
    }

    /// The output of a successful call.
    pub fn output(&self) -> Option<&Output> {
        self.outcome.as_deref().ok()
    }

    /// The error of a failed call.
    pub fn error(&self) -> Option<&Error> {
        self.outcome.as_ref().err()
    }

    /// Metadata about the run, which a tool may report on success and failure;
    /// `None` if a failure has none.
    pub fn metadata(&self) -> Option<&Facts> {
        match &self.outcome {
            Ok(output) => Some(&output.metadata),
            Err(error) => Some(error.metadata()).filter(|facts| !facts.is_empty()),
        }
    }

    /// The text for the model: the output, or the error's feedback.
    pub fn to_text(&self, lang: Lang) -> String {
        match &self.outcome {
            Ok(output) => output.to_text(),
            Err(error) => error.feedback(lang),
        }
    }

    /// The JSON form, shared by CLI, HTTP and events; `lang` is the language of
    /// the feedback.
    pub fn view(&self, lang: Lang) -> ResultView<'_> {
        ResultView { result: self, lang }
    }

    /// The JSON form as a value.
    pub fn to_json(&self, lang: Lang) -> Value {
        serde_json::to_value(self.view(lang)).unwrap_or_default()
    }
}

/// The JSON form of a result. Absent fields are omitted.
#[derive(Clone, Copy)]
pub struct ResultView<'a> {
    result: &'a CallResult,
    lang: Lang,
}

impl Serialize for ResultView<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { result, lang } = *self;
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

impl JsonSchema for ResultView<'_> {
    fn schema_name() -> Cow<'static, str> {
        WireResult::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        WireResult::json_schema(generator)
    }
}

/// The one result of a call.
#[derive(JsonSchema)]
#[schemars(rename = "CallResult")]
#[expect(dead_code, reason = "it only describes what `ResultView` writes")]
struct WireResult {
    /// The call's id; its record has the same.
    call_id: CallId,
    /// The id that the model gave the call.
    call_ref: Option<String>,
    /// The tool.
    tool_name: String,
    /// Whether the tool gave a result.
    is_success: bool,
    /// The result as JSON, or as text where it is none; only of a success.
    output: Option<Value>,
    /// The result as content blocks; only of a success.
    content: Option<Vec<Content>>,
    /// Metadata about the run.
    #[schemars(default)]
    metadata: Facts,
    /// How much of the result is shown, and the handle to the rest.
    truncated: Option<Truncated>,
    /// Error message, for operators.
    error: Option<String>,
    /// Kind of error.
    error_kind: Option<String>,
    /// The kind in the older, coarser naming: one of eight families.
    error_type: Option<String>,
    /// The kind as an upper-case code.
    error_code: Option<String>,
    /// Error text for the model.
    feedback: Option<String>,
    /// Violations of the tool's schema.
    validation_errors: Option<Vec<Violation>>,
    /// When a retry makes sense, in seconds.
    retry_after: Option<f64>,
    /// Number of attempts.
    attempts: u32,
    /// The earlier call whose result this is (idempotency key or cache).
    same_as: Option<CallId>,
    /// Time in the queue, in seconds.
    queue_time: f64,
    /// Execution time, in seconds.
    execution_time: f64,
    /// When the call was received.
    #[schemars(schema_with = "time")]
    executed_at: String,
    /// Model usage of this call and its nested calls.
    usage: Option<Usage>,
}
