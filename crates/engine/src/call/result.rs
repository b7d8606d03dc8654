//! What a caller gets.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::content::{Facts, Output};
use crate::error::Error;
use crate::name::CallId;
use crate::text::Lang;
use crate::usage::Usage;

/// The one result of a call.
#[derive(Clone, Debug)]
pub struct CallResult {
    /// The engine's id of the call; its record has the same.
    pub id: CallId,
    /// The id that the model gave the call.
    pub call_ref: Option<Arc<str>>,
    /// The tool's name, as asked for.
    pub tool_name: Arc<str>,
    /// What came of it.
    pub outcome: Result<Arc<Output>, Error>,
    /// How often it was tried.
    pub attempts: u32,
    /// The earlier call whose result this is.
    pub same_as: Option<CallId>,
    /// How long it waited for a slot.
    pub queue_wait: Duration,
    /// How long it ran.
    pub run_time: Duration,
    /// When the call came.
    pub created_at: Timestamp,
    /// What models took to answer, for this call and those that it made; none
    /// where no model was asked.
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

    /// Facts about the run, which a tool may tell however its call ended; none
    /// where a failure has none.
    pub fn metadata(&self) -> Option<&Facts> {
        match &self.outcome {
            Ok(output) => Some(&output.metadata),
            Err(error) => Some(error.metadata()).filter(|facts| !facts.is_empty()),
        }
    }

    /// What the model reads: the output as text, or the error's feedback.
    pub fn to_text(&self, lang: Lang) -> String {
        match &self.outcome {
            Ok(output) => output.to_text(),
            Err(error) => error.feedback(lang),
        }
    }

    /// The JSON form (S0.24, with our additions).
    pub fn to_json(&self, lang: Lang) -> Value {
        let error = self.error();
        let mut json = json!({
            "call_id": self.id,
            "is_success": self.is_success(),
            "tool_name": self.tool_name,
            "output": self.output().map(|output| {
                output.value().cloned().unwrap_or_else(|| Value::String(output.to_text()))
            }),
            "content": self.output().map(|output| &output.content),
            "error": error.map(Error::message),
            "error_type": error.map(|error| error.kind().info().error_type),
            "error_kind": error.map(Error::kind),
            "error_code": error.map(|error| error.kind().info().code),
            "feedback": error.map(|error| error.feedback(lang)),
            "validation_errors": error.map(Error::violations).unwrap_or_default(),
            "attempts": self.attempts,
            "execution_time": self.run_time.as_secs_f64(),
            "queue_time": self.queue_wait.as_secs_f64(),
            "executed_at": self.created_at,
            "metadata": self.metadata(),
        });
        if let Some(call_ref) = &self.call_ref {
            json["call_ref"] = json!(call_ref);
        }
        if let Some(same_as) = self.same_as {
            json["same_as"] = json!(same_as);
        }
        if let Some(truncated) = self.output().and_then(|output| output.truncated.as_ref()) {
            json["truncated"] = json!(truncated);
        }
        if let Some(usage) = &self.usage {
            json["usage"] = json!(usage);
        }
        json
    }
}
