//! The audit log: who changed what, and which requests were denied.
//!
//! Each tenant has one, as a hash chain: every entry has the hash of the previous
//! one, so that changing, removing or inserting an entry breaks the chain. The head
//! is stored apart, so that truncation is found as well. The chain is tamper-evident,
//! not tamper-proof: whoever can write to the database can recompute it, unless the
//! last hash was copied elsewhere (`windlass audit verify` prints it).
//!
//! Entries never have secrets or the bodies of requests.

mod chain;
mod entry;

pub(crate) use chain::{ChainReport, Verifier};
pub(crate) use entry::{Actor, AuditEntry, Happened};

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedMutexGuard;
use windlass::{Error, ErrorKind, TenantId};
use windlass_store::{Documents, Expect, Put};

/// Document space of the entries, by their number.
const SPACE: &str = "audit";
/// Document space of the ends of the chains.
const HEADS: &str = "audit_heads";
/// The name of a tenant's one document there.
const HEAD: &str = "head";
/// Entries in one read.
const PAGE: usize = 500;
/// How often an entry is tried where several servers write one at once.
const ATTEMPTS: usize = 64;

/// The end of a chain: the number and the hash of its last entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) number: u64,
    pub(crate) hash: String,
}

impl Default for Head {
    /// Before the first entry.
    fn default() -> Self {
        Self { number: 0, hash: "0".repeat(64) }
    }
}

/// The audit logs of all tenants.
pub(crate) struct Audit {
    documents: Arc<dyn Documents>,
    /// Held by the one who writes to a tenant's log: entries of one server do not
    /// race, and nobody waits for another tenant's.
    writing: Mutex<HashMap<TenantId, Turn>>,
}

type Turn = Arc<tokio::sync::Mutex<()>>;

impl Audit {
    pub(crate) fn new(documents: Arc<dyn Documents>) -> Self {
        Self { documents, writing: Mutex::default() }
    }

    async fn turn(&self, tenant: &TenantId) -> OwnedMutexGuard<()> {
        let turn = {
            let mut writing = self.writing.lock();
            writing.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(writing.entry(tenant.clone()).or_default())
        };
        turn.lock_owned().await
    }

    /// Adds an entry to a tenant's log; ends when it is kept for good.
    pub(crate) async fn add(&self, tenant: &TenantId, happened: Happened) -> Result<(), Error> {
        let _turn = self.turn(tenant).await;
        for _ in 0..ATTEMPTS {
            let (head, version) = self.head(tenant).await?;
            let entry = AuditEntry::after(&head, Timestamp::now(), happened.clone())?;
            let put = Put::of(SPACE, tenant.clone(), id(entry.number), &entry)?;
            let added = self.documents.put(put, Expect::Absent).await?.is_some();
            // Where another server was quicker, or ended in between, its entry is
            // the last one.
            let last = match added {
                true => Some(entry),
                false => self.entry(tenant, head.number + 1).await?,
            };
            if let Some(last) = last {
                let head = Head { number: last.number, hash: last.hash };
                let put = Put::of(HEADS, tenant.clone(), HEAD, &head)?;
                let expect = version.map_or(Expect::Absent, Expect::Version);
                // Another server may have appended meanwhile.
                self.documents.put(put, expect).await?;
            }
            if added {
                return Ok(());
            }
        }
        let why = "the audit log is being written by others; try again";
        Err(Error::new(ErrorKind::StorageUnavailable, why))
    }

    /// Adds what a command did.
    pub(crate) async fn by_command(
        &self,
        tenant: &TenantId,
        action: &str,
        target: &str,
    ) -> Result<(), Error> {
        let happened = Happened {
            actor: Actor::command(),
            action: action.to_owned(),
            target: Some(target.to_owned()),
            status: None,
            details: None,
        };
        self.add(tenant, happened).await
    }

    /// Entries of a tenant after a number, oldest first.
    pub(crate) async fn list(
        &self,
        tenant: &TenantId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, Error> {
        let after = id(after);
        let found = self.documents.list(SPACE, tenant, Some(&after), limit).await?;
        Ok(found.into_iter().filter_map(|found| serde_json::from_value(found.body).ok()).collect())
    }

    /// Looks whether a tenant's log is as it was written.
    pub(crate) async fn verify(&self, tenant: &TenantId) -> Result<ChainReport, Error> {
        // Reads the end first: later entries are not included.
        let (head, _) = self.head(tenant).await?;
        let mut verifier = Verifier::default();
        let mut after = id(0);
        loop {
            let page = self.documents.list(SPACE, tenant, Some(&after), PAGE).await?;
            for document in &page {
                verifier.read(&document.body);
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after.clone_from(&last.id),
                _ => return Ok(verifier.end(Some(&head))),
            }
        }
    }

    /// The end of a tenant's chain, and the version of its document.
    pub(crate) async fn head(&self, tenant: &TenantId) -> Result<(Head, Option<u64>), Error> {
        let Some(kept) = self.documents.get(HEADS, tenant, HEAD).await? else {
            return Ok((Head::default(), None));
        };
        let head = serde_json::from_value(kept.body).map_err(|error| {
            Error::new(ErrorKind::Internal, "the end of the audit log cannot be read")
                .with_source(error)
        })?;
        Ok((head, Some(kept.version)))
    }

    async fn entry(&self, tenant: &TenantId, number: u64) -> Result<Option<AuditEntry>, Error> {
        let found = self.documents.get(SPACE, tenant, &id(number)).await?;
        Ok(found.and_then(|found| serde_json::from_value(found.body).ok()))
    }
}

/// The name of an entry's document: in the order of numbers.
fn id(number: u64) -> String {
    format!("{number:016}")
}

#[cfg(test)]
mod tests;
