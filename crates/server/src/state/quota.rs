//! Quotas: how much a tenant, and a key, may store, run at once, and call.
//!
//! ```text
//! stored      tools, providers, documents, files, credentials,  counted where they are kept,
//!             conversations, consents, API keys,               by the key that made them, too
//!             calls that wait for a person
//! concurrent  subscribers, runs                                 a permit each
//! calls       per minute, per day, cost per day                 counted by the engine
//! ```
//!
//! A tenant may have quotas of its own (settings), and a key as well (in its document,
//! see [`TenantQuotas::set_key`]).
//!
//! A request over a quota gets `quota_exceeded` (429), with `Retry-After` where the
//! quota resets by itself. `GET /v1/quotas` shows all of them. Each server counts
//! calls and concurrent use on its own, but counts of a day are shared ([`days`]).

mod concurrent;
mod days;
mod documents;
mod stored;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;
use windlass::{CallQuota, CallQuotas, Error, TenantId};
use windlass_store::Documents;

use crate::state::identity::Identity;

pub(crate) use concurrent::{ConcurrentUse, QuotaPermit};
pub(crate) use days::DaySharer;
pub(crate) use documents::{
    API_KEYS, APPROVALS, CONSENTS, CONVERSATIONS, CREDENTIALS, CheckedDocuments,
};
pub(crate) use stored::{QuotaHolder, StoredResource};

/// Where files that were uploaded are described.
pub(crate) const FILES: &str = "files";

/// What may be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QuotaSettings {
    pub(crate) tools: u64,
    pub(crate) providers: u64,
    pub(crate) document_bytes: u64,
    pub(crate) files: u64,
    pub(crate) file_bytes: u64,
    pub(crate) credentials: u64,
    pub(crate) approvals: u64,
    pub(crate) conversations: u64,
    pub(crate) conversation_bytes: u64,
    pub(crate) consents: u64,
    pub(crate) api_keys: u64,
    pub(crate) subscribers: u64,
    pub(crate) runs: u64,
    pub(crate) calls_per_minute: Option<u64>,
    pub(crate) calls_per_day: Option<u64>,
    pub(crate) cost_per_day: Option<Dollars>,
    pub(crate) per_key: NarrowQuotas,
    pub(crate) per_user: NarrowQuotas,
    pub(crate) per_tool: NarrowQuotas,
}

/// What one key, one user or one tool of a tenant may have. What is not set has
/// the tenant's limit only; in the quotas of a single key, that of all keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "KeyQuotas")]
pub(crate) struct NarrowQuotas {
    /// Tools that the key may create, however they are added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<u64>,
    /// Providers that the key may have made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) providers: Option<u64>,
    /// The size of all definitions and API documents that the key has made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) document_bytes: Option<u64>,
    /// Files that the key may have uploaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) files: Option<u64>,
    /// The size of all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file_bytes: Option<u64>,
    /// Credentials that the key may have stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) credentials: Option<u64>,
    /// Conversations with agents that are kept for the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) conversations: Option<u64>,
    /// The size of all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) conversation_bytes: Option<u64>,
    /// Pending OAuth consents that calls of the key asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) consents: Option<u64>,
    /// Concurrent event subscribers of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subscribers: Option<u64>,
    /// Concurrent agent runs of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runs: Option<u64>,
    /// Calls of the key that begin in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) calls_per_minute: Option<u64>,
    /// Calls of the key that begin in a day (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) calls_per_day: Option<u64>,
    /// What models may cost for the key in a day, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost_per_day: Option<Dollars>,
}

/// US dollars.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct Dollars(#[schemars(range(min = 0))] pub(crate) f64);

impl Dollars {
    /// An amount that a quota may have.
    pub(crate) fn new(amount: f64) -> Option<Self> {
        (amount.is_finite() && amount >= 0.0).then_some(Self(amount))
    }
}

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let amount = Self::new(f64::deserialize(from)?);
        amount.ok_or_else(|| serde::de::Error::custom("not an amount of US dollars"))
    }
}

impl NarrowQuotas {
    /// These quotas, and the others where they are not set.
    fn or(self, others: &Self) -> Self {
        Self {
            tools: self.tools.or(others.tools),
            providers: self.providers.or(others.providers),
            document_bytes: self.document_bytes.or(others.document_bytes),
            files: self.files.or(others.files),
            file_bytes: self.file_bytes.or(others.file_bytes),
            credentials: self.credentials.or(others.credentials),
            conversations: self.conversations.or(others.conversations),
            conversation_bytes: self.conversation_bytes.or(others.conversation_bytes),
            consents: self.consents.or(others.consents),
            subscribers: self.subscribers.or(others.subscribers),
            runs: self.runs.or(others.runs),
            calls_per_minute: self.calls_per_minute.or(others.calls_per_minute),
            calls_per_day: self.calls_per_day.or(others.calls_per_day),
            cost_per_day: self.cost_per_day.or(others.cost_per_day),
        }
    }

    /// Those of calls, which the engine counts.
    pub(crate) fn calls(&self) -> CallQuota {
        CallQuota {
            per_minute: self.calls_per_minute,
            per_day: self.calls_per_day,
            cost_per_day: self.cost_per_day.map(|cost| cost.0),
        }
    }

    /// The name of one that is higher than others allow, if there is any.
    pub(crate) fn beyond(&self, others: &Self) -> Option<String> {
        let (own, others) = (json!(self), json!(others));
        let is_beyond = |name: &String, value: &Value| {
            others.get(name).is_some_and(|most| value.as_f64() > most.as_f64())
        };
        let mut own = own.as_object()?.iter();
        own.find(|(name, value)| is_beyond(name, value)).map(|(name, _)| name.clone())
    }
}

/// High enough that nobody meets them who means well, and low enough that nobody
/// fills a disk or a purse unseen.
impl Default for QuotaSettings {
    fn default() -> Self {
        Self {
            tools: 20_000,
            providers: 1_000,
            document_bytes: 512 << 20,
            files: 10_000,
            file_bytes: 512 << 20,
            credentials: 1_000,
            approvals: 10_000,
            conversations: 10_000,
            conversation_bytes: 1 << 30,
            consents: 1_000,
            api_keys: 1_000,
            subscribers: 4_000,
            runs: 400,
            calls_per_minute: Some(5_000_000),
            calls_per_day: Some(1_000_000_000),
            cost_per_day: Some(Dollars(1_000.0)),
            per_key: NarrowQuotas {
                tools: Some(10_000),
                providers: Some(500),
                document_bytes: Some(256 << 20),
                files: Some(5_000),
                file_bytes: Some(256 << 20),
                credentials: Some(500),
                conversations: Some(5_000),
                conversation_bytes: Some(512 << 20),
                consents: Some(500),
                subscribers: Some(2_000),
                runs: Some(200),
                calls_per_minute: Some(5_000_000),
                calls_per_day: Some(1_000_000_000),
                cost_per_day: Some(Dollars(500.0)),
            },
            per_user: NarrowQuotas::default(),
            per_tool: NarrowQuotas::default(),
        }
    }
}

impl QuotaSettings {
    /// Those that the engine counts.
    pub(crate) fn calls(&self) -> CallQuotas {
        CallQuotas {
            tenant: CallQuota {
                per_minute: self.calls_per_minute,
                per_day: self.calls_per_day,
                cost_per_day: self.cost_per_day.map(|cost| cost.0),
            },
            user: self.per_user.calls(),
            key: self.per_key.calls(),
            tool: self.per_tool.calls(),
        }
    }
}

/// What has been used of quotas, but for those of calls.
pub(crate) struct TenantQuotas {
    settings: QuotaSettings,
    /// Tenants with quotas of their own.
    tenants: BTreeMap<TenantId, QuotaSettings>,
    /// Keys with quotas of their own.
    keys: Mutex<HashMap<Arc<str>, NarrowQuotas>>,
    live: Mutex<concurrent::ConcurrentCounts>,
    /// Files by tenant, as they were counted a short while ago.
    files: Mutex<HashMap<TenantId, documents::FileCounts>>,
    making: Mutex<HashMap<(TenantId, NewResource), QuotaLock>>,
}

/// Serializes the creation of resources of one tenant.
type QuotaLock = Arc<tokio::sync::Mutex<()>>;

/// A resource that is about to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NewResource {
    /// Tools, whichever way they come.
    Tools,
    /// A file.
    File,
    /// Something that is a document.
    Document,
}

impl TenantQuotas {
    /// Quotas for all tenants, and those of some instead of these.
    pub(crate) fn new(
        settings: QuotaSettings,
        tenants: BTreeMap<TenantId, QuotaSettings>,
    ) -> Arc<Self> {
        let (live, files, making) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { settings, tenants, keys: Mutex::default(), live, files, making })
    }

    /// The quotas of a tenant.
    pub(crate) fn of(&self, tenant: &TenantId) -> &QuotaSettings {
        self.tenants.get(tenant).unwrap_or(&self.settings)
    }

    /// The quotas of a key.
    pub(crate) fn of_key(&self, tenant: &TenantId, key: &str) -> NarrowQuotas {
        let own = self.keys.lock().get(key).copied().unwrap_or_default();
        own.or(&self.of(tenant).per_key)
    }

    /// The keys that have quotas of their own.
    pub(crate) fn keys(&self) -> Vec<Arc<str>> {
        self.keys.lock().keys().cloned().collect()
    }

    /// Gives a key quotas of its own, beside which those of all keys are only for
    /// what is not set; `None` takes them away.
    pub(crate) fn set_key(&self, key: &str, quotas: Option<NarrowQuotas>) {
        let mut keys = self.keys.lock();
        match quotas {
            Some(quotas) => drop(keys.insert(key.into(), quotas)),
            None => drop(keys.remove(key)),
        }
    }

    /// How much somebody may have of what is stored.
    pub(crate) fn most_stored(&self, what: StoredResource, whose: QuotaHolder<'_>) -> Option<u64> {
        match whose {
            QuotaHolder::Tenant(tenant) => Some(what.most(self.of(tenant))),
            QuotaHolder::Key { tenant, key } => what.most_of_key(&self.of_key(tenant, key)),
        }
    }

    /// Refuses what is more than somebody may have. `end` is when the first of
    /// what there is expires.
    fn within(
        &self,
        what: StoredResource,
        whose: QuotaHolder<'_>,
        wanted: u64,
        end: Option<Timestamp>,
    ) -> Result<(), Error> {
        what.within(whose, wanted, self.most_stored(what, whose), end)
    }

    /// Lets a tenant make one thing at a time: between looking and making, nobody
    /// else makes one.
    pub(crate) async fn making(&self, tenant: &TenantId, what: NewResource) -> OwnedMutexGuard<()> {
        let turn = {
            let mut making = self.making.lock();
            making.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(making.entry((tenant.clone(), what)).or_default())
        };
        turn.lock_owned().await
    }

    /// Whether a tenant, or a key of it, may have so many tools.
    pub(crate) fn allow_tools(&self, whose: QuotaHolder<'_>, wanted: usize) -> Result<(), Error> {
        self.within(StoredResource::Tools, whose, wanted as u64, None)
    }

    /// Whether a key may upload one more file of this size. Whoever asks is
    /// [making](TenantQuotas::making) it.
    pub(crate) async fn allow_file(
        &self,
        documents: &dyn Documents,
        who: &Identity,
        size: u64,
    ) -> Result<(), Error> {
        let files = self.files_of(documents, &who.tenant).await?;
        let of_key = files.of_key(&who.key_id);
        let key = QuotaHolder::Key { tenant: &who.tenant, key: &who.key_id };
        for (whose, files) in [(QuotaHolder::Tenant(&who.tenant), files.all), (key, of_key)] {
            self.within(StoredResource::Files, whose, files.count + 1, None)?;
            self.within(StoredResource::FileBytes, whose, files.bytes + size, None)?;
        }
        Ok(())
    }
}
