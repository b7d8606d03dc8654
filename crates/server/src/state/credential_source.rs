//! [`VaultSource`]: supplies calls with the credentials of their tool's provider.

use std::sync::{Arc, OnceLock};

use windlass::definition::ProviderSpec;
use windlass::{BoxFuture, Caller, CredentialSource, Engine, Error, Secret, ToolSpec};
use windlass_executors::outbound::{Outbound, on_behalf};

use crate::human::consents;
use crate::state::vault::{
    CredentialChoice, Credentials, GrantedTokens, Grantee, Grants, TokenEndpoint,
};

/// The vault, as the engine asks it.
pub(crate) struct VaultSource {
    credentials: Arc<Credentials>,
    /// OAuth grants, and the client to refresh them.
    grants: Arc<Grants>,
    outbound: Outbound,
    /// Knows the providers; it is built with this source.
    engine: Arc<OnceLock<Engine>>,
}

impl VaultSource {
    /// A source, and where to put the engine once it is built.
    pub(crate) fn new(
        credentials: Arc<Credentials>,
        grants: Arc<Grants>,
        outbound: Outbound,
    ) -> (Self, Arc<OnceLock<Engine>>) {
        let engine = Arc::<OnceLock<Engine>>::default();
        (Self { credentials, grants, outbound, engine: Arc::clone(&engine) }, engine)
    }

    async fn reveal(
        &self,
        tool: &ToolSpec,
        caller: &Caller,
        name: Option<&str>,
    ) -> Result<Vec<(String, Secret)>, Error> {
        let provider = tool
            .provider
            .as_deref()
            .and_then(|provider| self.engine.get()?.providers().get_for(&caller.tenant, provider));
        // A provider that wants nothing needs no credential; an MCP server got its inputs
        // when it was started.
        let wants =
            |provider: &ProviderSpec| provider.mcp.is_none() && !provider.credentials.is_empty();
        let Some(provider) = provider.filter(|provider| wants(provider)) else {
            return Ok(Vec::new());
        };
        let wanted = CredentialChoice { name, user: caller.user.as_deref() };
        // None at all is for the tool to judge: it may do without.
        let revealed = self.credentials.reveal(&caller.tenant, &provider, wanted).await?;
        let mut values = revealed.map_or_else(Vec::new, |revealed| revealed.values);
        let granted = self.granted(caller, &provider.name, &values).await?;
        for (field, token) in granted {
            if !values.iter().any(|(own, _)| *own == field) {
                values.push((field, token));
            }
        }
        Ok(values)
    }

    /// The tokens that the user granted, else those that somebody granted for
    /// the whole tenant.
    async fn granted(
        &self,
        caller: &Caller,
        provider: &str,
        fields: &[(String, Secret)],
    ) -> Result<Vec<(String, Secret)>, Error> {
        let refresh = move |mut endpoint: TokenEndpoint,
                            old: Secret|
              -> BoxFuture<'_, Result<GrantedTokens, Error>> {
            Box::pin(async move {
                if let Some(url) = endpoint.refresh_url.take() {
                    endpoint.token_url = url;
                }
                let form = [("grant_type", "refresh_token"), ("refresh_token", old.expose())];
                let exchanged = consents::exchange(&self.outbound, &endpoint, fields, &form);
                on_behalf(Some(&caller.tenant), exchanged).await
            })
        };
        for user in caller.user.as_deref().map(Some).into_iter().chain([None]) {
            let grantee = Grantee { tenant: &caller.tenant, provider, user };
            let tokens = self.grants.tokens(grantee, &refresh).await?;
            if !tokens.is_empty() {
                return Ok(tokens);
            }
        }
        Ok(Vec::new())
    }
}

impl CredentialSource for VaultSource {
    fn secrets<'a>(
        &'a self,
        tool: &'a ToolSpec,
        caller: &'a Caller,
        credential: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<(String, Secret)>, Error>> {
        Box::pin(self.reveal(tool, caller, credential))
    }
}
