//! [`FairMap`]: a bounded map with fair shares between tenants.
//!
//! For what is remembered by names that callers can make up without end. When it is
//! full, the tenant that has the most loses what it used least recently: no tenant
//! evicts what is of others.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use crate::value::name::TenantId;

/// Bounded state by key, each of a tenant.
pub struct FairMap<K, V> {
    most: usize,
    all: HashMap<K, FairEntry<V>, ahash::RandomState>,
    /// Keys per tenant, by last use.
    tenants: HashMap<TenantId, BTreeMap<u64, K>, ahash::RandomState>,
    clock: u64,
}

struct FairEntry<V> {
    tenant: TenantId,
    value: V,
    used: u64,
}

impl<K: Clone + Eq + Hash, V> FairMap<K, V> {
    /// A map for at most this many entries, at least one.
    pub fn new(most: usize) -> Self {
        let (all, tenants) = (HashMap::default(), HashMap::default());
        Self { most: most.max(1), all, tenants, clock: 0 }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// An entry, without using it.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.all.get(key).map(|entry| &entry.value)
    }

    /// All entries, in no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.all.values().map(|entry| &entry.value)
    }

    /// An entry, which counts as a use of it.
    pub fn touch(&mut self, key: &K) -> Option<&mut V> {
        self.clock += 1;
        let entry = self.all.get_mut(key)?;
        let before = std::mem::replace(&mut entry.used, self.clock);
        let own = self.tenants.get_mut(&entry.tenant)?;
        own.remove(&before);
        own.insert(self.clock, key.clone());
        Some(&mut entry.value)
    }

    /// The entry of a tenant, created by `new` if there is none.
    pub fn of(&mut self, tenant: &TenantId, key: &K, new: impl FnOnce() -> V) -> &mut V {
        if self.touch(key).is_none() {
            self.make_room();
            let own = self.tenants.entry(tenant.clone()).or_default();
            own.insert(self.clock, key.clone());
        }
        let used = self.clock;
        let entry = self.all.entry(key.clone());
        &mut entry.or_insert_with(|| FairEntry { tenant: tenant.clone(), value: new(), used }).value
    }

    /// Sets the entry of a tenant; the one that it replaces, or that had to make room
    /// for it, comes back.
    pub fn insert(&mut self, tenant: &TenantId, key: &K, value: V) -> Option<V> {
        let before = self.remove(key).or_else(|| self.make_room());
        self.of(tenant, key, || value);
        before
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.all.remove(key)?;
        if let Some(own) = self.tenants.get_mut(&entry.tenant) {
            own.remove(&entry.used);
            if own.is_empty() {
                self.tenants.remove(&entry.tenant);
            }
        }
        Some(entry.value)
    }

    /// Removes the entries that are not wanted.
    pub fn retain(&mut self, wanted: impl Fn(&K, &V) -> bool) {
        let unwanted = self.all.iter().filter(|(key, entry)| !wanted(key, &entry.value));
        let unwanted: Vec<K> = unwanted.map(|(key, _)| key.clone()).collect();
        for key in &unwanted {
            self.remove(key);
        }
    }

    /// Takes out the entry that has to make room: of the tenant with the most, what it
    /// used least recently.
    pub fn evict(&mut self) -> Option<V> {
        let greatest = self.tenants.values().max_by_key(|own| own.len())?;
        let oldest = greatest.values().next().cloned()?;
        self.remove(&oldest)
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.all.clear();
        self.tenants.clear();
    }

    fn make_room(&mut self) -> Option<V> {
        if self.all.len() < self.most { None } else { self.evict() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_the_most_gives_up_what_it_used_least_recently() {
        let (quiet, noisy) = (TenantId::new("quiet"), TenantId::new("noisy"));
        let mut map = FairMap::new(10);
        let key = |tenant: &TenantId, name: usize| format!("{tenant} {name}");
        for name in 0..3 {
            *map.of(&quiet, &key(&quiet, name), usize::default) = name;
        }
        for name in 0..1_000 {
            let gone = map.insert(&noisy, &key(&noisy, name), name);
            assert_eq!(gone, (name > 6).then(|| name - 6));
            map.touch(&key(&noisy, 0));
        }
        assert!((0..3).all(|name| map.get(&key(&quiet, name)) == Some(&name)));
        assert_eq!(map.get(&key(&noisy, 0)), Some(&0), "it is in use");
        assert_eq!(map.get(&key(&noisy, 999)), Some(&999));
        assert_eq!((map.len(), map.get(&key(&noisy, 500))), (10, None));
        (0..3).for_each(|name| assert_eq!(map.remove(&key(&quiet, name)), Some(name)));
        let left: usize = map.tenants.values().map(BTreeMap::len).sum();
        assert_eq!((map.len(), left, map.tenants.len()), (7, 7, 1));
        map.retain(|_, name| *name == 999);
        assert!(map.values().eq(&[999]) && map.tenants[&noisy].len() == 1);
        assert_eq!(map.insert(&noisy, &key(&noisy, 999), 5), Some(999), "it is replaced");
        map.clear();
        assert!(map.is_empty() && map.tenants.is_empty());
    }
}
