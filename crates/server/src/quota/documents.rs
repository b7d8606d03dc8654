//! [`CheckedDocuments`]: documents that keep to the quotas of their tenants.
//!
//! Whatever makes a provider, a credential or an approval keeps it as a document, so this is
//! the one place to count them, whichever way they come.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use windlass::{BoxFuture, Error, TenantId};
use windlass_store::{
    Change, Document, Documents, EventFilter, Expect, KeptEvent, NewEvent, Put, SpaceSize,
};

use super::{FILES, Quotas, What, within};

/// Where calls are kept that wait for a person.
pub(crate) const APPROVALS: &str = "approvals";
/// Where credentials are kept.
pub(crate) const CREDENTIALS: &str = "credentials";
/// Where providers and the documents that they were imported from are kept.
pub(crate) const PROVIDERS: &str = crate::imports::SPACE;
/// Where the tools are kept that a tenant registered.
pub(crate) const TOOLS: &str = "tools";
/// How long a count of files is believed; what is done here is seen at once.
const BELIEVED: Duration = Duration::from_secs(30);

/// How many files a tenant has.
#[derive(Clone, Copy)]
pub(crate) struct Files {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    counted: Instant,
}

impl Quotas {
    /// How many files a tenant has, and how large they are.
    pub(crate) async fn files_of(
        &self,
        documents: &dyn Documents,
        tenant: &TenantId,
    ) -> Result<Files, Error> {
        let known = self.files.lock().get(tenant).copied();
        if let Some(known) = known.filter(|known| known.counted.elapsed() < BELIEVED) {
            return Ok(known);
        }
        let mut files = Files { count: 0, bytes: 0, counted: Instant::now() };
        for file in documents.of_tenant(FILES, tenant, "").await? {
            files.count += 1;
            files.bytes += size(&file.body);
        }
        let mut known = self.files.lock();
        known.retain(|_, known| known.counted.elapsed() < BELIEVED);
        known.insert(tenant.clone(), files);
        Ok(files)
    }

    /// What a tenant's definitions and API documents take.
    pub(crate) async fn document_bytes(
        &self,
        documents: &dyn Documents,
        tenant: &TenantId,
    ) -> Result<u64, Error> {
        let providers = documents.size_of(PROVIDERS, tenant).await?.bytes;
        Ok(providers + documents.size_of(TOOLS, tenant).await?.bytes)
    }

    fn file_kept(&self, tenant: &TenantId, bytes: u64) {
        if let Some(files) = self.files.lock().get_mut(tenant) {
            files.count += 1;
            files.bytes += bytes;
        }
    }
}

fn size(file: &serde_json::Value) -> u64 {
    file["size"].as_u64().unwrap_or_default()
}

/// Documents that keep to the quotas of their tenants.
pub(crate) struct CheckedDocuments {
    inner: Arc<dyn Documents>,
    quotas: Arc<Quotas>,
}

impl CheckedDocuments {
    pub(crate) fn new(inner: Arc<dyn Documents>, quotas: Arc<Quotas>) -> Arc<Self> {
        Arc::new(Self { inner, quotas })
    }

    /// Whether a document may be kept.
    async fn allow(&self, put: &Put) -> Result<(), Error> {
        let (tenant, settings) = (&put.tenant, &self.quotas.settings);
        let before = self.inner.get(put.space, tenant, &put.id).await?;
        if before.is_none() && put.space != TOOLS {
            let (what, most) = match put.space {
                APPROVALS => ("calls that wait for approval", settings.approvals),
                CREDENTIALS => ("credentials", settings.credentials),
                _ => ("providers", settings.providers),
            };
            let count = self.inner.size_of(put.space, tenant).await?.count;
            within(what, tenant, count + 1, most)?;
        }
        if matches!(put.space, APPROVALS | CREDENTIALS) {
            return Ok(());
        }
        let old = before.map_or(0, |before| before.body.to_string().len() as u64);
        let new = put.body.to_string().len() as u64;
        // Whoever makes less of it may always do that.
        if new <= old {
            return Ok(());
        }
        let all = self.quotas.document_bytes(&*self.inner, tenant).await?;
        let wanted = (all + new).saturating_sub(old);
        within("document bytes", tenant, wanted, settings.document_bytes)
    }
}

impl Documents for CheckedDocuments {
    fn get<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>, Error>> {
        self.inner.get(space, tenant, id)
    }

    fn find<'a>(
        &'a self,
        space: &'static str,
        alias: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>, Error>> {
        self.inner.find(space, alias)
    }

    fn names<'a>(
        &'a self,
        space: &'static str,
    ) -> BoxFuture<'a, Result<Vec<(TenantId, String)>, Error>> {
        self.inner.names(space)
    }

    fn list<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document>, Error>> {
        self.inner.list(space, tenant, after, limit)
    }

    fn size_of<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
    ) -> BoxFuture<'a, Result<SpaceSize, Error>> {
        self.inner.size_of(space, tenant)
    }

    fn all<'a>(&'a self, space: &'static str) -> BoxFuture<'a, Result<Vec<Document>, Error>> {
        self.inner.all(space)
    }

    fn put(&self, put: Put, expect: Expect) -> BoxFuture<'_, Result<Option<u64>, Error>> {
        match put.space {
            APPROVALS | CREDENTIALS | PROVIDERS | TOOLS => Box::pin(async move {
                let _turn = self.quotas.making(&put.tenant, What::Document).await;
                self.allow(&put).await?;
                self.inner.put(put, expect).await
            }),
            FILES => Box::pin(async move {
                let (tenant, bytes) = (put.tenant.clone(), size(&put.body));
                let kept = self.inner.put(put, expect).await?;
                self.quotas.file_kept(&tenant, bytes);
                Ok(kept)
            }),
            _ => self.inner.put(put, expect),
        }
    }

    fn delete<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
        expect: Expect,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        if space == FILES {
            self.quotas.files.lock().remove(tenant);
        }
        self.inner.delete(space, tenant, id, expect)
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.changes()
    }

    fn append_events(&self, events: Vec<NewEvent>) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.append_events(events)
    }

    fn events<'a>(
        &'a self,
        after: u64,
        filter: EventFilter<'a>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<KeptEvent>, Error>> {
        self.inner.events(after, filter, limit)
    }

    fn event_range(&self) -> BoxFuture<'_, Result<(u64, u64), Error>> {
        self.inner.event_range()
    }

    fn new_events(&self) -> watch::Receiver<u64> {
        self.inner.new_events()
    }
}
