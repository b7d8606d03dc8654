//! OAuth 2.0 client credentials flow (RFC 6749, section 4.4), with a token cache.
//!
//! A token is cached for the client that it was issued to until shortly before it
//! expires. Concurrent calls that need the same token share one request.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method};
use percent_encoding::utf8_percent_encode;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::time::Instant;
use windlass::{Error, ErrorKind, FairMap, Secret, TenantId};

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
        for part in [self.tenant.as_str(), self.token_url, self.id, self.secret]
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
pub(crate) struct Tokens(parking_lot::Mutex<FairMap<Key, TokenSlot>>);

/// The token of a client; whoever asks for it holds the lock.
type TokenSlot = Arc<Mutex<Option<CachedToken>>>;

impl Default for Tokens {
    fn default() -> Self {
        Self::with_clients(MAX_CLIENTS)
    }
}

struct CachedToken {
    token: Secret,
    until: Instant,
}

impl Tokens {
    fn with_clients(most: usize) -> Self {
        Self(parking_lot::Mutex::new(FairMap::new(most)))
    }

    /// A valid token, from the cache or from the token endpoint.
    pub(super) async fn of(
        &self,
        client: &Client<'_>,
        outbound: &Outbound,
    ) -> Result<Secret, Error> {
        let slot = Arc::clone(self.0.lock().of(client.tenant, &client.key(), TokenSlot::default));
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::outbound::OutboundPolicy;

    /// A token endpoint that counts its requests.
    async fn endpoint() -> (String, Arc<AtomicUsize>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let body = r#"{"access_token":"abcdef","expires_in":3600}"#;
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                     connection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        (format!("http://{address}/token"), asked)
    }

    #[tokio::test]
    async fn a_tenant_with_many_clients_evicts_only_its_own_tokens() {
        let (url, asked) = endpoint().await;
        let allow = vec!["127.0.0.1".parse().unwrap()];
        let outbound = Outbound::new(OutboundPolicy { allow, ..OutboundPolicy::default() });
        let tokens = Tokens::with_clients(10);
        let (quiet, noisy) = (TenantId::new("quiet"), TenantId::new("noisy"));
        let ask = async |tenant: &TenantId, id: &str| {
            let (token_url, secret, scopes) = (url.as_str(), "s3cret", &[]);
            let client = Client { tenant, token_url, id, secret, scopes };
            assert_eq!(tokens.of(&client, &outbound).await.unwrap().expose(), "abcdef");
        };
        for id in ["a", "b"] {
            ask(&quiet, id).await;
        }
        for id in 0..40 {
            ask(&noisy, &id.to_string()).await;
        }
        assert_eq!(asked.load(Ordering::SeqCst), 42);
        for id in ["a", "b"] {
            ask(&quiet, id).await;
        }
        ask(&noisy, "39").await;
        assert_eq!(asked.load(Ordering::SeqCst), 42, "they are still there");
        ask(&noisy, "0").await;
        // The same client of another tenant is another client.
        ask(&quiet, "39").await;
        assert_eq!(asked.load(Ordering::SeqCst), 44);
        assert_eq!(tokens.0.lock().len(), 10);
    }
}
