//! The body of a call, and the context headers, turned into a `CallRequest`.

use std::fmt::Display;
use std::time::Duration;

use axum::http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value};
use windlass::{CallRequest, Caller, CallerType, Context, IdempotencyKey, RetryPolicy, TenantId};

use crate::http::document::shape;
use crate::http::front::problem::Problem;
use crate::state::identity::Identity;

/// One call.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallBody {
    /// The tool's name, or its wire name.
    pub(crate) tool: String,
    /// The arguments: an object, or a text that a model wrote as JSON. Anything
    /// else is a call with wrong arguments, and has a result that says so.
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    /// The id that the model gave the call.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    pub(crate) call_ref: Option<String>,
    /// Timeout: seconds, or a text such as `500ms` or `2m`.
    #[serde(default)]
    pub(crate) timeout: Option<DurationBody>,
    /// Priority from -10 to 10; higher comes first if the strategy is `priority`.
    #[serde(default, deserialize_with = "integer")]
    #[schemars(range(min = -10, max = 10))]
    pub(crate) priority: Option<i32>,
    /// Idempotency key: a call with the same key and arguments does not run again.
    #[serde(default)]
    #[schemars(schema_with = "shape::idempotency_key")]
    pub(crate) idempotency_key: Option<String>,
    /// Maximum number of attempts; more than one allows retries of a side effect.
    #[serde(default, deserialize_with = "integer")]
    #[schemars(range(min = 1, max = RetryPolicy::MAX_ATTEMPTS))]
    pub(crate) attempts: Option<u32>,
    /// The agent or program that calls.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    pub(crate) caller_id: Option<String>,
    /// Who calls.
    #[serde(default)]
    pub(crate) caller_type: Option<CallerKind>,
    /// The conversation that it belongs to.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    pub(crate) conversation_id: Option<String>,
    /// The user on whose behalf it is made.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    pub(crate) user_id: Option<String>,
    /// The name of the credential that it uses, where the provider has several.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    pub(crate) credential: Option<String>,
    /// The workflow that it belongs to.
    #[serde(default)]
    #[schemars(schema_with = "shape::name")]
    pub(crate) workflow_id: Option<String>,
    /// Variables that presets and form parameters may name.
    #[serde(default)]
    pub(crate) variables: Map<String, Value>,
}

/// Reads an integer, however it is written: JSON has one kind of number, and
/// `5.0` is 5.
pub(crate) fn integer<'de, T: TryFrom<i64>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(from)? else { return Ok(None) };
    let whole = number.as_i64().or_else(|| {
        let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
        (number.abs() < 1e15).then_some(number as i64)
    });
    let fits = whole.and_then(|whole| T::try_from(whole).ok());
    fits.map(Some).ok_or_else(|| D::Error::custom(format!("expected an integer, got {number}")))
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

/// Who calls.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallerKind {
    /// An agent in a conversation.
    ConversationAgent,
    /// A node of a workflow; it takes no slot.
    WorkflowNode,
    /// What kind of caller: a program or a person.
    Direct,
}

/// A duration: seconds, or a text with a unit; at most a year.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Span")]
pub(crate) enum DurationBody {
    /// Seconds.
    Seconds(#[schemars(range(min = 0.000001, max = 31536000))] f64),
    /// A number and a unit: `500ms`, `30s`, `2m`, `1h`.
    Text(#[schemars(schema_with = "span")] String),
}

/// A duration as a text.
pub(crate) fn span(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "pattern": "^[1-9][0-9]{0,3}(ms|s|m)$|^[1-9][0-9]{0,2}h$"})
}

/// Whether a text is written as [`span`] says. Settings take more forms than
/// that; here the document says what is taken.
fn is_span(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let most = match &text[digits..] {
        "ms" | "s" | "m" => 4,
        "h" => 3,
        _ => return false,
    };
    (1..=most).contains(&digits) && !text.starts_with('0')
}

impl DurationBody {
    /// The span, at this place of the request.
    pub(crate) fn read(&self, path: &str) -> Result<Duration, Problem> {
        let text = match self {
            Self::Seconds(seconds) => seconds.to_string(),
            Self::Text(text) if is_span(text) => text.clone(),
            Self::Text(_) => {
                let why = "write a number and a unit, such as 500ms, 30s, 2m or 1h, or seconds";
                return Err(Problem::bad("a time span is wrong").at(path, why));
            }
        };
        let span = windlass::duration::parse(&text);
        span.and_then(|span| match span.is_zero() {
            true => Err("must be more than nothing".to_owned()),
            false => Ok(span),
        })
        .map_err(|why| Problem::bad("a time span is wrong").at(path, why))
    }
}

/// The longest text that names something, in characters; records keep them.
pub(crate) const MAX_NAME: usize = 512;

/// Checks a text that names something, if it is there.
pub(crate) fn check_name(path: impl Display, name: Option<&str>) -> Result<(), Problem> {
    let why = match name {
        None => return Ok(()),
        Some("") => "must not be empty",
        Some(name) if name.chars().nth(MAX_NAME).is_some() => "is too long",
        Some(name) if name.chars().any(char::is_control) => "must not hold control characters",
        Some(_) => return Ok(()),
    };
    Err(Problem::bad("a name is wrong").at(path.to_string(), why))
}

/// Checks an idempotency key, if it is there.
pub(crate) fn check_key(at: impl Display, key: Option<&str>) -> Result<(), Problem> {
    key.map_or(Ok(()), IdempotencyKey::check).map_err(|error| {
        Problem::bad("an idempotency key is wrong").at(at.to_string(), error.message())
    })
}

/// The person on whose behalf somebody calls: the one that a request names, if
/// they may, else the one that their key is bound to. `at` is where the request
/// names somebody.
pub(crate) fn user_of(
    who: &Identity,
    named: Option<String>,
    at: impl Display,
) -> Result<Option<String>, Problem> {
    let Some(named) = named else {
        return Ok(who.bound_user().map(|user| user.to_string()));
    };
    if who.may_act_for(&named) {
        return Ok(Some(named));
    }
    let why = "this key does not act for this person";
    Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", why).at(at.to_string(), why).hint(
        "use a key that is bound to the person, or to `*` for a program that serves many people",
    ))
}

impl CallBody {
    /// The call that is asked for. `at` is its place in the request.
    pub(crate) fn request(self, tenant: TenantId, at: &str) -> Result<CallRequest, Problem> {
        self.check_names(at)?;
        let caller = Caller {
            tenant,
            user: self.user_id.map(Into::into),
            caller_type: match self.caller_type {
                Some(CallerKind::ConversationAgent) => CallerType::ConversationAgent,
                Some(CallerKind::WorkflowNode) => CallerType::WorkflowNode,
                Some(CallerKind::Direct) => CallerType::Direct,
                None if self.conversation_id.is_some() => CallerType::ConversationAgent,
                None => CallerType::Direct,
            },
            caller_id: self.caller_id.map(Into::into),
            conversation: self.conversation_id.map(Into::into),
            workflow: self.workflow_id.map(Into::into),
            parent: None,
        };
        let context = self
            .variables
            .into_iter()
            .fold(Context::new(caller), |context, (name, value)| context.variable(&name, value));
        let mut request = CallRequest::new(self.tool, self.arguments).context(context);
        if let Some(call_ref) = self.call_ref {
            request = request.call_ref(call_ref);
        }
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout.read(&format!("{at}/timeout"))?);
        }
        if let Some(priority) = self.priority {
            if !(-10..=10).contains(&priority) {
                let place = format!("{at}/priority");
                return Err(Problem::bad("a number is wrong").at(place, "-10 to 10"));
            }
            request = request.priority(priority);
        }
        if let Some(credential) = self.credential {
            request = request.credential(credential);
        }
        if let Some(key) = self.idempotency_key {
            request = request.idempotency_key(key);
        }
        if let Some(attempts) = self.attempts {
            if !(1..=RetryPolicy::MAX_ATTEMPTS).contains(&attempts) {
                let allowed = format!("1 to {}", RetryPolicy::MAX_ATTEMPTS);
                return Err(Problem::bad("a number is wrong").at(format!("{at}/attempts"), allowed));
            }
            request = request.attempts(attempts);
        }
        Ok(request)
    }

    fn check_names(&self, at: &str) -> Result<(), Problem> {
        let names = [
            ("call_ref", &self.call_ref),
            ("caller_id", &self.caller_id),
            ("conversation_id", &self.conversation_id),
            ("user_id", &self.user_id),
            ("workflow_id", &self.workflow_id),
            ("credential", &self.credential),
        ];
        for (name, value) in names {
            check_name(format_args!("{at}/{name}"), value.as_deref())?;
        }
        let key = self.idempotency_key.as_deref();
        check_key(format_args!("{at}/idempotency_key"), key)
    }
}
