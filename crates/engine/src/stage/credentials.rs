//! Stored credentials of providers: where they come from, and what the call
//! gets.

use std::pin::pin;

use super::inject::{InjectedSecrets, require_secrets};
use crate::call::credential::CredentialSource;
use crate::call::{Call, CallOptions};
use crate::engine::Deadline;
use crate::error::{Error, ErrorKind};
use crate::tool::{Tool, ToolSpec};

/// Chooses the credential source of a call. Without one, a call that needs
/// credentials is refused now.
pub(crate) fn choose_credentials<'s>(
    source: Option<&'s dyn CredentialSource>,
    request: &CallOptions,
    tool: &Tool,
    secrets: &InjectedSecrets,
) -> Result<Option<&'s dyn CredentialSource>, Error> {
    if let Some(source) = source
        && tool.spec().provider.is_some()
    {
        return Ok(Some(source));
    }
    no_source(tool.spec(), request)?;
    let has = |name: &str| secrets.iter().any(|(own, _)| own == name);
    require_secrets(tool, request.chosen_credential(), has)?;
    Ok(None)
}

/// Adds the secrets of the source, if there is one, to the call.
pub(crate) async fn add_credentials(
    source: Option<&dyn CredentialSource>,
    request: &CallOptions,
    call: &mut Call,
    until: &Deadline<'_>,
) -> Result<(), Error> {
    match source {
        None => Ok(()),
        Some(source) => Box::pin(ask(source, request, call, until)).await,
    }
}

/// Asks the source, within the call's deadline.
async fn ask(
    source: &dyn CredentialSource,
    request: &CallOptions,
    call: &mut Call,
    until: &Deadline<'_>,
) -> Result<(), Error> {
    let credential = request.chosen_credential();
    let asked = pin!(source.secrets(call.tool.spec(), &call.context.caller, credential));
    let found =
        until.run(&call.context, asked).await.map_err(|stop| until.error(stop, &call.tool))??;
    for (name, secret) in found {
        if call.secret(&name).is_none() {
            call.secrets.push((name, secret));
        }
    }
    require_secrets(&call.tool, credential, |name| call.secret(name).is_some())
}

/// Refuses a call that selects a credential where no source is configured: with
/// another credential it would do something else than intended.
fn no_source(tool: &ToolSpec, request: &CallOptions) -> Result<(), Error> {
    match (request.chosen_credential(), &tool.provider) {
        (Some(name), Some(provider)) => Err(Error::new(
            ErrorKind::CredentialInvalid,
            format!("there is no store to look for the credential `{name}` of `{provider}` in"),
        )),
        _ => Ok(()),
    }
}
