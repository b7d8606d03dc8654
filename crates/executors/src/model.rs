//! Models that answer: Anthropic, everything that speaks OpenAI's Chat
//! Completions, and Gemini.
//!
//! ```text
//! Prompt ─ body ─► request ─ Outbound ─► stream of events ─ tally ─► text, usage
//! ```
//!
//! No kind, but what kinds that ask models build on. Requests go through the
//! guarded client like all others. What an answer asks for is read by the
//! engine's own [`windlass::OpenTurn`]; here is only what stands around it: the
//! body of a request, how long to wait, whom to ask instead, what it cost.

mod api;
mod body;
mod chat;
mod embedding;
mod price;
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

/// What S4.14 falls back on.
const FALLBACK: &str = "claude-haiku-4-20250514";
/// Longer than any model writes.
const TOTAL_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3600);
/// More than any model writes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Agents wait for models most of their time, each on a connection.
const MAX_CONNECTIONS: usize = 4096;

/// Who answers, where, and for how much.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// Providers by name: which API they speak, and where. Anthropic, OpenAI and
    /// Gemini are known.
    pub providers: BTreeMap<String, Endpoint>,
    /// Prices by model, or by `provider/model`; `default` is for all others
    /// (S4.16).
    pub prices: BTreeMap<String, Price>,
    /// The model to ask in place of one that is overloaded, which speaks the same
    /// API; `default` is for all others that do. An empty name is for none.
    pub fallbacks: BTreeMap<String, String>,
    /// How often a request is tried again (S4.14).
    pub retries: u32,
    /// Whether every tenant may use the keys that came with the program; otherwise
    /// the default tenant alone, which is whoever runs it.
    pub share_keys: bool,
    /// How long a model may be silent.
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

/// Where a provider of models is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// What it speaks.
    pub api: Api,
    /// What the paths of its API are added to.
    pub base_url: Url,
}

/// Asks models. Cheap to clone.
#[derive(Clone)]
pub struct Models(Arc<Shared>);

struct Shared {
    settings: ModelSettings,
    outbound: Outbound,
    /// Keys for providers whose credential nobody has stored.
    keys: BTreeMap<String, Secret>,
    /// Hears of every question that has ended.
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

/// Whose key a model is asked with.
#[derive(Clone, Copy)]
pub struct Payer<'a> {
    /// The key of its provider, where somebody has stored one.
    pub stored: Option<&'a Secret>,
    /// Who asks. The keys that came with the program are not everybody's.
    pub tenant: &'a TenantId,
}

impl<'a> Payer<'a> {
    /// Whoever makes a call.
    pub fn of(call: &'a Call) -> Self {
        Self { stored: call.secret("api_key"), tenant: &call.caller().tenant }
    }
}

/// A model that can be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its name, as its provider knows it.
    pub name: String,
    /// Whose it is.
    pub provider: String,
    endpoint: Endpoint,
}

impl Model {
    /// What its provider speaks.
    pub fn api(&self) -> Api {
        self.endpoint.api
    }

    /// Where its provider is.
    pub fn host(&self) -> Option<(String, u16)> {
        let url = &self.endpoint.base_url;
        Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
    }

    /// What settings may call it: `provider/model`, else its name alone.
    fn names(&self) -> impl Iterator<Item = String> {
        [format!("{}/{}", self.provider, self.name), self.name.clone()].into_iter()
    }
}

impl Models {
    /// Asks where these settings say. Their addresses may be reached, whatever
    /// the policy says: the operator has named them.
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

    /// The same with keys for providers whose credential nobody has stored.
    #[must_use]
    pub fn with_keys(self, keys: BTreeMap<String, Secret>) -> Self {
        Self(Arc::new(Shared { keys, ..self.0.copied() }))
    }

    /// The same with somebody who hears of every question that has ended.
    #[must_use]
    pub fn observed(self, observer: impl Fn(&Chat<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { observer: Some(Arc::new(observer)), ..self.0.copied() }))
    }

    /// Whether anybody wants to hear of questions.
    pub(crate) fn observer(&self) -> Option<&Observer> {
        self.0.observer.as_ref()
    }

    /// The model of a name: `claude-sonnet-4-20250514`, or `provider/model`.
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

    /// What a provider is, as set, else as known.
    fn endpoint(&self, provider: &str) -> Option<Endpoint> {
        let set = self.0.settings.providers.get(provider).cloned();
        set.or_else(|| Api::ALL.into_iter().find(|api| api.provider() == provider)?.usual())
    }

    /// The model to ask in place of one that is overloaded: the agent's own, else
    /// the one that was set.
    ///
    /// # Errors
    ///
    /// One that was named for this model and could not read its messages.
    pub fn fallback(&self, model: &Model, own: Option<&str>) -> Result<Option<Model>, Error> {
        let fallbacks = &self.0.settings.fallbacks;
        let set = model.names().find_map(|name| fallbacks.get(&name)).map(String::as_str);
        if let Some(name) = own.or(set) {
            return self.in_place_of(model, name);
        }
        // What is set for all models is for those that it can stand in for.
        let usual = (model.api() == Api::Anthropic).then_some(FALLBACK);
        let for_all = fallbacks.get("default").map(String::as_str);
        let other = |name: &str| self.in_place_of(model, name).ok().flatten();
        Ok(for_all.or(usual).and_then(other))
    }

    fn in_place_of(&self, model: &Model, name: &str) -> Result<Option<Model>, Error> {
        if name.is_empty() {
            return Ok(None);
        }
        // One that does not say whose it is is the same provider's.
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

    /// What tokens of a model cost. A price may be set for `provider/model`, too.
    pub fn price(&self, model: &Model) -> Price {
        let prices = &self.0.settings.prices;
        let own = model.names().find_map(|name| prices.get(&name));
        own.or_else(|| prices.get("default")).copied().unwrap_or_default()
    }

    /// The key of a provider: a credential's, else one that came with the
    /// program, if the tenant may use it. A provider may do without.
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
