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
//! A request over a quota gets `quota_exceeded` (429), with `Retry-After` where the
//! quota resets by itself. `GET /v1/quotas` shows all of them. Each server counts
//! calls and concurrent use on its own, but counts of a day are shared ([`days`]).

mod concurrent;
mod days;
mod documents;
mod stored;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
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
/// the tenant's limit only.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NarrowQuotas {
    /// What a key has made, down to `consents`.
    pub(crate) tools: Option<u64>,
    pub(crate) providers: Option<u64>,
    pub(crate) document_bytes: Option<u64>,
    pub(crate) files: Option<u64>,
    pub(crate) file_bytes: Option<u64>,
    pub(crate) credentials: Option<u64>,
    pub(crate) conversations: Option<u64>,
    pub(crate) conversation_bytes: Option<u64>,
    pub(crate) consents: Option<u64>,
    /// Only of a key.
    pub(crate) subscribers: Option<u64>,
    /// Only of a key.
    pub(crate) runs: Option<u64>,
    pub(crate) calls_per_minute: Option<u64>,
    pub(crate) calls_per_day: Option<u64>,
    pub(crate) cost_per_day: Option<Dollars>,
}

/// US dollars.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Dollars(pub(crate) f64);

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
        let narrow = |own: &NarrowQuotas| CallQuota {
            per_minute: own.calls_per_minute,
            per_day: own.calls_per_day,
            cost_per_day: own.cost_per_day.map(|cost| cost.0),
        };
        CallQuotas {
            tenant: CallQuota {
                per_minute: self.calls_per_minute,
                per_day: self.calls_per_day,
                cost_per_day: self.cost_per_day.map(|cost| cost.0),
            },
            user: narrow(&self.per_user),
            key: narrow(&self.per_key),
            tool: narrow(&self.per_tool),
        }
    }
}

/// What has been used of quotas, but for those of calls.
pub(crate) struct TenantQuotas {
    pub(crate) settings: QuotaSettings,
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
    pub(crate) fn new(settings: QuotaSettings) -> Arc<Self> {
        let (live, files, making) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { settings, live, files, making })
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
        StoredResource::Tools.within(whose, wanted as u64, &self.settings, None)
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
        for (whose, files) in
            [(QuotaHolder::Tenant(&who.tenant), files.all), (QuotaHolder::Key(&who.key_id), of_key)]
        {
            StoredResource::Files.within(whose, files.count + 1, &self.settings, None)?;
            StoredResource::FileBytes.within(whose, files.bytes + size, &self.settings, None)?;
        }
        Ok(())
    }
}
