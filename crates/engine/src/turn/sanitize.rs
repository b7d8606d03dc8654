//! Sanitises malformed calls for the conversation: APIs refuse messages with
//! arguments that are not an object, or with names that no tool can have. What
//! runs, and what the model is told about, is the original.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::scan::Scan;
use super::{AnswerForm, ModelCall};
use crate::error::{Error, ErrorKind};
use crate::value::name::ToolName;
use crate::value::text::Text;

/// Maximum length of a name that every API accepts.
const MAX_NAME: usize = 64;

impl ModelCall {
    /// The arguments as an object; empty if they are none.
    pub(super) fn object(&self) -> Value {
        let read = match &self.arguments {
            Value::String(text) => super::lenient_json(text).ok(),
            value => Some(value.clone()),
        };
        read.filter(Value::is_object).unwrap_or_else(|| json!({}))
    }

    /// The arguments as JSON text: the model's own, if that is valid.
    pub(super) fn text(&self) -> String {
        match &self.arguments {
            Value::String(text) if serde_json::from_str::<Value>(text).is_ok() => text.clone(),
            Value::String(_) | Value::Null => "{}".to_owned(),
            value => value.to_string(),
        }
    }

    /// The name, or an acceptable one if no tool can have it.
    pub(super) fn kept_name(&self) -> Cow<'_, str> {
        if ToolName::new(&self.name).is_ok() {
            return Cow::Borrowed(&self.name);
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name = self.name.chars().take(MAX_NAME).map(|c| if fits(c) { c } else { '_' });
        match name.collect::<String>() {
            name if name.is_empty() => Cow::Borrowed("unknown"),
            name => Cow::Owned(name),
        }
    }

    /// Handles a message that was cut at this call: it must not run unless its
    /// arguments are evidently complete. Absent arguments look like those of a
    /// call that takes none.
    pub(super) fn break_off(&mut self) {
        self.is_broken = match &self.arguments {
            _ if self.form == AnswerForm::Custom => true,
            Value::Null => true,
            Value::Object(arguments) => arguments.is_empty(),
            Value::String(text) => {
                let mut scan = Scan::default();
                scan.read(text);
                !scan.is_closed()
            }
            _ => false,
        };
    }
}

/// The error of an incomplete call.
pub(super) fn broke_off() -> Error {
    let why = "the model's message broke off before this call was complete";
    Error::new(ErrorKind::InvalidArguments, why).with_feedback(Text::both(
        "Your message broke off before this call was complete, so it did not run. Make the call \
         again, and send all of it.",
        "你的消息在该调用写完之前就中断了,因此调用没有执行。请重新发出完整的调用。",
    ))
}
