//! Cache of API keys that were valid a moment ago, so that a busy client causes no
//! database reads.
//!
//! An entry may be stale until the change notification of a revocation arrives, and
//! for [`TTL`] if it never does. While the database is unreachable, entries are
//! trusted for [`OUTAGE`]: nobody can revoke a key then, and read-only calls go on.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::time::Instant;
use windlass::FairMap;
use windlass_store::Change;

use super::key::{ApiKey, KeyHash};

/// How long an entry is believed.
const TTL: Duration = Duration::from_secs(5);
/// How long one is believed while the database cannot be asked.
const OUTAGE: Duration = Duration::from_secs(15 * 60);
/// How long after a failure the database is not asked again for a key that is
/// known.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Of the tenant with the most, the key that was used least recently is forgotten.
const ENTRIES: usize = 4096;

/// The cached keys.
pub(super) struct KeyCache(Mutex<KeyCacheState>);

struct KeyCacheState {
    space: &'static str,
    entries: FairMap<KeyHash, (Arc<ApiKey>, Instant)>,
    changes: Receiver<Change>,
    /// How many changes of keys were received.
    heard: u64,
    /// When the database could not be asked last.
    failed: Option<Instant>,
}

/// The number of changes that were known at a read.
#[derive(Clone, Copy)]
pub(super) struct ChangeCount(u64);

/// The result of a lookup.
pub(super) enum CacheLookup {
    Key(Arc<ApiKey>),
    /// Nothing: the database has to be asked.
    Nothing(ChangeCount),
}

impl KeyCache {
    /// Forgets keys of this space when they change.
    pub(super) fn new(space: &'static str, changes: Receiver<Change>) -> Self {
        Self(Mutex::new(KeyCacheState {
            space,
            entries: FairMap::new(ENTRIES),
            changes,
            heard: 0,
            failed: None,
        }))
    }

    /// The key with this hash.
    pub(super) fn get(&self, hash: &KeyHash) -> CacheLookup {
        let mut state = self.0.lock();
        state.listen();
        let fails = state.failed.is_some_and(|last| last.elapsed() < ASK_AGAIN);
        let believed = if fails { OUTAGE } else { TTL };
        match state.entries.touch(hash) {
            Some((key, read)) if read.elapsed() < believed => CacheLookup::Key(Arc::clone(key)),
            _ => CacheLookup::Nothing(ChangeCount(state.heard)),
        }
    }

    /// The key with this hash as it was known before the database could not be
    /// asked.
    pub(super) fn in_outage(&self, hash: &KeyHash) -> Option<Arc<ApiKey>> {
        let mut state = self.0.lock();
        state.listen();
        state.failed = Some(Instant::now());
        let (key, read) = state.entries.touch(hash)?;
        (read.elapsed() < OUTAGE).then(|| Arc::clone(key))
    }

    /// Remembers what was read after [`KeyCache::get`], unless a change was heard of
    /// in between: what was read may be from before it.
    pub(super) fn put(&self, hash: KeyHash, key: Arc<ApiKey>, ChangeCount(before): ChangeCount) {
        let mut state = self.0.lock();
        state.listen();
        if state.heard == before {
            let tenant = key.tenant.clone();
            state.entries.insert(&tenant, &hash, (key, Instant::now()));
        }
    }
}

impl KeyCacheState {
    /// Drops what has changed; everything, where changes were missed.
    fn listen(&mut self) {
        loop {
            match self.changes.try_recv() {
                Ok(change) if change.space.is_empty() => self.forget_all(),
                Ok(change) if change.space == self.space => self.forget(&change),
                Ok(_) => {}
                Err(TryRecvError::Lagged(_)) => self.forget_all(),
                // No more change notifications: cached entries cannot be trusted.
                Err(TryRecvError::Closed) => return self.forget_all(),
                Err(TryRecvError::Empty) => return,
            }
        }
    }

    fn forget_all(&mut self) {
        self.heard += 1;
        self.entries.clear();
    }

    fn forget(&mut self, change: &Change) {
        self.heard += 1;
        let same = |key: &ApiKey| *key.id == *change.id && key.tenant == change.tenant;
        // Keys change so rarely that looking through all of them is cheaper than
        // a second index to keep in step.
        self.entries.retain(|_, (key, _)| !same(key));
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast;
    use windlass::TenantId;

    use super::*;
    use crate::state::identity::Role;

    fn key(tenant: &str, id: usize) -> (KeyHash, Arc<ApiKey>) {
        let key = ApiKey {
            id: id.to_string().into(),
            tenant: TenantId::new(tenant),
            name: "n".into(),
            role: Role::Caller,
            tools: None,
            user: None,
            quotas: None,
            prefix: String::new(),
            created_at: jiff::Timestamp::UNIX_EPOCH,
            rotated_at: None,
            expires_at: None,
            last_used_at: None,
            revoked_at: None,
        };
        (KeyHash::digest(&format!("{tenant} {id}")), Arc::new(key))
    }

    #[test]
    fn a_tenant_with_many_keys_evicts_only_its_own() {
        let (_changes, receiver) = broadcast::channel(4);
        let cache = KeyCache::new("keys", receiver);
        let put = |tenant: &str, id: usize| {
            let (hash, key) = key(tenant, id);
            cache.put(hash, key, ChangeCount(0));
        };
        let is_known =
            |tenant: &str, id: usize| matches!(cache.get(&key(tenant, id).0), CacheLookup::Key(_));
        (0..10).for_each(|id| put("quiet", id));
        (0..ENTRIES + 100).for_each(|id| put("noisy", id));
        assert!((0..10).all(|id| is_known("quiet", id)));
        assert!(is_known("noisy", ENTRIES + 99) && !is_known("noisy", 0));
    }
}
