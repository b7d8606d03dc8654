//! Steps that wait: `ask` and `wait`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass::{BoxFuture, Error, ErrorKind, Tools};

use super::formula::Formula;
use super::reader::{Fields, Names, Reading, StepRead, kind_of};
use crate::log::{Ask, Wait, Wake};
use crate::run::At;
use crate::step::{Done, Halt, Step};

/// `ask`: a question to a person.
struct AskPerson {
    text: Formula,
    actions: Vec<String>,
    form: Option<Value>,
    who: Vec<String>,
    expires: Option<Duration>,
    /// The value if nobody answers in time; without one the step fails.
    otherwise: Option<Formula>,
}

pub(super) fn ask(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
) -> Option<StepRead> {
    let key = fields.key_of("ask");
    let value = fields.get("ask")?;
    if let Value::String(_) = value {
        let text = reading.formula(value, &key, names)?;
        let actions = vec!["approve".to_owned(), "reject".to_owned()];
        let (form, who, expires, otherwise) = (None, Vec::new(), None, None);
        return Some(StepRead::new(AskPerson { text, actions, form, who, expires, otherwise }));
    }
    let mut own = reading.fields(value, &key, "`ask`")?;
    let text = match own.get("text") {
        Some(text) => reading.formula(text, &own.key_of("text"), names),
        None => {
            let hint =
                "write `ask: {text: \"Refund ${order.total}?\", actions: [approve, reject]}`";
            reading.flaw(&key, "`ask` needs a `text`", hint);
            None
        }
    };
    let form = own.get("form").cloned();
    if let Some(form) = &form
        && let Err(error) = windlass::definition::check_schema(form)
    {
        let hint = "write a JSON Schema: `{type: object, properties: {reason: {type: string}}}`";
        reading.flaw(&own.key_of("form"), error.message(), hint);
    }
    let actions = match own.get("actions") {
        Some(actions) => reading.texts(actions, &own.key_of("actions")).unwrap_or_default(),
        None if form.is_some() => vec!["submit".to_owned()],
        None => vec!["approve".to_owned(), "reject".to_owned()],
    };
    let who = match own.get("who") {
        Some(who) => reading.texts(who, &own.key_of("who")).unwrap_or_default(),
        None => Vec::new(),
    };
    let expires = own.get("expires").and_then(|span| reading.span(span, &own.key_of("expires")));
    let otherwise = match own.get("otherwise") {
        Some(value) => Some(reading.formula(value, &own.key_of("otherwise"), names)?),
        None => None,
    };
    reading.finish(&own);
    Some(StepRead::new(AskPerson { text: text?, actions, form, who, expires, otherwise }))
}

impl Step for AskPerson {
    fn kind(&self) -> &'static str {
        "ask"
    }

    fn may_change(&self, _: &Tools) -> bool {
        false
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        Box::pin(async move {
            let text = match self.text.at(at)? {
                Value::String(text) => text,
                other => other.to_string(),
            };
            let (actions, form, who) = (self.actions.clone(), self.form.clone(), self.who.clone());
            let expires = self.expires.unwrap_or(at.limits().waiting);
            let until = Timestamp::now().checked_add(expires).ok();
            let answer = at.ask(Ask { text, actions, form, who }, until).await?;
            match (answer, &self.otherwise) {
                (Some(answer), _) => Ok(Done::new(answer)),
                (None, Some(otherwise)) => Ok(Done::new(otherwise.at(at)?)),
                (None, None) => {
                    let span = windlass::duration::format(expires);
                    let why = format!("nobody answered within {span}");
                    Err(Error::new(ErrorKind::Timeout, why).nothing_done().into())
                }
            }
        })
    }
}

/// `wait`: a pause, or a signal.
enum Pause {
    For(Duration),
    Until(Formula),
    Signal { name: Arc<str>, expires: Option<Duration>, otherwise: Option<Formula> },
}

pub(super) fn wait(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
) -> Option<StepRead> {
    const HINT: &str =
        "write `wait: 5m`, `wait: {until: \"${order.due}\"}` or `wait: {signal: paid}`";
    let key = fields.key_of("wait");
    let value = fields.get("wait")?;
    if matches!(value, Value::String(_) | Value::Number(_)) {
        return Some(StepRead::new(Pause::For(reading.span(value, &key)?)));
    }
    let mut own = reading.fields(value, &key, "`wait`")?;
    let (span, until, signal) = (own.get("for"), own.get("until"), own.get("signal"));
    let expires = own.get("expires").and_then(|span| reading.span(span, &own.key_of("expires")));
    let otherwise = match own.get("otherwise") {
        Some(value) => Some(reading.formula(value, &own.key_of("otherwise"), names)?),
        None => None,
    };
    let pause = match (span, until, signal) {
        (Some(span), None, None) => Pause::For(reading.span(span, &own.key_of("for"))?),
        (None, Some(until), None) => {
            Pause::Until(reading.formula(until, &own.key_of("until"), names)?)
        }
        (None, None, Some(name)) => {
            let name = reading.text(name, &own.key_of("signal"))?;
            Pause::Signal { name: name.into(), expires, otherwise }
        }
        _ => {
            reading.flaw(&key, "`wait` says one of `for`, `until` and `signal`", HINT);
            return None;
        }
    };
    reading.finish(&own);
    Some(StepRead::new(pause))
}

impl Step for Pause {
    fn kind(&self) -> &'static str {
        "wait"
    }

    fn may_change(&self, _: &Tools) -> bool {
        false
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        Box::pin(async move {
            let after =
                |span: Duration| Timestamp::now().checked_add(span).unwrap_or(Timestamp::MAX);
            let wait = match self {
                Self::For(span) => Wait::Time { until: after(*span) },
                Self::Until(formula) => Wait::Time { until: time(&formula.at(at)?)? },
                Self::Signal { name, expires, .. } => {
                    let until = after(expires.unwrap_or(at.limits().waiting));
                    Wait::Signal { name: Arc::clone(name), until: Some(until) }
                }
            };
            let woken = at.wait(wait).await?;
            match (self, woken) {
                (_, Wake::Message { value, .. }) => Ok(Done::new(value)),
                (Self::Signal { otherwise: Some(otherwise), .. }, _) => {
                    Ok(Done::new(otherwise.at(at)?))
                }
                (Self::Signal { name, .. }, _) => {
                    let why = format!("the signal `{name}` did not come in time");
                    Err(Error::new(ErrorKind::Timeout, why).nothing_done().into())
                }
                (Self::For(_) | Self::Until(_), _) => {
                    Ok(Done::new(json!({"at": Timestamp::now()})))
                }
            }
        })
    }
}

/// The time that a value names.
fn time(value: &Value) -> Result<Timestamp, Error> {
    let read = match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(seconds) => seconds.as_i64().and_then(|it| Timestamp::from_second(it).ok()),
        _ => None,
    };
    read.ok_or_else(|| {
        let why = format!(
            "`until` is a time such as `2026-01-31T09:00:00Z`, or seconds since 1970, found {}",
            kind_of(value)
        );
        Error::new(ErrorKind::ToolError, why).nothing_done()
    })
}
