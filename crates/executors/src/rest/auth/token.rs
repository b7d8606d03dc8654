//! Tokens of OAuth 2.0 for clients that ask in their own name (RFC 6749, 4.4).
//!
//! A token is kept until shortly before it ends, by the client that it was
//! given to. Whoever needs one that is not there asks for it while the others
//! wait: one request, however many calls begin at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method};
use percent_encoding::utf8_percent_encode;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::time::Instant;
use windlass::{Error, ErrorKind, Secret};

use crate::outbound::{Answer, Outbound, Request, of_status};
use crate::rest::media;
use crate::rest::request::ENCODED;

/// How long before its end a token is not used any more.
const MARGIN: Duration = Duration::from_secs(30);
/// How long a token is used whose end is not said.
const UNSAID: Duration = Duration::from_secs(300);
/// How many clients are remembered.
const MAX_CLIENTS: usize = 1_000;

/// Tells clients apart, without holding their secrets.
pub(crate) type Key = [u8; 32];

/// Who asks for a token.
pub(super) struct Client<'a> {
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

/// The tokens of all clients.
#[derive(Default)]
pub(crate) struct Tokens(parking_lot::Mutex<HashMap<Key, Arc<Mutex<Option<CachedToken>>>>>);

struct CachedToken {
    token: Secret,
    until: Instant,
}

impl Tokens {
    /// A token that is good for a while.
    pub(super) async fn of(
        &self,
        client: &Client<'_>,
        outbound: &Outbound,
    ) -> Result<Secret, Error> {
        let slot = {
            let mut clients = self.0.lock();
            if clients.len() >= MAX_CLIENTS {
                clients.clear();
            }
            Arc::clone(clients.entry(client.key()).or_default())
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

    /// Forgets a token that was refused.
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
    // By header, as RFC 6749 wants every server to take it.
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

/// Why no token was given. An endpoint may repeat the whole request, in any
/// encoding: of what it says, only RFC 6749's code is taken over.
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
