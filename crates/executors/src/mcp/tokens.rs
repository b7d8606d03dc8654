//! [`Tokens`]: store for the OAuth tokens of remote servers, by account, and for the
//! inputs of servers.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use windlass::definition::CredentialField;
use windlass::{BoxFuture, Error, Secret, TenantId};

/// Whom tokens belong to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    /// The tenant.
    pub tenant: TenantId,
    /// The server that they are for.
    pub server: Arc<str>,
    /// The user who logged in; `None` for a login that the whole tenant shares.
    pub user: Option<Arc<str>>,
}

/// A store for OAuth tokens, and for the values of inputs.
pub trait Tokens: Send + Sync + 'static {
    /// Loads the tokens of an account.
    fn load<'a>(&'a self, account: &'a Account) -> BoxFuture<'a, Result<Option<Secret>, Error>>;

    /// Saves tokens; `None` deletes them.
    fn save<'a>(
        &'a self,
        account: &'a Account,
        tokens: Option<Secret>,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Loads the inputs of a server, as far as somebody has supplied them.
    fn inputs<'a>(
        &'a self,
        account: &'a Account,
        inputs: &'a [CredentialField],
    ) -> BoxFuture<'a, Result<Vec<(String, Secret)>, Error>> {
        let _ = (account, inputs);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// A store in memory, lost when the process ends.
#[derive(Default)]
pub struct MemoryTokens(Mutex<HashMap<Account, Secret>>);

impl Tokens for MemoryTokens {
    fn load<'a>(&'a self, account: &'a Account) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        let tokens = self.0.lock().get(account).map(|tokens| Secret::new(tokens.expose()));
        Box::pin(std::future::ready(Ok(tokens)))
    }

    fn save<'a>(
        &'a self,
        account: &'a Account,
        tokens: Option<Secret>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let mut kept = self.0.lock();
        match tokens {
            Some(tokens) => drop(kept.insert(account.clone(), tokens)),
            None => drop(kept.remove(account)),
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The tokens of one account, as `rmcp` loads and saves them.
#[derive(Clone)]
pub(super) struct Store {
    pub(super) tokens: Arc<dyn Tokens>,
    pub(super) account: Account,
    /// Our client registration, which is saved with the next tokens.
    client: Arc<Mutex<Registered>>,
}

/// Our registration at an authorization server, besides the client id.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Registered {
    pub(super) client_secret: Option<String>,
    pub(super) redirect_uri: String,
}

/// The stored form.
#[derive(Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) credentials: StoredCredentials,
    #[serde(flatten)]
    pub(super) client: Registered,
}

impl Store {
    pub(super) fn new(tokens: Arc<dyn Tokens>, account: Account) -> Self {
        Self { tokens, account, client: Arc::default() }
    }

    pub(super) fn register(&self, client: Registered) {
        *self.client.lock() = client;
    }

    pub(super) async fn read(&self) -> Result<Option<Kept>, Error> {
        let kept = self.tokens.load(&self.account).await?;
        // Unreadable tokens count as none: the user logs in again.
        Ok(kept.and_then(|kept| serde_json::from_str(kept.expose()).ok()))
    }

    async fn write(&self, tokens: Option<Secret>) -> Result<(), AuthError> {
        self.tokens.save(&self.account, tokens).await.map_err(|error| unkept(&error))
    }
}

fn unkept(error: &Error) -> AuthError {
    AuthError::CredentialStoreError(error.message().to_owned())
}

#[async_trait]
impl CredentialStore for Store {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let read = self.read().await.map_err(|error| unkept(&error))?;
        Ok(read.map(|kept| kept.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let kept = Kept { credentials, client: self.client.lock().clone() };
        let text = serde_json::to_string(&kept)
            .map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
        self.write(Some(Secret::new(text))).await
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.write(None).await
    }
}
