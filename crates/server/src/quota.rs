//! Quotas: how much a tenant, and a key, may have made or have going on.
//!
//! ```text
//! stored   tools, providers, documents, files, credentials,  counted where they are kept
//!          calls that wait for a person
//! live     subscribers, runs                                 a permit each
//! calls    per minute, per day, cost per day                 counted by the engine
//! ```
//!
//! Over one, the answer is `quota_exceeded`: 429, with the time at which it ends
//! where it ends by itself. `GET /v1/quotas` shows all of them. Counts of calls
//! and of what is live are each server's own, but those of a day are shared
//! ([`days`]).

mod days;
mod documents;
mod live;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use windlass::{CallQuota, CallQuotas, Error, ErrorKind, TenantId};
use windlass_store::Documents;

pub(crate) use days::DaySharer;
pub(crate) use documents::{APPROVALS, CREDENTIALS, CheckedDocuments};
pub(crate) use live::{Live, Permit};

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
            subscribers: 4_000,
            runs: 400,
            calls_per_minute: Some(5_000_000),
            calls_per_day: Some(1_000_000_000),
            cost_per_day: Some(Dollars(1_000.0)),
            per_key: NarrowQuotas {
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
pub(crate) struct Quotas {
    pub(crate) settings: QuotaSettings,
    live: Mutex<live::Counts>,
    /// Files by tenant, as they were counted a short while ago.
    files: Mutex<HashMap<TenantId, documents::Files>>,
    making: Mutex<HashMap<(TenantId, What), Turn>>,
}

/// Whoever holds it makes something.
type Turn = Arc<tokio::sync::Mutex<()>>;

/// What somebody is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// Tools, whichever way they come.
    Tools,
    /// A file.
    File,
    /// Something that is a document.
    Document,
}

impl Quotas {
    pub(crate) fn new(settings: QuotaSettings) -> Arc<Self> {
        let (live, files, making) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { settings, live, files, making })
    }

    /// Lets a tenant make one thing at a time: between looking and making, nobody
    /// else makes one.
    pub(crate) async fn making(&self, tenant: &TenantId, what: What) -> OwnedMutexGuard<()> {
        let turn = {
            let mut making = self.making.lock();
            making.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(making.entry((tenant.clone(), what)).or_default())
        };
        turn.lock_owned().await
    }

    /// Whether a tenant may have so many tools.
    pub(crate) fn allow_tools(&self, tenant: &TenantId, wanted: usize) -> Result<(), Error> {
        within("tools", tenant, wanted as u64, self.settings.tools)
    }

    /// Whether a tenant may have one more file of this size. Whoever asks is
    /// [making](Quotas::making) it.
    pub(crate) async fn allow_file(
        &self,
        documents: &dyn Documents,
        tenant: &TenantId,
        size: u64,
    ) -> Result<(), Error> {
        let files = self.files_of(documents, tenant).await?;
        within("files", tenant, files.count + 1, self.settings.files)?;
        within("file bytes", tenant, files.bytes + size, self.settings.file_bytes)
    }
}

/// Refuses what is more than the most.
fn within(what: &str, tenant: &TenantId, wanted: u64, most: u64) -> Result<(), Error> {
    match wanted <= most {
        true => Ok(()),
        false => Err(exceeded(what, &format!("the tenant `{tenant}`"), most)),
    }
}

/// A quota that ends when something of it is given up.
fn exceeded(what: &str, whose: &str, most: u64) -> Error {
    let why = format!("{what} of {whose}: all of {most} are used, until some are given up");
    Error::new(ErrorKind::QuotaExceeded, why)
}
