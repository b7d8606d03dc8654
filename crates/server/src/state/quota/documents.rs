//! [`CheckedDocuments`]: a document store that enforces the quotas of tenants.
//!
//! Every provider, credential and pending approval is kept as a document, so this is
//! the one place to count them, whichever route creates them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use windlass::{BoxFuture, Error, TenantId};
use windlass_store::{
    Change, Document, Documents, EventFilter, Expect, KeptEvent, NewEvent, Put, SpaceSize,
};

use super::{FILES, NewResource, QuotaHolder, StoredResource, TenantQuotas};
use crate::state::identity::works;

/// Where calls are kept that wait for a person.
pub(crate) const APPROVALS: &str = "approvals";
/// Where credentials are kept.
pub(crate) const CREDENTIALS: &str = "credentials";
/// The document space of agents' conversations.
pub(crate) const CONVERSATIONS: &str = "agent_conversations";
/// Where consents that are under way are kept.
pub(crate) const CONSENTS: &str = "consents";
/// Where API keys are kept.
pub(crate) const API_KEYS: &str = "api_keys";
/// Where providers and the documents that they were imported from are kept.
pub(crate) const PROVIDERS: &str = crate::state::imports::SPACE;
/// Where the tools are kept that a tenant registered.
pub(crate) const TOOLS: &str = "tools";
/// How long a count of files is believed; what is done here is seen at once.
const BELIEVED: Duration = Duration::from_secs(30);

/// How many files there are.
#[derive(Clone, Copy, Default)]
pub(crate) struct FileCount {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl FileCount {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// How many files a tenant has.
#[derive(Clone)]
pub(crate) struct FileCounts {
    pub(crate) all: FileCount,
    /// By the key that uploaded them.
    keys: HashMap<String, FileCount>,
    counted: Instant,
}

impl FileCounts {
    /// Those that a key uploaded.
    pub(crate) fn of_key(&self, key: &str) -> FileCount {
        self.keys.get(key).copied().unwrap_or_default()
    }

    fn add(&mut self, file: &Value) {
        let bytes = file["size"].as_u64().unwrap_or_default();
        self.all.add(bytes);
        if let Some(owner) = file["owner"].as_str() {
            self.keys.entry(owner.to_owned()).or_default().add(bytes);
        }
    }
}

impl TenantQuotas {
    /// How many files a tenant has, and how large they are.
    pub(crate) async fn files_of(
        &self,
        documents: &dyn Documents,
        tenant: &TenantId,
    ) -> Result<FileCounts, Error> {
        let known = self.files.lock().get(tenant).cloned();
        if let Some(known) = known.filter(|known| known.counted.elapsed() < BELIEVED) {
            return Ok(known);
        }
        let (all, keys) = (FileCount::default(), HashMap::new());
        let mut files = FileCounts { all, keys, counted: Instant::now() };
        for file in documents.of_tenant(FILES, tenant, "").await? {
            files.add(&file.body);
        }
        let mut known = self.files.lock();
        known.retain(|_, known| known.counted.elapsed() < BELIEVED);
        known.insert(tenant.clone(), files.clone());
        Ok(files)
    }

    /// How much a tenant, or a key of it, has of what is kept as documents:
    /// anything but tools and files.
    pub(crate) async fn kept(
        &self,
        documents: &dyn Documents,
        what: StoredResource,
        tenant: &TenantId,
        key: Option<&str>,
    ) -> Result<SpaceSize, Error> {
        let space = match what {
            StoredResource::Providers => PROVIDERS,
            StoredResource::Credentials => CREDENTIALS,
            StoredResource::Approvals => APPROVALS,
            StoredResource::Conversations | StoredResource::ConversationBytes => CONVERSATIONS,
            StoredResource::Consents => CONSENTS,
            StoredResource::ApiKeys => {
                let count = working(&documents.of_tenant(API_KEYS, tenant, "").await?);
                return Ok(SpaceSize { count, ..SpaceSize::default() });
            }
            StoredResource::DocumentBytes => {
                let providers = documents.size_of(PROVIDERS, tenant, key).await?;
                let tools = documents.size_of(TOOLS, tenant, key).await?;
                return Ok(SpaceSize { bytes: providers.bytes + tools.bytes, ..providers });
            }
            StoredResource::Tools | StoredResource::Files | StoredResource::FileBytes => {
                return Ok(SpaceSize::default());
            }
        };
        documents.size_of(space, tenant, key).await
    }

    /// Checks the quotas of a tenant and of its key for a new resource.
    async fn allow(
        &self,
        documents: &dyn Documents,
        what: StoredResource,
        (tenant, owner): (&TenantId, Option<&str>),
        more: u64,
    ) -> Result<(), Error> {
        let all = self.kept(documents, what, tenant, None).await?;
        let wanted = what.of(&all) + more;
        self.within(what, QuotaHolder::Tenant(tenant), wanted, all.first_end)?;
        let Some(owner) = owner else { return Ok(()) };
        // A key has no more than its tenant, which is often enough to know.
        let key = QuotaHolder::Key { tenant, key: owner };
        if self.most_stored(what, key).is_none_or(|most| wanted <= most) {
            return Ok(());
        }
        let own = self.kept(documents, what, tenant, Some(owner)).await?;
        self.within(what, key, what.of(&own) + more, own.first_end)
    }

    /// Whether somebody may begin one more conversation that is kept. It is kept
    /// at its end, which is too late to refuse it.
    pub(crate) async fn allow_conversation(
        &self,
        documents: &dyn Documents,
        tenant: &TenantId,
        owner: Option<&str>,
    ) -> Result<(), Error> {
        for what in [StoredResource::Conversations, StoredResource::ConversationBytes] {
            self.allow(documents, what, (tenant, owner), 1).await?;
        }
        Ok(())
    }
}

/// How many of these keys work.
fn working(keys: &[Document]) -> u64 {
    keys.iter().filter(|key| works(key)).count() as u64
}

/// Documents that keep to the quotas of their tenants.
pub(crate) struct CheckedDocuments {
    inner: Arc<dyn Documents>,
    quotas: Arc<TenantQuotas>,
}

impl CheckedDocuments {
    pub(crate) fn new(inner: Arc<dyn Documents>, quotas: Arc<TenantQuotas>) -> Arc<Self> {
        Arc::new(Self { inner, quotas })
    }

    /// Whether a document may be kept.
    async fn allow(&self, put: &Put) -> Result<(), Error> {
        let before = self.inner.get(put.space, &put.tenant, &put.id).await?;
        let (count, bytes) = match put.space {
            APPROVALS => (Some(StoredResource::Approvals), None),
            CREDENTIALS => (Some(StoredResource::Credentials), None),
            CONSENTS => (Some(StoredResource::Consents), None),
            API_KEYS => (Some(StoredResource::ApiKeys), None),
            CONVERSATIONS => {
                (Some(StoredResource::Conversations), Some(StoredResource::ConversationBytes))
            }
            PROVIDERS => (Some(StoredResource::Providers), Some(StoredResource::DocumentBytes)),
            _ => (None, Some(StoredResource::DocumentBytes)),
        };
        // Whoever made it has it, whoever changes it.
        let owner = match &before {
            Some(before) => before.owner.as_deref(),
            None => put.owner.as_deref(),
        };
        let whose = (&put.tenant, owner);
        if let Some(what) = count.filter(|_| before.is_none()) {
            self.quotas.allow(&*self.inner, what, whose, 1).await?;
        }
        let Some(what) = bytes else { return Ok(()) };
        let old = before.as_ref().map_or(0, |before| before.body.to_string().len() as u64);
        let new = put.body.to_string().len() as u64;
        // Whoever makes less of it may always do that.
        match new.checked_sub(old) {
            None | Some(0) => Ok(()),
            Some(more) => self.quotas.allow(&*self.inner, what, whose, more).await,
        }
    }

    /// Keys that do not work any more stay in the list while there are not more of
    /// them than a tenant may have that work; then the oldest goes.
    async fn forget_old_keys(&self, tenant: &TenantId) -> Result<(), Error> {
        let mut gone = self.inner.of_tenant(API_KEYS, tenant, "").await?;
        gone.retain(|key| !works(key));
        gone.sort_by_key(|key| std::cmp::Reverse(key.updated_at));
        let most = usize::try_from(self.quotas.of(tenant).api_keys).unwrap_or(usize::MAX);
        for key in gone.iter().skip(most) {
            self.inner.delete(API_KEYS, tenant, &key.id, Expect::Version(key.version)).await?;
        }
        Ok(())
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

    fn body_text<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, Error>> {
        self.inner.body_text(space, tenant, id)
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
        owner: Option<&'a str>,
    ) -> BoxFuture<'a, Result<SpaceSize, Error>> {
        self.inner.size_of(space, tenant, owner)
    }

    fn owned_by<'a>(
        &'a self,
        space: &'static str,
        tenant: &'a TenantId,
        owner: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        self.inner.owned_by(space, tenant, owner)
    }

    fn all<'a>(&'a self, space: &'static str) -> BoxFuture<'a, Result<Vec<Document>, Error>> {
        self.inner.all(space)
    }

    fn put(&self, put: Put, expect: Expect) -> BoxFuture<'_, Result<Option<u64>, Error>> {
        match put.space {
            APPROVALS | CREDENTIALS | CONVERSATIONS | CONSENTS | API_KEYS | PROVIDERS | TOOLS => {
                Box::pin(async move {
                    let _turn = self.quotas.making(&put.tenant, NewResource::Document).await;
                    self.allow(&put).await?;
                    if put.space == API_KEYS {
                        self.forget_old_keys(&put.tenant).await?;
                    }
                    self.inner.put(put, expect).await
                })
            }
            FILES => Box::pin(async move {
                let (tenant, file) = (put.tenant.clone(), put.body.clone());
                let kept = self.inner.put(put, expect).await?;
                if let Some(files) = self.quotas.files.lock().get_mut(&tenant) {
                    files.add(&file);
                }
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

    fn forgotten_events<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<u64, Error>> {
        self.inner.forgotten_events(tenant)
    }

    fn new_events(&self) -> watch::Receiver<u64> {
        self.inner.new_events()
    }
}
