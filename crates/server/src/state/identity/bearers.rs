//! OAuth 2.0 resource server for MCP clients: checks bearer tokens of an external
//! authorization server.
//!
//! This server issues no tokens. It accepts JWT access tokens (RFC 9068) of the
//! configured issuer with this server as audience. Their bearers may call tools, and
//! nothing more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Method;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::Url;
use windlass::{Error, ErrorKind, TenantId};
use windlass_executors::outbound::{Outbound, OutboundPolicy, Request};

use super::{Identity, Role};

/// What tokens may be signed with: nothing that the bearer could know.
const ALGORITHMS: [Algorithm; 7] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// How long keys are believed, and how soon they are asked for again when a
/// token names one that is not among them.
const KEYS_LIVE: Duration = Duration::from_secs(600);
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// The largest answer of the authorization server.
const MAX_ANSWER: u64 = 1024 * 1024;
const MAX_SUBJECT: usize = 200;

/// Whose tokens are taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct OAuthSettings {
    /// The authorization server.
    pub(crate) issuer: Option<String>,
    /// The audience of tokens; the server's own URL by default.
    pub(crate) audience: Option<String>,
    /// The claim that names the bearer's tenant.
    pub(crate) tenant_claim: Option<String>,
}

/// Checks tokens.
pub(crate) struct Bearers {
    issuer: String,
    audience: String,
    tenant_claim: Option<String>,
    outbound: Outbound,
    keys: Mutex<Option<KnownJwks>>,
    /// Held by the one who asks for keys.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct KnownJwks {
    keys: Arc<JwkSet>,
    since: Instant,
}

/// The claims of a token.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// What an authorization server says of itself.
#[derive(Deserialize)]
struct About {
    issuer: String,
    jwks_uri: String,
}

impl Bearers {
    /// Takes the tokens of the authorization server that the settings name, if
    /// they name one.
    pub(crate) fn new(
        settings: &OAuthSettings,
        policy: &OutboundPolicy,
        own_address: &str,
    ) -> Option<Self> {
        let issuer = settings.issuer.clone()?;
        let mut policy = policy.clone();
        // The issuer is operator configuration, so SSRF protection does not apply.
        policy.allow.extend(place(&issuer).and_then(|place| place.parse().ok()));
        let own = || format!("{own_address}/mcp");
        Some(Self {
            audience: settings.audience.clone().unwrap_or_else(own),
            tenant_claim: settings.tenant_claim.clone(),
            issuer,
            outbound: Outbound::new(policy),
            keys: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    pub(crate) fn audience(&self) -> &str {
        &self.audience
    }

    /// Who bears a token; nobody where it is not for us, has expired, or was
    /// signed by somebody else. Which of these it is, the bearer is not told.
    pub(crate) async fn verify(&self, token: &str) -> Result<Option<Identity>, Error> {
        let Ok(header) = decode_header(token) else { return Ok(None) };
        if !ALGORITHMS.contains(&header.alg) {
            return Ok(None);
        }
        let Some(key) = self.key(header.kid.as_deref()).await? else { return Ok(None) };
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["aud", "exp", "iss", "sub"]);
        validation.validate_nbf = true;
        let Ok(read) = decode::<Claims>(token, &key, &validation) else { return Ok(None) };
        Ok(self.identity(read.claims))
    }

    fn identity(&self, claims: Claims) -> Option<Identity> {
        let tenant = match &self.tenant_claim {
            Some(claim) => claims.others.get(claim)?.as_str().filter(|own| !own.is_empty())?,
            None => "",
        };
        let tenant = match tenant {
            "" => TenantId::default(),
            named => TenantId::new(named),
        };
        let mut name = claims.sub;
        name.truncate(name.floor_char_boundary(MAX_SUBJECT));
        Some(Identity {
            tenant,
            key_id: format!("oauth:{name}").into(),
            role: Role::Caller,
            name: name.into(),
            tools: None,
            user: None,
        })
    }

    /// The key of this name, or the only one.
    async fn key(&self, id: Option<&str>) -> Result<Option<DecodingKey>, Error> {
        if let Some(key) = self.known(KEYS_LIVE).and_then(|known| find(&known.keys, id)) {
            return Ok(Some(key));
        }
        let _one = self.asking.lock().await;
        // Somebody else may have asked meanwhile; and whoever makes up names of
        // keys does not make us ask again and again.
        if let Some(known) = self.known(ASK_AGAIN) {
            return Ok(find(&known.keys, id));
        }
        let keys = Arc::new(self.ask().await?);
        let found = find(&keys, id);
        *self.keys.lock() = Some(KnownJwks { keys, since: Instant::now() });
        Ok(found)
    }

    fn known(&self, life: Duration) -> Option<KnownJwks> {
        self.keys.lock().clone().filter(|known| known.since.elapsed() < life)
    }

    /// Asks the authorization server for its keys.
    async fn ask(&self) -> Result<JwkSet, Error> {
        let mut last = None;
        for address in addresses(&self.issuer) {
            match self.get::<About>(&address).await {
                Ok(about) if about.issuer == self.issuer => return self.get(&about.jwks_uri).await,
                Ok(_) => {
                    let why = format!("{address} speaks for another issuer");
                    last = Some(Error::new(ErrorKind::UpstreamRejected, why));
                }
                Err(error) => last = Some(error),
            }
        }
        let none = || Error::new(ErrorKind::InvalidDefinition, "the issuer is no address");
        Err(last.unwrap_or_else(none))
    }

    async fn get<T: DeserializeOwned>(&self, address: &str) -> Result<T, Error> {
        let request = Request::parse(Method::GET, address)?.max_bytes(MAX_ANSWER);
        let answer = self.outbound.send(request).await?.checked().await?;
        serde_json::from_slice(&answer.bytes().await?).map_err(|error| {
            let why = format!("{address} does not answer as an authorization server: {error}");
            Error::new(ErrorKind::UpstreamFailed, why)
        })
    }
}

fn find(keys: &JwkSet, id: Option<&str>) -> Option<DecodingKey> {
    let key = match (id, keys.keys.as_slice()) {
        (Some(id), _) => keys.find(id)?,
        (None, [only]) => only,
        (None, _) => return None,
    };
    DecodingKey::from_jwk(key).ok()
}

/// Where an authorization server describes itself (RFC 8414, OpenID Connect).
fn addresses(issuer: &str) -> Vec<String> {
    let Ok(url) = Url::parse(issuer) else { return Vec::new() };
    let (plain, path) = (issuer.trim_end_matches('/'), url.path().trim_end_matches('/').to_owned());
    let mut inserted = url;
    inserted.set_path(&format!("/.well-known/oauth-authorization-server{path}"));
    vec![inserted.to_string(), format!("{plain}/.well-known/openid-configuration")]
}

/// The host and port of an address, as a policy names them.
fn place(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))
}
