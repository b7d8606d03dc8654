//! OAuth 2.1 for remote servers: discovery, registration, PKCE and refresh are
//! `rmcp`'s; every request goes the guarded way out, and tokens are kept where
//! the embedding program keeps secrets.
//!
//! A server that wants a token answers a request with a challenge. From then on
//! its calls say that somebody has to log in. [`Server::login`] begins that, a
//! person agrees in a browser, and [`Login::finish`] keeps the tokens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, CredentialStore, OAuthHttpClient,
    OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest, OAuthState,
    StoredCredentials,
};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use windlass::{BoxFuture, Error, ErrorKind, Secret, TenantId};

use super::connection::causes;
use super::http::Wire;
use super::server::Server;
use crate::outbound::Request;

/// The largest answer of an authorization server.
const MAX_ANSWER: u64 = 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the tokens of servers are kept.
pub trait Tokens: Send + Sync + 'static {
    /// What is kept for a server of this owner.
    fn load<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
    ) -> BoxFuture<'a, Result<Option<Secret>, Error>>;

    /// Keeps it; forgets it where it is nothing.
    fn save<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
        tokens: Option<Secret>,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

/// Tokens that are lost with the process.
#[derive(Default)]
pub struct MemoryTokens(Mutex<HashMap<(Option<TenantId>, String), Secret>>);

impl Tokens for MemoryTokens {
    fn load<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
    ) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        let kept = self.0.lock();
        let tokens = kept.get(&(owner.cloned(), server.to_owned()));
        let tokens = tokens.map(|tokens| Secret::new(tokens.expose()));
        Box::pin(std::future::ready(Ok(tokens)))
    }

    fn save<'a>(
        &'a self,
        owner: Option<&'a TenantId>,
        server: &'a str,
        tokens: Option<Secret>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let name = (owner.cloned(), server.to_owned());
        let mut kept = self.0.lock();
        match tokens {
            Some(tokens) => drop(kept.insert(name, tokens)),
            None => drop(kept.remove(&name)),
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// How to log in.
#[derive(Clone, Default)]
pub struct LoginOptions {
    /// Where the browser comes back to.
    pub redirect_uri: String,
    /// Who we are, where the authorization server knows us already.
    pub client_id: Option<String>,
    /// What proves it.
    pub client_secret: Option<Secret>,
    /// Where it is written who we are (a client id metadata document).
    pub client_metadata_url: Option<String>,
}

/// A login that waits for a person.
pub struct Login {
    state: OAuthState,
    url: String,
    server: Arc<Server>,
}

impl Login {
    /// Where a person agrees.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends the login with the address that the browser came back to.
    pub async fn finish(mut self, came_back_to: &str) -> Result<(), Error> {
        let done = self.state.handle_callback_url(came_back_to).await;
        done.map_err(|error| failed(self.server.name(), &error))?;
        self.server.logged_in();
        Ok(())
    }
}

/// Begins a login.
pub(super) async fn begin(
    server: &Arc<Server>,
    wire: Wire,
    url: &str,
    store: Store,
    options: LoginOptions,
) -> Result<Login, Error> {
    let wrong = |error: AuthError| failed(server.name(), &error);
    let http: Arc<dyn OAuthHttpClient> = Arc::new(wire);
    let mut manager =
        AuthorizationManager::new_with_oauth_http_client(url, http).await.map_err(wrong)?;
    manager.set_credential_store(store);
    let mut state = OAuthState::Unauthorized(manager);
    let mut request = AuthorizationRequest::new(options.redirect_uri).with_client_name("windlass");
    request.client_id = options.client_id;
    request.client_secret = options.client_secret.map(|secret| secret.expose().to_owned());
    request.client_metadata_url = options.client_metadata_url;
    request.challenge = server.challenge();
    state.start_authorization(request).await.map_err(wrong)?;
    let url = state.get_authorization_url().await.map_err(wrong)?;
    Ok(Login { state, url, server: Arc::clone(server) })
}

/// Who adds tokens to requests, where there are any.
pub(super) async fn manager(
    server: &str,
    wire: &Wire,
    url: &str,
    store: Store,
) -> Result<Option<AuthorizationManager>, Error> {
    if store.read().await?.is_none() {
        return Ok(None);
    }
    let wrong = |error: AuthError| failed(server, &error);
    let http: Arc<dyn OAuthHttpClient> = Arc::new(wire.clone());
    let mut manager =
        AuthorizationManager::new_with_oauth_http_client(url, http).await.map_err(wrong)?;
    manager.set_credential_store(store);
    let usable = manager.initialize_from_store().await.map_err(wrong)?;
    Ok(usable.then_some(manager))
}

/// The challenge that an error came with.
pub(super) fn challenge(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(wanted) = error.downcast_ref::<AuthRequiredError>() {
            return Some(wanted.www_authenticate_header.clone());
        }
        if let Some(wanted) = error.downcast_ref::<InsufficientScopeError>() {
            return Some(wanted.www_authenticate_header.clone());
        }
        cause = error.source();
    }
    None
}

/// The error of a server that wants somebody to log in.
pub(super) fn wants_login(server: &str) -> Error {
    let why = format!("the server `{server}` wants somebody to log in: `windlass login {server}`");
    Error::new(ErrorKind::CredentialInvalid, why)
}

fn failed(server: &str, error: &AuthError) -> Error {
    let why = format!("nobody could be logged in to `{server}`: {}", causes(error));
    Error::new(ErrorKind::CredentialInvalid, why)
}

/// The tokens of one server.
#[derive(Clone)]
pub(super) struct Store {
    pub(super) tokens: Arc<dyn Tokens>,
    pub(super) owner: Option<TenantId>,
    pub(super) server: Arc<str>,
}

impl Store {
    async fn read(&self) -> Result<Option<StoredCredentials>, Error> {
        let kept = self.tokens.load(self.owner.as_ref(), &self.server).await?;
        // What cannot be read is as good as nothing: somebody logs in again.
        Ok(kept.and_then(|kept| serde_json::from_str(kept.expose()).ok()))
    }

    async fn write(&self, tokens: Option<Secret>) -> Result<(), AuthError> {
        let saved = self.tokens.save(self.owner.as_ref(), &self.server, tokens).await;
        saved.map_err(|error| AuthError::CredentialStoreError(error.message().to_owned()))
    }
}

#[async_trait]
impl CredentialStore for Store {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let read = self.read().await;
        read.map_err(|error| AuthError::CredentialStoreError(error.message().to_owned()))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let text = serde_json::to_string(&credentials)
            .map_err(|error| AuthError::CredentialStoreError(error.to_string()))?;
        self.write(Some(Secret::new(text))).await
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.write(None).await
    }
}

impl OAuthHttpClient for Wire {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let OAuthHttpRequest { request, redirect_policy, timeout, .. } = request;
            let (parts, body) = request.into_parts();
            let mut own = Request::parse(parts.method, &parts.uri.to_string())?
                .max_bytes(MAX_ANSWER)
                .total_timeout(timeout.unwrap_or(PATIENCE))
                .read_timeout(PATIENCE);
            let mut content_type = http::HeaderValue::from_static("application/json");
            for (name, value) in &parts.headers {
                if *name == http::header::CONTENT_TYPE {
                    content_type = value.clone();
                } else if !["host", "content-length", "accept-encoding"].contains(&name.as_str()) {
                    own = own.secret_header(name.as_str(), &Secret::new(value.to_str()?))?;
                }
            }
            if !body.is_empty() {
                own = own.body(body, content_type);
            }
            if redirect_policy == OAuthHttpRedirectPolicy::Stop {
                own = own.without_redirects();
            }
            let answer = self.outbound().send(own).await?;
            let mut response = http::Response::builder().status(answer.status());
            if let Some(headers) = response.headers_mut() {
                headers.clone_from(answer.headers());
            }
            Ok(response.body(answer.bytes().await?.to_vec())?)
        })
    }
}
