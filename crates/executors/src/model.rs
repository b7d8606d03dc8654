//! Client for model APIs: Anthropic, everything compatible with OpenAI's Chat
//! Completions, and Gemini.
//!
//! ```text
//! Prompt ─ body ─► request ─ Outbound ─► stream of events ─ tally ─► text, usage
//! ```
//!
//! Not a kind of tool, but what kinds that use models build on. Requests go through the
//! HTTP client with SSRF protection, like all others. Tool calls in an answer are parsed
//! by the engine's own [`windlass::OpenTurn`]; this module adds the request body,
//! retries, fallback models and prices.

mod anthropic;
mod api;
mod body;
mod chat;
mod embedding;
mod gemini;
mod openai;
mod price;
mod provider;
mod question;
mod refusal;
mod send;
mod tally;

use std::collections::BTreeMap;
use std::sync::Arc;

use url::Url;
use windlass::{Call, Error, ErrorKind, Secret, TenantId};

pub use api::Api;
pub use body::Prompt;
pub use chat::Chat;
pub(crate) use chat::Watch;
pub use embedding::Embeddings;
pub use price::Price;
pub use refusal::{Again, Refused};
pub use send::{Asking, Events, Reply};
pub use tally::{Finish, Tally, says_nothing, text_of};

use crate::outbound::{Outbound, OutboundPolicy};

/// Longer than any answer takes.
const TOTAL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3600);
/// More than any answer has.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Agents spend most of their time waiting for models, each on a connection.
const MAX_CONNECTIONS: usize = 4096;

/// Configuration of model providers, prices and retries.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// Providers by name: API and base URL. Anthropic, OpenAI and Gemini are built in.
    pub providers: BTreeMap<String, Endpoint>,
    /// Prices by model or by `provider/model`; `default` is for all others.
    pub prices: BTreeMap<String, Price>,
    /// Fallback models for when a model is overloaded, which must have the same API;
    /// `default` is for all others. An empty name means none.
    pub fallbacks: BTreeMap<String, String>,
    /// How often a failed request is retried.
    pub retries: u32,
    /// Whether all tenants may use the program's own API keys. Otherwise only the default
    /// tenant may, which is the operator.
    pub share_keys: bool,
    /// Read timeout of a stream.
    pub read_timeout: std::time::Duration,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            providers: BTreeMap::new(),
            prices: BTreeMap::new(),
            fallbacks: BTreeMap::new(),
            retries: 1,
            share_keys: false,
            read_timeout: std::time::Duration::from_secs(120),
        }
    }
}

/// The endpoint of a model provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its API.
    pub api: Api,
    /// Its base URL.
    pub base_url: Url,
}

/// The client. Cheap to clone.
#[derive(Clone)]
pub struct Models(Arc<Shared>);

struct Shared {
    settings: ModelSettings,
    outbound: Outbound,
    /// The program's own API keys, for providers without a stored credential.
    keys: BTreeMap<String, Secret>,
    /// Notified of every request that has ended.
    observer: Option<Observer>,
}

type Observer = Arc<dyn Fn(&Chat<'_>) + Send + Sync>;

impl Shared {
    fn copied(&self) -> Self {
        Self {
            settings: self.settings.clone(),
            outbound: self.outbound.clone(),
            keys: self.keys.clone(),
            observer: self.observer.clone(),
        }
    }
}

/// Whose API key is used.
#[derive(Clone, Copy)]
pub struct Payer<'a> {
    /// The stored credential of the provider.
    pub stored: Option<&'a Secret>,
    /// The tenant that asks, which decides whether the program's own keys may be used.
    pub tenant: &'a TenantId,
}

impl<'a> Payer<'a> {
    /// The caller of a call.
    pub fn of(call: &'a Call) -> Self {
        Self { stored: call.secret("api_key"), tenant: &call.caller().tenant }
    }
}

/// A model with its provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its name at the provider.
    pub name: String,
    /// The provider's name.
    pub provider: String,
    endpoint: Endpoint,
}

impl Model {
    /// The provider's API.
    pub fn api(&self) -> Api {
        self.endpoint.api
    }

    /// Host and port of the provider.
    pub fn host(&self) -> Option<(String, u16)> {
        let url = &self.endpoint.base_url;
        Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
    }

    /// Its names in settings: `provider/model`, then the bare name.
    fn names(&self) -> impl Iterator<Item = String> {
        [format!("{}/{}", self.provider, self.name), self.name.clone()].into_iter()
    }
}

impl Models {
    /// A client for these endpoints, which the SSRF guard allows: the operator has
    /// configured them.
    pub fn new(settings: ModelSettings, mut policy: OutboundPolicy) -> Self {
        let hosts = settings.providers.values().filter_map(|own| {
            own.base_url.host_str().map(|host| {
                let port = own.base_url.port_or_known_default().unwrap_or(443);
                format!("{host}:{port}")
            })
        });
        policy.allow.extend(hosts.filter_map(|host| host.parse().ok()));
        policy.total_timeout = policy.total_timeout.max(TOTAL_TIMEOUT);
        policy.max_response_bytes = policy.max_response_bytes.max(MAX_BYTES);
        policy.max_connections = policy.max_connections.max(MAX_CONNECTIONS);
        let outbound = Outbound::new(policy);
        Self(Arc::new(Shared { settings, outbound, keys: BTreeMap::new(), observer: None }))
    }

    /// Sets the program's own API keys, for providers without a stored credential.
    #[must_use]
    pub fn with_keys(self, keys: BTreeMap<String, Secret>) -> Self {
        Self(Arc::new(Shared { keys, ..self.0.copied() }))
    }

    /// Sets an observer of every request that has ended.
    #[must_use]
    pub fn observed(self, observer: impl Fn(&Chat<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { observer: Some(Arc::new(observer)), ..self.0.copied() }))
    }

    /// The observer, if there is one.
    pub(crate) fn observer(&self) -> Option<&Observer> {
        self.0.observer.as_ref()
    }

    /// Finds a model by name: `claude-sonnet-4-20250514`, or `provider/model`.
    pub fn find(&self, name: &str) -> Result<Model, Error> {
        let invalid = |why: String| Error::new(ErrorKind::ExecutorNotFound, why);
        let (provider, model) = match name.split_once('/') {
            Some((provider, model)) if self.endpoint(provider).is_some() => (provider, model),
            _ => match Api::of_model(name) {
                Some(api) => (api.provider(), name),
                None => {
                    let known: Vec<&str> =
                        self.0.settings.providers.keys().map(String::as_str).collect();
                    let why = format!(
                        "whose model is `{name}`? write provider/model, with anthropic, openai, \
                         gemini or one of `models.providers`: {}",
                        known.join(", ")
                    );
                    return Err(invalid(why));
                }
            },
        };
        let endpoint =
            self.endpoint(provider).ok_or_else(|| invalid(format!("no provider `{provider}`")))?;
        Ok(Model { name: model.to_owned(), provider: provider.to_owned(), endpoint })
    }

    /// The configured endpoint of a provider, else the built-in one.
    fn endpoint(&self, provider: &str) -> Option<Endpoint> {
        let set = self.0.settings.providers.get(provider).cloned();
        set.or_else(|| Api::of_provider(provider)?.usual())
    }

    /// The fallback for an overloaded model: the agent's own, else the configured one.
    ///
    /// # Errors
    ///
    /// If the fallback configured for this very model has a different API, and so cannot
    /// read its messages.
    pub fn fallback(&self, model: &Model, own: Option<&str>) -> Result<Option<Model>, Error> {
        let fallbacks = &self.0.settings.fallbacks;
        let set = model.names().find_map(|name| fallbacks.get(&name)).map(String::as_str);
        if let Some(name) = own.or(set) {
            return self.in_place_of(model, name);
        }
        // A fallback for all models applies only to those with the same API.
        let usual = model.api().own().fallback();
        let for_all = fallbacks.get("default").map(String::as_str);
        let other = |name: &str| self.in_place_of(model, name).ok().flatten();
        Ok(for_all.or(usual).and_then(other))
    }

    fn in_place_of(&self, model: &Model, name: &str) -> Result<Option<Model>, Error> {
        if name.is_empty() {
            return Ok(None);
        }
        // Without a prefix, the fallback is of the same provider.
        let other = match name.contains('/') {
            true => self.find(name)?,
            false => Model { name: name.to_owned(), ..model.clone() },
        };
        let is_known = model.provider == model.api().provider() && !name.contains('/');
        let speaks = Api::of_model(name).filter(|_| is_known).unwrap_or(other.api());
        if speaks != model.api() {
            let why = format!(
                "a fallback speaks the same API: `{name}` speaks {}, `{}` speaks {}",
                speaks.provider(),
                model.name,
                model.api().provider()
            );
            return Err(Error::new(ErrorKind::InvalidDefinition, why));
        }
        Ok(Some(other).filter(|other| other != model))
    }

    /// The price of a model's tokens, by `provider/model` or by name.
    pub fn price(&self, model: &Model) -> Price {
        let prices = &self.0.settings.prices;
        let own = model.names().find_map(|name| prices.get(&name));
        own.or_else(|| prices.get("default")).copied().unwrap_or_default()
    }

    /// The API key for a provider: the stored credential, else the program's own, if the
    /// tenant may use that. Some providers need none.
    fn key<'k>(&'k self, model: &Model, payer: Payer<'k>) -> Result<Option<&'k Secret>, Error> {
        let ours = match payer.stored {
            Some(stored) => return Ok(Some(stored)),
            None => self.0.keys.get(&model.provider),
        };
        let may_use = self.0.settings.share_keys || *payer.tenant == TenantId::default();
        match ours {
            Some(_) if !may_use => {
                let why = format!(
                    "the tenant `{}` has no credential of the provider `{}`, and the key of this \
                     server is not shared (models.share_keys)",
                    payer.tenant, model.provider
                );
                Err(Error::new(ErrorKind::CredentialInvalid, why))
            }
            ours => Ok(ours),
        }
    }
}
