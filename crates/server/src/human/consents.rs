//! OAuth 2.0 consents: people who authorize tools to act on their behalf, by the
//! authorization code flow with PKCE (RFC 6749, RFC 7636).
//!
//! A call that needs a consent fails with the URL to open. The PKCE verifier and
//! everything else that the callback needs is stored under the hash of the random
//! `state` parameter; it expires after a few minutes and can be used once.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, Method};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass::{Call, Error, ErrorKind, Secret, TenantId};
use windlass_executors::outbound::{Outbound, Request, on_behalf};
use windlass_executors::rest::Consent;
use windlass_store::{Documents, Expect, Put};

use crate::random;
use crate::state::vault::{GrantedTokens, Grantee, Grants, TokenEndpoint};

/// Where consents that are under way are kept.
const SPACE: &str = crate::state::quota::CONSENTS;
/// How long a person has.
const PATIENCE: Duration = Duration::from_secs(600);
/// The longest life of a token that is believed.
const MAX_LIFE: i64 = 365 * 24 * 3600;

/// Pending OAuth consents.
pub(crate) struct Consents {
    documents: Arc<dyn Documents>,
    outbound: Outbound,
    grants: Arc<Grants>,
    /// Where people come back to.
    redirect_uri: String,
}

/// What the callback needs to finish the flow.
#[derive(Serialize, Deserialize)]
struct PendingConsent {
    provider: String,
    user: Option<String>,
    field: String,
    endpoint: TokenEndpoint,
    verifier: String,
    redirect_uri: String,
}

/// A granted consent.
pub(crate) struct GivenConsent {
    pub(crate) tenant: TenantId,
    pending: PendingConsent,
}

impl GivenConsent {
    pub(crate) fn provider(&self) -> &str {
        &self.pending.provider
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.pending.user.as_deref()
    }
}

impl Consents {
    pub(crate) fn new(
        documents: Arc<dyn Documents>,
        outbound: Outbound,
        grants: Arc<Grants>,
        address: &str,
    ) -> Self {
        let redirect_uri = format!("{address}/v1/oauth/callback");
        Self { documents, outbound, grants, redirect_uri }
    }

    /// Where people come back to.
    pub(crate) fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// The address at which the caller of a call agrees.
    pub(crate) async fn ask(&self, call: &Call, consent: Consent) -> Result<String, Error> {
        let client = call.secret(&consent.client_id).map(Secret::expose).unwrap_or_default();
        let (state, verifier) = (random::text(43)?, random::text(64)?);
        let caller = call.caller();
        let pending = PendingConsent {
            provider: consent.provider,
            user: caller.user.as_deref().map(str::to_owned),
            field: consent.field,
            endpoint: TokenEndpoint {
                token_url: consent.token_url,
                refresh_url: consent.refresh_url,
                client_id: consent.client_id,
                client_secret: consent.client_secret,
            },
            verifier: verifier.to_string(),
            redirect_uri: self.redirect_uri.clone(),
        };
        let hashed = hashed(&state);
        let mut put = Put::of(SPACE, caller.tenant.clone(), hashed.clone(), &pending)?;
        put.alias = Some(hashed);
        put.owner = call.context().beginner().map(str::to_owned);
        put.expires_at = Timestamp::now().checked_add(PATIENCE).ok();
        self.documents.put(put, Expect::Absent).await?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let scopes = consent.scopes.join(" ");
        let mut query = vec![
            ("response_type", "code"),
            ("redirect_uri", &self.redirect_uri),
            ("state", &state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        if !scopes.is_empty() {
            query.push(("scope", &scopes));
        }
        let query = serde_urlencoded::to_string(&query)
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        let sign = if consent.authorization_url.contains('?') { '&' } else { '?' };
        // No secret (RFC 6749, 2.2), but a value of a credential: with every other
        // sign encoded, it is not taken for one and hidden.
        let plain = |at: usize, byte: u8| at % 2 == 1 && byte.is_ascii_alphanumeric();
        let client: String = (client.bytes().enumerate())
            .map(|(at, byte)| match plain(at, byte) {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02X}"),
            })
            .collect();
        Ok(format!("{}{sign}{query}&client_id={client}", consent.authorization_url))
    }

    /// A person has agreed: the consent that this is about. It is taken away, so
    /// that it is finished once.
    pub(crate) async fn take(&self, state: &str) -> Result<GivenConsent, Error> {
        let unknown = || {
            let why = "this consent is not known, was used or has expired; call the tool again";
            Error::new(ErrorKind::NotFound, why)
        };
        let document = self.documents.find(SPACE, &hashed(state)).await?.ok_or_else(unknown)?;
        let version = Expect::Version(document.version);
        if !self.documents.delete(SPACE, &document.tenant, &document.id, version).await? {
            return Err(unknown());
        }
        let pending = PendingConsent::deserialize(&document.body).map_err(|_| unknown())?;
        Ok(GivenConsent { tenant: document.tenant, pending })
    }

    /// Takes the code for tokens, and keeps them. `fields` are those of the
    /// provider's credential.
    pub(crate) async fn finish(
        &self,
        agreed: GivenConsent,
        code: &str,
        fields: &[(String, Secret)],
    ) -> Result<(), Error> {
        let GivenConsent { tenant, pending } = agreed;
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &pending.redirect_uri),
            ("code_verifier", &pending.verifier),
        ];
        let exchanged = exchange(&self.outbound, &pending.endpoint, fields, &form);
        let tokens = on_behalf(Some(&tenant), exchanged).await?;
        let user = pending.user.as_deref();
        let grantee = Grantee { tenant: &tenant, provider: &pending.provider, user };
        self.grants.keep(grantee, &pending.field, pending.endpoint, tokens).await
    }
}

/// Asks a token endpoint, through the guard.
pub(crate) async fn exchange(
    outbound: &Outbound,
    endpoint: &TokenEndpoint,
    fields: &[(String, Secret)],
    form: &[(&str, &str)],
) -> Result<GrantedTokens, Error> {
    let of = |name: &str| {
        let found = fields.iter().find(|(own, _)| own == name);
        found.map(|(_, secret)| secret.expose()).filter(|value| !value.is_empty())
    };
    let id = of(&endpoint.client_id).unwrap_or_default();
    let mut form = form.to_vec();
    form.push(("client_id", id));
    let body = serde_urlencoded::to_string(&form)
        .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
    let mut request = Request::parse(Method::POST, &endpoint.token_url)?
        .header("accept", "application/json")?
        .body(body, HeaderValue::from_static("application/x-www-form-urlencoded"))
        .without_redirects();
    if let Some(secret) = of(&endpoint.client_secret) {
        let encode = |text: &str| serde_urlencoded::to_string([("", text)]).unwrap_or_default();
        let pair = format!("{}:{}", &encode(id)[1..], &encode(secret)[1..]);
        let basic = Secret::new(format!("Basic {}", STANDARD.encode(pair)));
        request = request.secret_header("authorization", &basic)?;
    }
    let answer = outbound.send(request).await?.checked().await.map_err(|error| {
        let kind = match error.kind() {
            ErrorKind::UpstreamRejected => ErrorKind::CredentialInvalid,
            kind => kind,
        };
        Error::new(kind, "the token endpoint gave no token; a person has to agree again")
    })?;
    let value: Value = serde_json::from_slice(&answer.bytes().await?).unwrap_or(json!({}));
    let text = |key: &str| value[key].as_str().filter(|text| !text.is_empty()).map(Secret::from);
    let access = text("access_token").ok_or_else(|| {
        Error::new(ErrorKind::CredentialInvalid, "the answer of the token endpoint has no token")
    })?;
    let seconds = value["expires_in"].as_i64().map(|seconds| seconds.clamp(0, MAX_LIFE));
    let expires_at =
        seconds.map(|seconds| Timestamp::now() + jiff::SignedDuration::from_secs(seconds));
    Ok(GrantedTokens { access, refresh: text("refresh_token"), expires_at })
}

/// Only a hash of the state is stored, so that readers of the database cannot finish the flow.
fn hashed(state: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(state.as_bytes()))
}
