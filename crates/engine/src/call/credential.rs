//! Credentials that a store keeps, for tools of providers.

use crate::call::context::Caller;
use crate::error::Error;
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
    /// error of the kind [`ErrorKind::CredentialInvalid`](crate::ErrorKind::CredentialInvalid).
    ///
    /// What the call or its agent carries under the same name comes first.
    fn secrets<'a>(
        &'a self,
        tool: &'a ToolSpec,
        caller: &'a Caller,
        credential: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<(String, Secret)>, Error>>;
}
