//! OAuth 2.1 client for remote servers: discovery, dynamic client registration, PKCE and
//! token refresh.
//!
//! `rmcp` implements the protocol; every request goes through the HTTP client with SSRF
//! protection, and tokens are kept in the embedding program's secret store.
//!
//! A server that needs a token answers with a `WWW-Authenticate` challenge. From then on
//! its calls fail with an error that asks for a login. [`Server::login`] starts the
//! authorization code flow, a person consents in a browser, and [`Login::finish`] stores
//! the tokens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest,
    AuthorizationSession, OAuthClientConfig, OAuthHttpClient, OAuthHttpClientFuture,
    OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use serde_json::Value;
use windlass::{Error, ErrorKind, Secret, Text};

use super::connection::causes;
use super::http::Wire;
use super::server::Server;
use super::tokens::{Account, Kept, Registered, Store};
use crate::outbound::Request;

/// Maximum size of a response of an authorization server.
const MAX_ANSWER: u64 = 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(30);
/// Our `client_name` in dynamic client registration.
const NAME: &str = "windlass";

/// How to log in: redirect URI and client credentials.
#[derive(Clone, Default)]
pub struct LoginOptions {
    /// The redirect URI, to which the browser returns.
    pub redirect_uri: String,
    /// The client id, if we are registered with the authorization server already.
    pub client_id: Option<String>,
    /// The client secret that goes with it.
    pub client_secret: Option<Secret>,
    /// URL of our client id metadata document, for authorization servers that support
    /// those.
    pub client_metadata_url: Option<String>,
}

/// An OAuth flow that waits for a person's consent.
pub struct Login {
    session: AuthorizationSession,
    server: Arc<Server>,
    account: Account,
}

impl Login {
    /// The authorization URL, at which a person consents.
    pub fn url(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Completes the flow with the URL to which the browser was redirected.
    pub async fn finish(self, came_back_to: &str) -> Result<(), Error> {
        let done = self.session.handle_callback_url(came_back_to).await;
        done.map_err(|error| failed(self.server.name(), &error))?;
        self.server.logged_in(&self.account);
        if self.account != *self.server.account() {
            self.server.learn_from(&self.account).await;
        }
        Ok(())
    }
}

/// Starts an authorization code flow.
pub(super) async fn begin(
    server: &Arc<Server>,
    account: Account,
    challenge: Option<&str>,
    options: LoginOptions,
) -> Result<Login, Error> {
    let wrong = |error: AuthError| failed(server.name(), &error);
    let (url, wire) = server.remote()?;
    let store = server.store(account.clone());
    let before = store.read().await?;
    let mut manager = manager_of(&url, wire).await.map_err(wrong)?;
    manager.set_credential_store(store.clone());
    let found = manager.resolve_metadata_from_challenge(challenge).await.map_err(wrong)?;
    let metadata = found.metadata;
    manager.set_metadata(metadata.clone());
    // A client registration and its tokens are never sent to another authorization
    // server.
    let is_same =
        |kept: &Kept| metadata.issuer.is_some() && kept.credentials.issuer == metadata.issuer;
    let before = before.filter(is_same);
    let mut scopes = manager.select_initial_scopes(&[]).await;
    // Asking for more scopes keeps those that were granted before.
    let granted = before.iter().flat_map(|kept| &kept.credentials.granted_scopes);
    let more: Vec<String> = granted.filter(|scope| !scopes.contains(scope)).cloned().collect();
    scopes.extend(more);
    let mut request = AuthorizationRequest::new(options.redirect_uri.clone())
        .with_initial_scope_selection()
        .with_scopes(scopes.clone())
        .with_client_name(NAME);
    let mut client = Registered { client_secret: None, redirect_uri: options.redirect_uri.clone() };
    if let Some(id) = options.client_id {
        request.client_id = Some(id);
        client.client_secret = options.client_secret.map(|secret| secret.expose().to_owned());
    } else if options.client_metadata_url.is_some() && takes_documents(&metadata) {
        request.client_metadata_url = options.client_metadata_url;
    } else if let Some(kept) =
        before.filter(|kept| kept.client.redirect_uri == options.redirect_uri)
    {
        request.client_id = Some(kept.credentials.client_id);
        client = kept.client;
    } else {
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let registered = manager.register_client(NAME, &options.redirect_uri, &scopes).await;
        let registered = registered.map_err(wrong)?;
        request.client_id = Some(registered.client_id);
        client.client_secret = registered.client_secret;
    }
    request.client_secret.clone_from(&client.client_secret);
    store.register(client);
    let session = AuthorizationSession::new(manager, request).await;
    let session = session.map_err(|(_, error)| wrong(error))?;
    Ok(Login { session, server: Arc::clone(server), account })
}

/// Whether an authorization server accepts the URL of a metadata document as a client id.
fn takes_documents(metadata: &AuthorizationMetadata) -> bool {
    let said = metadata.additional_fields.get("client_id_metadata_document_supported");
    said == Some(&Value::Bool(true))
}

async fn manager_of(url: &str, wire: Wire) -> Result<AuthorizationManager, AuthError> {
    let http: Arc<dyn OAuthHttpClient> = Arc::new(wire);
    AuthorizationManager::new_with_oauth_http_client(url, http).await
}

/// The token manager for a server; `None` if there are no tokens for it.
pub(super) async fn manager(
    server: &str,
    wire: &Wire,
    url: &str,
    store: Store,
) -> Result<Option<AuthorizationManager>, Error> {
    let Some(kept) = store.read().await? else { return Ok(None) };
    let wrong = |error: AuthError| failed(server, &error);
    store.register(kept.client.clone());
    let mut manager = manager_of(url, wire.clone()).await.map_err(wrong)?;
    manager.set_credential_store(store);
    let usable = manager.initialize_from_store().await.map_err(wrong)?;
    if let (true, Some(secret)) = (usable, kept.client.client_secret) {
        let id = kept.credentials.client_id;
        let client =
            OAuthClientConfig::new(id, kept.client.redirect_uri).with_client_secret(secret);
        manager.configure_client(client).map_err(wrong)?;
    }
    Ok(usable.then_some(manager))
}

/// The `WWW-Authenticate` challenge in the causes of an error.
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

/// The error of a server that needs a login.
pub(super) fn wants_login(server: &str) -> Error {
    let why = format!("the server `{server}` wants somebody to log in: `windlass login {server}`");
    Error::new(ErrorKind::CredentialInvalid, why)
}

/// The error of a call whose caller can log in, with the URL.
pub(super) fn authorization_required(server: &str, url: &str) -> Error {
    let message = format!("authorization required: a person has to agree at {url}");
    let feedback = Text::Many(BTreeMap::from([
        (
            "en".to_owned(),
            format!(
                "Authorization required: ask the user to open {url} and to allow access to \
                 `{server}`, then call the tool again."
            ),
        ),
        ("zh".to_owned(), format!("需要授权:请让用户打开 {url} 并允许访问 `{server}`,然后重试。")),
    ]));
    Error::new(ErrorKind::CredentialInvalid, message).with_feedback(feedback)
}

fn failed(server: &str, error: &AuthError) -> Error {
    let why = format!("nobody could be logged in to `{server}`: {}", causes(error));
    Error::new(ErrorKind::CredentialInvalid, why)
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
