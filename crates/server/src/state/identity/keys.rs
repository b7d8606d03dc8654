//! [`ApiKeys`]: creates, checks and revokes API keys.

use std::sync::Arc;

use jiff::Timestamp;
use windlass::{Error, ErrorKind, TenantId};
use windlass_store::{Document, Documents, Expect, Put};

use super::cache::{CacheLookup, KeyCache};
use super::key::{self, ApiKey, KeyHash, NewKey, StoredKey};
use super::{Identity, Role, TENANT_NAME, ToolView, UserBinding, is_tenant_name};
use crate::random;
use crate::state::last_used::LastUsed;
use crate::state::quota::NarrowQuotas;

/// Where keys are kept.
const SPACE: &str = crate::state::quota::API_KEYS;
/// Where it is kept when they were used.
const USES: &str = "api_key_uses";
/// The name of the key that the first start makes. It is fixed, so that only one
/// of several servers makes it.
const FIRST: &str = "key_first";
/// Random signs of a key's name.
const ID: usize = 12;
const MAX_NAME: usize = 200;
/// How often a change is tried where others change the same key.
const ATTEMPTS: usize = 16;

/// A key to create.
#[derive(Clone, Debug)]
pub(crate) struct KeyRequest {
    /// A display name.
    pub(crate) name: String,
    /// What it allows.
    pub(crate) role: Role,
    /// When it expires.
    pub(crate) expires_at: Option<Timestamp>,
    /// The tools that it sees; all if unset.
    pub(crate) tools: Option<ToolView>,
    /// The user on whose behalf it calls, if it is restricted.
    pub(crate) user: Option<UserBinding>,
    /// Its own quotas, in place of those of all keys.
    pub(crate) quotas: Option<NarrowQuotas>,
}

/// The API keys of all tenants.
pub(crate) struct ApiKeys {
    documents: Arc<dyn Documents>,
    cache: KeyCache,
    uses: LastUsed,
}

impl ApiKeys {
    /// The keys that are kept here. Needs a runtime, which notes when keys are
    /// used.
    pub(crate) fn new(documents: Arc<dyn Documents>) -> Self {
        let cache = KeyCache::new(SPACE, documents.changes());
        let uses = LastUsed::new(Arc::clone(&documents), USES);
        Self { documents, cache, uses }
    }

    /// Who holds the key with this text; nobody where it is unknown, revoked or
    /// has expired. Which of these it is, the bearer is not told.
    pub(crate) async fn verify(&self, text: &str) -> Result<Option<Identity>, Error> {
        let Some(hash) = KeyHash::of(text) else { return Ok(None) };
        let key = match self.cache.get(&hash) {
            CacheLookup::Key(key) => key,
            CacheLookup::Nothing(heard) => {
                let found = match self.find(&hash).await {
                    Ok(found) => found.map(Arc::new),
                    Err(error) => {
                        let known = self.cache.in_outage(&hash).ok_or(error)?;
                        return Ok(known.works(Timestamp::now()).then(|| known.identity()));
                    }
                };
                let Some(key) = found else { return Ok(None) };
                self.cache.put(hash, Arc::clone(&key), heard);
                // Nothing is believed for longer than a few seconds, and uses are
                // noted by the minute: it is enough to look here.
                if key.works(Timestamp::now()) {
                    self.uses.note(&key.tenant, &key.id);
                }
                key
            }
        };
        Ok(key.works(Timestamp::now()).then(|| key.identity()))
    }

    /// Makes a key. Its text is shown this once.
    pub(crate) async fn create(
        &self,
        tenant: &TenantId,
        request: KeyRequest,
    ) -> Result<NewKey, Error> {
        if !is_tenant_name(tenant.as_str()) {
            return Err(refused(format!("the name of a tenant has {TENANT_NAME}")));
        }
        let id = format!("key_{}", *random::text(ID)?);
        let made = self.create_as(tenant, id, request).await?;
        made.ok_or_else(|| Error::new(ErrorKind::Internal, "a new key's name is taken already"))
    }

    /// Makes the first admin key, if there has never been an admin key. Of
    /// several servers that start at once, one gets it.
    pub(crate) async fn create_first(&self) -> Result<Option<NewKey>, Error> {
        for document in self.documents.all(SPACE).await? {
            if StoredKey::read(&document)?.role == Role::Admin {
                return Ok(None);
            }
        }
        let request = KeyRequest {
            name: "first admin key".to_owned(),
            role: Role::Admin,
            expires_at: None,
            tools: None,
            user: None,
            quotas: None,
        };
        self.create_as(&TenantId::default(), FIRST.to_owned(), request).await
    }

    /// How many admin keys there are, of all tenants, and how many of them work.
    pub(crate) async fn admins(&self) -> Result<(usize, usize), Error> {
        let (mut all, mut working) = (0, 0);
        for document in self.documents.all(SPACE).await? {
            let key = read(&document)?;
            if key.role == Role::Admin {
                all += 1;
                working += usize::from(key.works(Timestamp::now()));
            }
        }
        Ok((all, working))
    }

    /// All keys of a tenant, the oldest first, also those that do not work any
    /// more.
    pub(crate) async fn list(&self, tenant: &TenantId) -> Result<Vec<ApiKey>, Error> {
        let uses = self.uses.of_tenant(tenant).await?;
        let mut keys = Vec::new();
        for document in self.documents.of_tenant(SPACE, tenant, "").await? {
            let mut key = read(&document)?;
            key.last_used_at = uses.get(&*key.id).copied();
            keys.push(key);
        }
        keys.sort_by_key(|key| key.created_at);
        Ok(keys)
    }

    /// One key of a tenant.
    pub(crate) async fn get(&self, tenant: &TenantId, id: &str) -> Result<ApiKey, Error> {
        let mut key = read(&self.document(tenant, id).await?)?;
        key.last_used_at = self.uses.last(tenant, id).await?;
        Ok(key)
    }

    /// Makes a key stop working, on all servers. It stays in the list.
    pub(crate) async fn revoke(&self, tenant: &TenantId, id: &str) -> Result<ApiKey, Error> {
        let revoke = |stored: &mut StoredKey| {
            stored.revoked_at.get_or_insert_with(Timestamp::now);
            Ok(())
        };
        self.change(tenant, id, revoke).await
    }

    /// Gives a key quotas of its own; none are those of all keys.
    pub(crate) async fn set_quotas(
        &self,
        tenant: &TenantId,
        id: &str,
        quotas: Option<NarrowQuotas>,
    ) -> Result<ApiKey, Error> {
        let set = |stored: &mut StoredKey| {
            stored.quotas = quotas;
            Ok(())
        };
        self.change(tenant, id, set).await
    }

    /// The keys of all tenants that work and have quotas of their own.
    pub(crate) async fn with_quotas(&self) -> Result<Vec<ApiKey>, Error> {
        let mut keys = Vec::new();
        for document in self.documents.all(SPACE).await? {
            // One that is damaged is nobody's.
            keys.extend(read(&document).ok().filter(has_quotas));
        }
        Ok(keys)
    }

    /// Gives a key another text. The old one stops working at once; whoever
    /// cannot have that makes a second key and revokes the first.
    pub(crate) async fn rotate(&self, tenant: &TenantId, id: &str) -> Result<NewKey, Error> {
        let (text, prefix) = key::new_text()?;
        let rotate = |stored: &mut StoredKey| {
            if stored.revoked_at.is_some() {
                let why = format!("the key `{id}` was revoked; make a new one");
                return Err(Error::new(ErrorKind::Denied, why));
            }
            stored.prefix.clone_from(&prefix);
            stored.hash = KeyHash::digest(text.expose());
            stored.rotated_at = Some(Timestamp::now());
            Ok(())
        };
        let key = self.change(tenant, id, rotate).await?;
        Ok(NewKey { key, text })
    }

    async fn find(&self, hash: &KeyHash) -> Result<Option<ApiKey>, Error> {
        let Some(document) = self.documents.find(SPACE, &hash.to_hex()).await? else {
            return Ok(None);
        };
        let stored = StoredKey::read(&document)?;
        // Found by alias; the key's own hash decides.
        let same = stored.hash == *hash;
        Ok(same.then(|| stored.describe(document.tenant, document.id)))
    }

    /// Makes a key of this name, unless there is one.
    async fn create_as(
        &self,
        tenant: &TenantId,
        id: String,
        request: KeyRequest,
    ) -> Result<Option<NewKey>, Error> {
        let name = checked_name(&request.name)?;
        let now = Timestamp::now();
        if request.expires_at.is_some_and(|end| end <= now) {
            return Err(refused("a new key cannot have expired already"));
        }
        if let Some(UserBinding::One(user)) = &request.user {
            checked_name(user)?;
        }
        let (text, prefix) = key::new_text()?;
        let stored = StoredKey {
            name,
            role: request.role,
            tools: request.tools,
            user: request.user,
            quotas: request.quotas,
            prefix,
            hash: KeyHash::digest(text.expose()),
            created_at: now,
            rotated_at: None,
            expires_at: request.expires_at,
            revoked_at: None,
        };
        let put = to_put(tenant, &id, &stored)?;
        let kept = self.documents.put(put, Expect::Absent).await?;
        Ok(kept.map(|_| NewKey { key: stored.describe(tenant.clone(), id), text }))
    }

    /// Changes a key, also where others change it at the same time.
    async fn change(
        &self,
        tenant: &TenantId,
        id: &str,
        change: impl Fn(&mut StoredKey) -> Result<(), Error>,
    ) -> Result<ApiKey, Error> {
        for _ in 0..ATTEMPTS {
            let document = self.document(tenant, id).await?;
            let mut stored = StoredKey::read(&document)?;
            change(&mut stored)?;
            let put = to_put(tenant, id, &stored)?;
            if self.documents.put(put, Expect::Version(document.version)).await?.is_some() {
                return Ok(stored.describe(tenant.clone(), id.to_owned()));
            }
        }
        let busy = format!("the key `{id}` is being changed by others; try again");
        Err(Error::new(ErrorKind::StorageUnavailable, busy))
    }

    async fn document(&self, tenant: &TenantId, id: &str) -> Result<Document, Error> {
        let found = self.documents.get(SPACE, tenant, id).await?;
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no key `{id}`")))
    }
}

/// Whether a key works that is kept as this.
pub(crate) fn works(document: &Document) -> bool {
    read(document).is_ok_and(|key| key.works(Timestamp::now()))
}

fn has_quotas(key: &ApiKey) -> bool {
    key.quotas.is_some() && key.works(Timestamp::now())
}

fn read(document: &Document) -> Result<ApiKey, Error> {
    Ok(StoredKey::read(document)?.describe(document.tenant.clone(), document.id.clone()))
}

fn to_put(tenant: &TenantId, id: &str, stored: &StoredKey) -> Result<Put, Error> {
    let alias = Some(stored.hash.to_hex());
    Ok(Put { alias, ..Put::of(SPACE, tenant.clone(), id, stored)? })
}

fn checked_name(name: &str) -> Result<String, Error> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(refused(format!(
            "a name has 1 to {MAX_NAME} characters, none of which is a control character"
        )));
    }
    Ok(name.to_owned())
}

fn refused(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArguments, why)
}

#[cfg(test)]
mod tests;
