//! Tokens of remote servers, in the vault: the credential `oauth` of the provider
//! that the server is.

use std::sync::Arc;

use windlass::definition::{CredentialField, CredentialKind, ProviderSpec};
use windlass::{BoxFuture, Error, Secret, TenantId};
use windlass_executors::mcp::Tokens;

use crate::vault::{CredentialRequest, Credentials, Given, Wanted};

/// The name of the credential, and of its only field.
const OAUTH: &str = "oauth";

/// Tokens that outlive the process, sealed.
pub(crate) struct KeptTokens(pub(crate) Arc<Credentials>);

/// What the vault has to know of the provider.
fn provider(server: &str) -> ProviderSpec {
    let field = CredentialField {
        name: OAUTH.to_owned(),
        kind: CredentialKind::SecretInput,
        required: true,
        ..CredentialField::default()
    };
    ProviderSpec { name: server.to_owned(), credentials: vec![field], ..ProviderSpec::default() }
}

impl Tokens for KeptTokens {
    fn load<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
    ) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        Box::pin(async move {
            let tenant = owner.cloned().unwrap_or_default();
            if self.0.find(&tenant, server, None, OAUTH).await?.is_none() {
                return Ok(None);
            }
            let wanted = Wanted { name: Some(OAUTH), user: None };
            let revealed = self.0.reveal(&tenant, &provider(server), wanted).await?;
            let values = revealed.into_iter().flat_map(|revealed| revealed.values);
            Ok(values.into_iter().find(|(name, _)| name == OAUTH).map(|(_, value)| value))
        })
    }

    fn save<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
        tokens: Option<Secret>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let tenant = owner.cloned().unwrap_or_default();
            let kept = self.0.find(&tenant, server, None, OAUTH).await?;
            let provider = provider(server);
            match (kept, tokens) {
                (Some(id), Some(tokens)) => {
                    let values = vec![(OAUTH.to_owned(), Given::Text(tokens))];
                    self.0.rotate(&tenant, &provider, &id, values).await.map(drop)
                }
                (None, Some(tokens)) => {
                    let values = vec![(OAUTH.to_owned(), Given::Text(tokens))];
                    let request = CredentialRequest { name: OAUTH.to_owned(), user: None, values };
                    self.0.store(&tenant, &provider, request).await.map(drop)
                }
                (Some(id), None) => self.0.delete(&tenant, &id).await,
                (None, None) => Ok(()),
            }
        })
    }
}
