//! OAuth 2.0 client credentials flow (RFC 6749, section 4.4), with a token cache.
//!
//! A token is cached for the client that it was issued to until shortly before it
//! expires. Concurrent calls that need the same token share one request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method};
use percent_encoding::utf8_percent_encode;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::time::Instant;
use windlass::{Error, ErrorKind, Secret, TenantId};

use crate::outbound::{Answer, Outbound, Request, of_status};
use crate::rest::media;
use crate::rest::request::ENCODED;

/// How long before its expiry a token is renewed.
const MARGIN: Duration = Duration::from_secs(30);
/// TTL of a token without `expires_in`.
const UNSAID: Duration = Duration::from_secs(300);
/// Maximum number of cached clients.
const MAX_CLIENTS: usize = 1_000;

/// Cache key: a hash that identifies a client without holding its secrets.
pub(crate) type Key = [u8; 32];

/// The client that asks for a token.
pub(super) struct Client<'a> {
    /// Whose it is.
    pub(super) tenant: &'a TenantId,
    pub(super) token_url: &'a str,
    pub(super) id: &'a str,
    pub(super) secret: &'a str,
    pub(super) scopes: &'a [String],
}

impl Client<'_> {
    pub(super) fn key(&self) -> Key {
        let mut hash = Sha256::new();
        for part in [self.token_url, self.id, self.secret]
            .into_iter()
            .chain(self.scopes.iter().map(String::as_str))
        {
            hash.update(part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().into()
    }
}

/// The token cache.
#[derive(Default)]
pub(crate) struct Tokens(parking_lot::Mutex<HashMap<Key, Known>>);

/// A client that has asked.
struct Known {
    /// Who asked first.
    tenant: TenantId,
    used: Instant,
    slot: Arc<Mutex<Option<CachedToken>>>,
}

struct CachedToken {
    token: Secret,
    until: Instant,
}

impl Tokens {
    /// A valid token, from the cache or from the token endpoint.
    pub(super) async fn of(
        &self,
        client: &Client<'_>,
        outbound: &Outbound,
    ) -> Result<Secret, Error> {
        let slot = {
            let (mut clients, key) = (self.0.lock(), client.key());
            if clients.len() >= MAX_CLIENTS && !clients.contains_key(&key) {
                forget_one(&mut clients);
            }
            let known = clients.entry(key).or_insert_with(|| Known {
                tenant: client.tenant.clone(),
                used: Instant::now(),
                slot: Arc::default(),
            });
            known.used = Instant::now();
            Arc::clone(&known.slot)
        };
        let mut kept = slot.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.until > Instant::now()) {
            return Ok(kept.token.clone());
        }
        let fresh = ask(client, outbound).await?;
        let token = fresh.token.clone();
        *kept = Some(fresh);
        Ok(token)
    }

    /// Drops a token that was rejected.
    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

/// Forgets a client of the tenant that has the most.
fn forget_one(clients: &mut HashMap<Key, Known>) {
    let mut counts: HashMap<&TenantId, usize> = HashMap::new();
    clients.values().for_each(|known| *counts.entry(&known.tenant).or_default() += 1);
    let Some(greatest) = counts.into_iter().max_by_key(|(_, count)| *count) else { return };
    let own = clients.iter().filter(|(_, known)| known.tenant == *greatest.0);
    if let Some(key) = own.min_by_key(|(_, known)| known.used).map(|(key, _)| *key) {
        clients.remove(&key);
    }
}

async fn ask(client: &Client<'_>, outbound: &Outbound) -> Result<CachedToken, Error> {
    let encode = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
    let mut form = "grant_type=client_credentials".to_owned();
    if !client.scopes.is_empty() {
        form.push_str(&format!("&scope={}", encode(&client.scopes.join(" "))));
    }
    // HTTP Basic, which RFC 6749 requires every server to support.
    let pair = format!("{}:{}", encode(client.id), encode(client.secret));
    let pair = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pair);
    let request = Request::parse(Method::POST, client.token_url)
        .map_err(|error| {
            let why = format!("the token URL cannot be used: {}", error.message());
            Error::new(ErrorKind::InvalidDefinition, why)
        })?
        .secret_header("authorization", &Secret::new(format!("Basic {pair}")))?
        .header("accept", media::JSON)?
        .body(form, HeaderValue::from_static(media::URLENCODED))
        .without_redirects();
    let answer = outbound.send(request).await?;
    if !answer.status().is_success() {
        return Err(refused(answer).await);
    }
    let value: Value = serde_json::from_slice(&answer.bytes().await?).unwrap_or_default();
    let Some(token) = value["access_token"].as_str().filter(|token| !token.is_empty()) else {
        return Err(Error::new(
            ErrorKind::CredentialInvalid,
            "the answer of the token endpoint has no token",
        ));
    };
    let seconds =
        value["expires_in"].as_u64().or_else(|| value["expires_in"].as_str()?.parse().ok());
    let lives = seconds
        .map_or(UNSAID, |seconds| Duration::from_secs(seconds.min(86_400)).saturating_sub(MARGIN));
    Ok(CachedToken { token: Secret::new(token), until: Instant::now() + lives })
}

/// The error for a token request that was refused. The endpoint may echo the whole
/// request in any encoding, so only RFC 6749's error code is quoted.
async fn refused(mut answer: Answer) -> Error {
    const LONGEST: usize = 40;
    let (status, url) = (answer.status(), answer.url().clone());
    let headers = answer.take_headers();
    let said = answer.bytes().await.unwrap_or_default();
    let said: Value = serde_json::from_slice(&said).unwrap_or_default();
    let is_code = |text: &&str| {
        text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let code = said["error"].as_str().filter(is_code).unwrap_or_default();
    let error = of_status(&url, status, &headers, code);
    let kind = match error.kind() {
        ErrorKind::UpstreamRejected => ErrorKind::CredentialInvalid,
        kind => kind,
    };
    Error::new(kind, format!("no token was given: {}", error.message()))
}
