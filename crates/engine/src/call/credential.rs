//! Stored credentials of providers.

use std::pin::pin;

use crate::call::context::Caller;
use crate::call::{Call, CallRequest};
use crate::engine::Deadline;
use crate::error::{Error, ErrorKind};
use crate::stage;
use crate::tool::ToolSpec;
use crate::tool::executor::BoxFuture;
use crate::value::secret::Secret;

/// Source of provider credentials. The engine asks it for every call of a tool
/// that names a provider, within the call's deadline, and drops the secrets
/// with the call.
pub trait CredentialSource: Send + Sync + 'static {
    /// The secrets of the tool's provider (`tool.provider`) for this caller, by
    /// field; an empty list if there are none. `credential` selects one of
    /// several by name; an unknown name is an error of the kind
    /// [`ErrorKind::CredentialInvalid`].
    ///
    /// Secrets of the call or its agent take precedence over these.
    fn secrets<'a>(
        &'a self,
        tool: &'a ToolSpec,
        caller: &'a Caller,
        credential: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<(String, Secret)>, Error>>;
}

/// Adds the secrets of the source to a call, within its deadline.
pub(crate) async fn add_secrets(
    source: &dyn CredentialSource,
    call: &mut Call,
    request: &CallRequest,
    until: &Deadline<'_>,
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

/// Refuses a call that selects a credential where no source is configured: with
/// another credential it would do something else than intended.
pub(crate) fn no_source(tool: &ToolSpec, request: &CallRequest) -> Result<(), Error> {
    match (request.chosen_credential(), &tool.provider) {
        (Some(name), Some(provider)) => Err(Error::new(
            ErrorKind::CredentialInvalid,
            format!("there is no store to look for the credential `{name}` of `{provider}` in"),
        )),
        _ => Ok(()),
    }
}
