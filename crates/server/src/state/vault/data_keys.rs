//! [`Vault`]: encrypts and decrypts the values of a tenant with its data key.
//!
//! The data keys of a tenant are one document. New values use the current key;
//! retired keys stay for a while, for values that other servers are about to write.

use std::num::NonZeroUsize;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use lru::LruCache;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use windlass::{Error, ErrorKind, TenantId};
use windlass_store::{Document, Documents, Expect, Put};
use zeroize::Zeroizing;

use super::master::{KeySource, Masters, Ring};
use super::seal::{self, AssociatedData, SealKey};

/// Where the keys of tenants are kept.
const SPACE: &str = "vault_keys";
/// The one document of a tenant there.
const ID: &str = "data_keys";
/// How often a change is tried where others change the same keys.
const ATTEMPTS: usize = 32;
/// How long a retired key is kept although nothing is sealed by it.
const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// Keys that are kept open.
const OPEN: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// Seals and opens values.
pub(crate) struct Vault {
    documents: Arc<dyn Documents>,
    masters: Masters,
    /// Open keys by tenant and id. An id always means the same key, so that these
    /// are never out of date.
    open: Mutex<LruCache<(TenantId, String), SealKey>>,
}

/// What came of giving the vault a new master key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Rotation {
    /// The master key that everything is sealed by now.
    pub(crate) master: String,
    /// Tenants whose keys were sealed anew.
    pub(crate) tenants: usize,
}

/// A sealed value, and the key that opens it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sealed {
    pub(super) key: String,
    value: String,
}

/// The keys of a tenant, as they are kept.
#[derive(Clone, Serialize, Deserialize)]
struct TenantKeys {
    /// The one that seals what is new.
    current: String,
    keys: Vec<SealedKey>,
}

#[derive(Clone, Serialize, Deserialize)]
struct SealedKey {
    id: String,
    /// The master key that it is sealed by.
    master: String,
    sealed: String,
    made_at: Timestamp,
    /// When another key became the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retired_at: Option<Timestamp>,
}

impl Vault {
    /// A vault whose keys and values are kept here.
    pub(crate) fn new(documents: Arc<dyn Documents>, source: KeySource) -> Result<Self, Error> {
        let masters = Masters::new(source)?;
        Ok(Self { documents, masters, open: Mutex::new(LruCache::new(OPEN)) })
    }

    /// Seals a value of a tenant. It is bound to these parts.
    pub(super) async fn seal(
        &self,
        tenant: &TenantId,
        parts: &[&str],
        value: &[u8],
    ) -> Result<Sealed, Error> {
        let (id, key) = self.current(tenant).await?;
        let value = seal::seal(&key, &bound(tenant, &id, parts), value)?;
        Ok(Sealed { key: id, value })
    }

    /// Opens a value; none where it is not what was sealed for this tenant and
    /// these parts.
    pub(super) async fn open(
        &self,
        tenant: &TenantId,
        parts: &[&str],
        sealed: &Sealed,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let Some(key) = self.key(tenant, &sealed.key).await? else { return Ok(None) };
        Ok(seal::open(&key, &bound(tenant, &sealed.key, parts), &sealed.value))
    }

    /// Makes a new master key and seals the keys of all tenants by it. Servers
    /// go on meanwhile: they read the key file again when they meet the new key.
    /// Where the environment holds the keys, the first of them is the new one.
    pub(crate) async fn rotate_master(&self) -> Result<Rotation, Error> {
        let tenants = self.documents.all(SPACE).await?;
        let ring = match self.masters.read()? {
            Some(_) => self.masters.add()?,
            // Nothing to rotate: the first key is new.
            None if tenants.is_empty() => self.masters.read_or_make()?,
            None => return Err(self.masters.missing()),
        };
        let mut changed = 0;
        for document in &tenants {
            changed += usize::from(self.reseal(&document.tenant, &ring).await?);
        }
        let master = ring.first().map(SealKey::id).unwrap_or_default();
        Ok(Rotation { master, tenants: changed })
    }

    /// Whether the master keys of a source can be read, where there are any.
    pub(crate) fn can_read(source: KeySource) -> Result<(), Error> {
        Masters::new(source)?.read().map(drop)
    }

    /// Opens the keys of all tenants, and keeps none of them. Returns how many
    /// tenants have some.
    pub(crate) async fn unlock_all(&self) -> Result<usize, Error> {
        let tenants = self.documents.all(SPACE).await?;
        for document in &tenants {
            for sealed in TenantKeys::read(document)?.keys {
                sealed.open(&document.tenant, &self.masters)?;
            }
        }
        Ok(tenants.len())
    }

    /// Drops old master keys that nothing is sealed by. Returns how many.
    pub(crate) async fn prune_masters(&self) -> Result<usize, Error> {
        let mut used = Vec::new();
        for document in self.documents.all(SPACE).await? {
            used.extend(TenantKeys::read(&document)?.keys.into_iter().map(|key| key.master));
        }
        self.masters.prune(&used)
    }

    /// Gives a tenant a new key for what is sealed from now on. Keys that no
    /// value needs are dropped, if they were retired long ago.
    pub(super) async fn rotate_data_key(
        &self,
        tenant: &TenantId,
        needed: &[String],
    ) -> Result<(), Error> {
        self.current(tenant).await?;
        let ring = self.masters.read_or_make()?;
        self.change(tenant, |keys| {
            let (sealed, _) = new_key(tenant, &ring)?;
            let now = Timestamp::now();
            for key in keys.keys.iter_mut().filter(|key| key.id == keys.current) {
                key.retired_at = Some(now);
            }
            let fresh = |at: Timestamp| now.duration_since(at) < KEPT;
            keys.keys.retain(|key| key.retired_at.is_none_or(fresh) || needed.contains(&key.id));
            keys.current.clone_from(&sealed.id);
            keys.keys.push(sealed);
            Ok(true)
        })
        .await
        .map(drop)
    }

    /// The key that seals new values of a tenant, made where there is none.
    async fn current(&self, tenant: &TenantId) -> Result<(String, SealKey), Error> {
        for _ in 0..ATTEMPTS {
            if let Some((_, keys)) = self.read(tenant).await? {
                let key = self.key_of(tenant, &keys, &keys.current)?;
                let missing = || damaged(tenant, "does not hold its current key");
                return Ok((keys.current, key.ok_or_else(missing)?));
            }
            if let Some(made) = self.make(tenant).await? {
                return Ok(made);
            }
        }
        Err(busy(tenant))
    }

    /// Creates the first key of a tenant; none if another server did.
    async fn make(&self, tenant: &TenantId) -> Result<Option<(String, SealKey)>, Error> {
        let ring = self.ring().await?;
        let (sealed, key) = new_key(tenant, &ring)?;
        let (id, master) = (sealed.id.clone(), sealed.master.clone());
        let keys = TenantKeys { current: id.clone(), keys: vec![sealed] };
        if self.documents.put(keys.to_put(tenant)?, Expect::Absent).await?.is_none() {
            return Ok(None);
        }
        // Had the master key been replaced in the meantime, the old one might be
        // dropped with nobody knowing that it was used once more.
        match self.masters.read()? {
            Some(ring) if ring.first().is_some_and(|newest| newest.id() != master) => {
                self.reseal(tenant, &ring).await?;
            }
            _ => {}
        }
        Ok(Some((id, key)))
    }

    /// The master keys. A first one is made only where nothing is sealed yet.
    async fn ring(&self) -> Result<Ring, Error> {
        if let Some(ring) = self.masters.read()? {
            return Ok(ring);
        }
        if self.documents.all(SPACE).await?.is_empty() {
            return self.masters.read_or_make();
        }
        // Another server may have created and used the first key meanwhile.
        self.masters.read()?.ok_or_else(|| self.masters.missing())
    }

    /// A key of a tenant by its id.
    async fn key(&self, tenant: &TenantId, id: &str) -> Result<Option<SealKey>, Error> {
        let known = self.open.lock().get(&(tenant.clone(), id.to_owned())).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let Some((_, keys)) = self.read(tenant).await? else { return Ok(None) };
        self.key_of(tenant, &keys, id)
    }

    fn key_of(
        &self,
        tenant: &TenantId,
        keys: &TenantKeys,
        id: &str,
    ) -> Result<Option<SealKey>, Error> {
        let Some(sealed) = keys.keys.iter().find(|key| key.id == id) else { return Ok(None) };
        let key = sealed.open(tenant, &self.masters)?;
        self.open.lock().put((tenant.clone(), id.to_owned()), key.clone());
        Ok(Some(key))
    }

    /// Seals all keys of a tenant by the newest master key; says whether there
    /// was anything to do.
    async fn reseal(&self, tenant: &TenantId, ring: &Ring) -> Result<bool, Error> {
        self.change(tenant, |keys| {
            let mut changed = false;
            for sealed in &mut keys.keys {
                if ring.first().is_some_and(|newest| newest.id() != sealed.master) {
                    let key = sealed.open(tenant, &self.masters)?;
                    let SealedKey { made_at, retired_at, .. } = *sealed;
                    let new = SealedKey::new(tenant, &key, ring)?;
                    *sealed = SealedKey { made_at, retired_at, ..new };
                    changed = true;
                }
            }
            Ok(changed)
        })
        .await
    }

    /// Changes the keys of a tenant, also where others do so at the same time.
    async fn change(
        &self,
        tenant: &TenantId,
        change: impl Fn(&mut TenantKeys) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        for _ in 0..ATTEMPTS {
            let Some((version, mut keys)) = self.read(tenant).await? else { return Ok(false) };
            if !change(&mut keys)? {
                return Ok(false);
            }
            let put = keys.to_put(tenant)?;
            if self.documents.put(put, Expect::Version(version)).await?.is_some() {
                return Ok(true);
            }
        }
        Err(busy(tenant))
    }

    async fn read(&self, tenant: &TenantId) -> Result<Option<(u64, TenantKeys)>, Error> {
        let document = self.documents.get(SPACE, tenant, ID).await?;
        document.map(|found| Ok((found.version, TenantKeys::read(&found)?))).transpose()
    }
}

impl TenantKeys {
    fn read(document: &Document) -> Result<Self, Error> {
        // The parse error is not shown: it could quote the secret.
        Self::deserialize(&document.body).map_err(|_| damaged(&document.tenant, "cannot be read"))
    }

    fn to_put(&self, tenant: &TenantId) -> Result<Put, Error> {
        Put::of(SPACE, tenant.clone(), ID, self)
    }
}

impl SealedKey {
    /// A key of a tenant, sealed by the newest master key.
    fn new(tenant: &TenantId, key: &SealKey, ring: &Ring) -> Result<Self, Error> {
        let none = || Error::new(ErrorKind::Internal, "a ring of master keys is empty");
        let master = ring.first().ok_or_else(none)?;
        let (id, master_id) = (key.id(), master.id());
        let sealed = seal::seal(master, &key_bound(tenant, &id, &master_id), key.bytes())?;
        Ok(Self { id, master: master_id, sealed, made_at: Timestamp::now(), retired_at: None })
    }

    fn open(&self, tenant: &TenantId, masters: &Masters) -> Result<SealKey, Error> {
        let master = masters.find(&self.master)?;
        let bytes = seal::open(&master, &key_bound(tenant, &self.id, &self.master), &self.sealed);
        let key = bytes.and_then(|bytes| SealKey::from_bytes(&bytes));
        key.filter(|key| key.id() == self.id)
            .ok_or_else(|| damaged(tenant, "were changed, or belong to another tenant"))
    }
}

fn new_key(tenant: &TenantId, ring: &Ring) -> Result<(SealedKey, SealKey), Error> {
    let key = SealKey::random()?;
    Ok((SealedKey::new(tenant, &key, ring)?, key))
}

fn bound(tenant: &TenantId, key: &str, parts: &[&str]) -> AssociatedData {
    AssociatedData::new(&[&["value", tenant.as_str(), key], parts].concat())
}

fn key_bound(tenant: &TenantId, key: &str, master: &str) -> AssociatedData {
    AssociatedData::new(&["data-key", tenant.as_str(), key, master])
}

fn damaged(tenant: &TenantId, why: &str) -> Error {
    let message = format!("the sealed keys of the tenant `{tenant}` {why}");
    Error::new(ErrorKind::CredentialInvalid, message)
}

fn busy(tenant: &TenantId) -> Error {
    let message = format!("the keys of the tenant `{tenant}` are being changed; try again");
    Error::new(ErrorKind::StorageUnavailable, message)
}

#[cfg(test)]
mod tests;
