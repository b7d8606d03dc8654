//! Credentials that a store keeps, for tools of providers.

use std::pin::pin;

use crate::call::context::Caller;
use crate::call::{Call, CallRequest};
use crate::engine::Until;
use crate::error::{Error, ErrorKind};
use crate::stage;
use crate::tool::ToolSpec;
use crate::tool::executor::BoxFuture;
use crate::value::secret::Secret;

/// Where the credentials of providers come from. The engine asks it for every
/// call of a tool that names a provider, within the call's time, and forgets
/// what it got with the call.
pub trait CredentialSource: Send + Sync + 'static {
    /// The secrets of the tool's provider (`tool.provider`) for this caller, by
    /// field; an empty list where it has none. `credential` is the name of one
    /// of several, where the call chose it; a name that does not exist is an
    /// error of the kind [`ErrorKind::CredentialInvalid`].
    ///
    /// What the call or its agent carries under the same name comes first.
    fn secrets<'a>(
        &'a self,
        tool: &'a ToolSpec,
        caller: &'a Caller,
        credential: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<(String, Secret)>, Error>>;
}

/// Asks the source for the secrets of a call, no longer than the call may take.
pub(crate) async fn add_secrets(
    source: &dyn CredentialSource,
    call: &mut Call,
    request: &CallRequest,
    until: &Until<'_>,
) -> Result<(), Error> {
    let asked =
        pin!(source.secrets(call.tool.spec(), &call.context.caller, request.chosen_credential()));
    let found = until.run(asked).await.map_err(|stop| until.error(stop, &call.tool))??;
    for (name, secret) in found {
        if call.secret(&name).is_none() {
            call.secrets.push((name, secret));
        }
    }
    stage::require_secrets(&call.tool, request.chosen_credential(), |name| {
        call.secret(name).is_some()
    })
}

/// Refuses a call that names a credential where there are none: with another
/// one it would do something else than it was meant to.
pub(crate) fn no_source(tool: &ToolSpec, request: &CallRequest) -> Result<(), Error> {
    match (request.chosen_credential(), &tool.provider) {
        (Some(name), Some(provider)) => Err(Error::new(
            ErrorKind::CredentialInvalid,
            format!("there is no store to look for the credential `{name}` of `{provider}` in"),
        )),
        _ => Ok(()),
    }
}
