//! Stored credentials of providers.

use crate::call::context::Caller;
use crate::error::Error;
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
    /// [`CredentialInvalid`](crate::ErrorKind::CredentialInvalid).
    ///
    /// Secrets of the call or its agent take precedence over these.
    fn secrets<'a>(
        &'a self,
        tool: &'a ToolSpec,
        caller: &'a Caller,
        credential: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<(String, Secret)>, Error>>;
}
