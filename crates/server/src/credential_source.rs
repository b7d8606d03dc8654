//! Gives calls the credentials of their tool's provider.

use std::sync::{Arc, OnceLock};

use windlass::{BoxFuture, Caller, CredentialSource, Engine, Error, Secret, ToolSpec};

use crate::vault::{Credentials, Wanted};

/// The vault, as the engine asks it.
pub(crate) struct VaultSource {
    credentials: Arc<Credentials>,
    /// Knows the providers; it is built with this source.
    engine: Arc<OnceLock<Engine>>,
}

impl VaultSource {
    /// A source, and where to put the engine once it is built.
    pub(crate) fn new(credentials: Arc<Credentials>) -> (Self, Arc<OnceLock<Engine>>) {
        let engine = Arc::<OnceLock<Engine>>::default();
        (Self { credentials, engine: Arc::clone(&engine) }, engine)
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
        // A provider that wants nothing needs no credential.
        let Some(provider) = provider.filter(|provider| !provider.credentials.is_empty()) else {
            return Ok(Vec::new());
        };
        let wanted = Wanted { name, user: caller.user.as_deref() };
        // None at all is for the tool to judge: it may do without.
        let revealed = self.credentials.reveal(&caller.tenant, &provider, wanted).await?;
        Ok(revealed.map_or_else(Vec::new, |revealed| revealed.values))
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
