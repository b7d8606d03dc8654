//! OAuth tokens of remote MCP servers, in the vault: the credential `oauth` of the
//! server's provider. Inputs of servers are its default credential.

use std::sync::Arc;

use windlass::definition::{CredentialField, CredentialKind, ProviderSpec};
use windlass::{BoxFuture, Error, Secret};
use windlass_executors::mcp::{Account, Tokens};

use crate::state::vault::{CredentialChoice, CredentialRequest, Credentials, FieldValue};

/// The name of the credential, and of its only field.
const OAUTH: &str = "oauth";

/// Tokens that outlive the process, sealed.
pub(crate) struct VaultTokens(pub(crate) Arc<Credentials>);

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

impl Tokens for VaultTokens {
    fn load<'a>(&'a self, account: &'a Account) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        Box::pin(async move {
            let Account { tenant, server, user } = account;
            if self.0.find(tenant, server, user.as_deref(), OAUTH).await?.is_none() {
                return Ok(None);
            }
            let wanted = CredentialChoice { name: Some(OAUTH), user: user.as_deref() };
            let revealed = self.0.reveal(tenant, &provider(server), wanted).await?;
            let values = revealed.into_iter().flat_map(|revealed| revealed.values);
            Ok(values.into_iter().find(|(name, _)| name == OAUTH).map(|(_, value)| value))
        })
    }

    fn save<'a>(
        &'a self,
        account: &'a Account,
        tokens: Option<Secret>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let Account { tenant, server, user } = account;
            let kept = self.0.find(tenant, server, user.as_deref(), OAUTH).await?;
            let provider = provider(server);
            let values = |tokens| vec![(OAUTH.to_owned(), FieldValue::Text(tokens))];
            match (kept, tokens) {
                (Some(id), Some(tokens)) => {
                    self.0.rotate(tenant, &provider, &id, values(tokens)).await.map(drop)
                }
                (None, Some(tokens)) => {
                    let (name, user) = (OAUTH.to_owned(), user.as_deref().map(str::to_owned));
                    let request = CredentialRequest { name, user, values: values(tokens) };
                    self.0.store(tenant, &provider, request).await.map(drop)
                }
                (Some(id), None) => self.0.delete(tenant, &id).await,
                (None, None) => Ok(()),
            }
        })
    }

    fn inputs<'a>(
        &'a self,
        account: &'a Account,
        inputs: &'a [CredentialField],
    ) -> BoxFuture<'a, Result<Vec<(String, Secret)>, Error>> {
        Box::pin(async move {
            let (name, credentials) = (account.server.to_string(), inputs.to_vec());
            let provider = ProviderSpec { name, credentials, ..ProviderSpec::default() };
            let wanted = CredentialChoice { name: None, user: account.user.as_deref() };
            let revealed = self.0.reveal(&account.tenant, &provider, wanted).await?;
            Ok(revealed.map_or_else(Vec::new, |revealed| revealed.values))
        })
    }
}
