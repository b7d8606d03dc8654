//! Injects what the model must not choose: presets, form parameters, secrets.
//!
//! Values are literal: a placeholder such as `{{secret}}` in an argument or
//! preset has no meaning here.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::call::context::Context;
use crate::error::{Error, ErrorKind, Violation, phrase};
use crate::journal::OpenCall;
use crate::tool::{FilledBy, HiddenParameter, PresetValue, Tool};
use crate::value::pointer;
use crate::value::secret::Secret;

/// The secrets of a call, by parameter.
pub(crate) type InjectedSecrets = Vec<(String, Secret)>;

/// Adds the hidden parameters of a tool to the arguments.
pub(crate) fn inject(tool: &Tool, open: &mut OpenCall) -> Result<InjectedSecrets, Error> {
    let mut secrets = InjectedSecrets::new();
    if tool.hidden().is_empty() {
        return Ok(secrets);
    }
    let (context, arguments) = open.context_and_arguments();
    let Value::Object(arguments) = Arc::make_mut(arguments) else {
        return Err(Error::new(ErrorKind::Internal, "the arguments are not an object"));
    };
    refuse_hidden(tool, arguments)?;
    for parameter in tool.hidden() {
        match parameter.filled_by {
            FilledBy::Secret => {
                if let Some(secret) = find_secret(parameter, context) {
                    secrets.push((parameter.name.clone(), secret));
                }
            }
            FilledBy::Form | FilledBy::Model => {
                if parameter.overridable && arguments.contains_key(&parameter.name) {
                    continue;
                }
                if let Some(value) = find_value(parameter, context) {
                    arguments.insert(parameter.name.clone(), value.clone());
                }
            }
        }
    }
    Ok(secrets)
}

/// Refuses a call without a required secret.
pub(super) fn require_secrets(
    tool: &Tool,
    credential: Option<&str>,
    has: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let missing = tool.hidden().iter().find(|parameter| {
        parameter.required && parameter.filled_by == FilledBy::Secret && !has(&parameter.name)
    });
    missing.map_or(Ok(()), |parameter| Err(missing_secret(tool, credential, &parameter.name)))
}

fn missing_secret(tool: &Tool, credential: Option<&str>, field: &str) -> Error {
    let why = match (&tool.spec().provider, credential) {
        (None, _) => format!("the secret `{field}` is not set; give it with the call"),
        (Some(provider), None) => format!(
            "the provider `{provider}` needs a credential, but its `{field}` is not set; add a \
             credential with this field for `{provider}`, or give the secret with the call"
        ),
        (Some(provider), Some(name)) => format!(
            "the credential `{name}` of the provider `{provider}` has no `{field}`; add it there, \
             or choose another credential"
        ),
    };
    Error::new(ErrorKind::CredentialInvalid, why)
}

/// Refuses arguments that set hidden parameters. The value is not repeated.
fn refuse_hidden(tool: &Tool, arguments: &Map<String, Value>) -> Result<(), Error> {
    let sent: Vec<Violation> = tool
        .hidden()
        .iter()
        .filter(|parameter| !parameter.overridable && arguments.contains_key(&parameter.name))
        .map(|parameter| Violation {
            path: format!("/{}", pointer::escape(&parameter.name)),
            expected: phrase::NO_SUCH_PARAMETER.text(),
            got: phrase::HIDDEN.text(),
        })
        .collect();
    if sent.is_empty() { Ok(()) } else { Err(Error::invalid_arguments(sent)) }
}

fn find_value<'a>(parameter: &'a HiddenParameter, context: &'a Context) -> Option<&'a Value> {
    match &parameter.preset {
        Some(PresetValue::Value(value)) => Some(value),
        Some(PresetValue::Variable(name)) => context.variables.get(name),
        Some(PresetValue::Secret(_)) => None,
        None => context.variables.get(&parameter.name),
    }
}

fn find_secret(parameter: &HiddenParameter, context: &Context) -> Option<Secret> {
    if let Some(PresetValue::Secret(secret)) = &parameter.preset {
        return Some(secret.clone());
    }
    let agent = context.agent.as_ref();
    context
        .secrets
        .get(&parameter.name)
        .or_else(|| agent.and_then(|agent| agent.secrets.get(&parameter.name)))
        .cloned()
}
