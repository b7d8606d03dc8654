//! [`FairShares`]: bounded storage, shared fairly among tenants and keys.
//!
//! Whatever a client can create without end has three limits: for its key, for its
//! tenant, and in total. A key at its limit evicts its own idle entries, oldest first,
//! and is refused if it has none. At the limit of a tenant or the total, entries of
//! the largest holder are evicted, so that no client can starve the others.
//!
//! An entry is looked up by its owner and its id together: the entry of another
//! owner cannot be reached.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;
use windlass::TenantId;

/// The owner of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShareOwner {
    pub(crate) tenant: TenantId,
    pub(crate) key: Arc<str>,
}

/// The limits of entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareBounds {
    pub(crate) key: usize,
    pub(crate) tenant: usize,
    pub(crate) total: usize,
}

impl ShareBounds {
    /// Half of them for a tenant, and a tenth for a key.
    pub(crate) fn of(total: usize) -> Self {
        let total = total.max(1);
        Self { key: total.div_ceil(10), tenant: total.div_ceil(2), total }
    }
}

/// Entries by owner and id.
pub(crate) struct FairShares<V> {
    bounds: ShareBounds,
    owners: HashMap<ShareOwner, HashMap<String, Share<V>>>,
    tenants: HashMap<TenantId, usize>,
    total: usize,
}

struct Share<V> {
    value: V,
    used: Instant,
    /// How many requests are using it.
    users: usize,
}

/// There is no room, and none can be made.
#[derive(Debug)]
pub(crate) struct Full;

impl<V> FairShares<V> {
    pub(crate) fn new(bounds: ShareBounds) -> Self {
        Self { bounds, owners: HashMap::new(), tenants: HashMap::new(), total: 0 }
    }

    /// Adds an idle entry; the one that had to make room for it comes back.
    pub(crate) fn insert(
        &mut self,
        owner: &ShareOwner,
        id: String,
        value: V,
    ) -> Result<Option<(String, V)>, Full> {
        let evicted = self.make_room(owner)?;
        let share = Share { value, used: Instant::now(), users: 0 };
        self.owners.entry(owner.clone()).or_default().insert(id, share);
        *self.tenants.entry(owner.tenant.clone()).or_default() += 1;
        self.total += 1;
        Ok(evicted)
    }

    /// An entry, which counts as used now.
    pub(crate) fn touch(&mut self, owner: &ShareOwner, id: &str) -> Option<&V> {
        let share = self.owners.get_mut(owner)?.get_mut(id)?;
        share.used = Instant::now();
        Some(&share.value)
    }

    /// Whether the entry is there; from now on, it has one user more.
    pub(crate) fn begin_use(&mut self, owner: &ShareOwner, id: &str) -> bool {
        let Some(share) = self.owners.get_mut(owner).and_then(|own| own.get_mut(id)) else {
            return false;
        };
        share.users += 1;
        share.used = Instant::now();
        true
    }

    pub(crate) fn end_use(&mut self, owner: &ShareOwner, id: &str) {
        if let Some(share) = self.owners.get_mut(owner).and_then(|own| own.get_mut(id)) {
            share.users = share.users.saturating_sub(1);
            share.used = Instant::now();
        }
    }

    pub(crate) fn remove(&mut self, owner: &ShareOwner, id: &str) -> Option<V> {
        let own = self.owners.get_mut(owner)?;
        let share = own.remove(id)?;
        if own.is_empty() {
            self.owners.remove(owner);
        }
        self.total = self.total.saturating_sub(1);
        if let Some(count) = self.tenants.get_mut(&owner.tenant) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.tenants.remove(&owner.tenant);
            }
        }
        Some(share.value)
    }

    /// Takes out the entries of a tenant, or of everybody, that are not wanted.
    pub(crate) fn take_if(
        &mut self,
        tenant: Option<&TenantId>,
        unwanted: impl Fn(&V) -> bool,
    ) -> Vec<(String, V)> {
        let mut found = Vec::new();
        for (owner, own) in &self.owners {
            if tenant.is_none_or(|tenant| owner.tenant == *tenant) {
                let unwanted = own.iter().filter(|(_, share)| unwanted(&share.value));
                found.extend(unwanted.map(|(id, _)| (owner.clone(), id.clone())));
            }
        }
        let taken = found.into_iter();
        taken.filter_map(|(owner, id)| self.remove(&owner, &id).map(|value| (id, value))).collect()
    }

    /// How many entries an owner's tenant and its key have, each with the most that
    /// they may have.
    pub(crate) fn counts(&self, owner: &ShareOwner) -> [(usize, usize); 2] {
        let of_tenant = self.tenants.get(&owner.tenant).copied().unwrap_or_default();
        let of_key = self.owners.get(owner).map_or(0, HashMap::len);
        [(of_tenant, self.bounds.tenant), (of_key, self.bounds.key)]
    }

    fn make_room(&mut self, owner: &ShareOwner) -> Result<Option<(String, V)>, Full> {
        let own = self.owners.get(owner).map_or(0, HashMap::len);
        let of_tenant = self.tenants.get(&owner.tenant).copied().unwrap_or_default();
        let greatest = if own >= self.bounds.key {
            owner.clone()
        } else if of_tenant >= self.bounds.tenant {
            self.greatest_of(&owner.tenant).ok_or(Full)?
        } else if self.total >= self.bounds.total {
            let most = self.tenants.iter().max_by_key(|(_, count)| **count);
            let tenant = most.map(|(tenant, _)| tenant.clone()).ok_or(Full)?;
            self.greatest_of(&tenant).ok_or(Full)?
        } else {
            return Ok(None);
        };
        let entries = self.owners.get(&greatest).ok_or(Full)?;
        let (id, share) =
            entries.iter().min_by_key(|(_, share)| (share.users > 0, share.used)).ok_or(Full)?;
        // What is in use ends only for somebody who has less.
        if share.users > 0 && entries.len() <= own + 1 {
            return Err(Full);
        }
        let id = id.clone();
        let value = self.remove(&greatest, &id).ok_or(Full)?;
        Ok(Some((id, value)))
    }

    /// The key of a tenant that has the most.
    fn greatest_of(&self, tenant: &TenantId) -> Option<ShareOwner> {
        let own = self.owners.iter().filter(|(owner, _)| owner.tenant == *tenant);
        own.max_by_key(|(_, entries)| entries.len()).map(|(owner, _)| owner.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(tenant: &str, key: &str) -> ShareOwner {
        ShareOwner { tenant: TenantId::new(tenant), key: key.into() }
    }

    fn shares(key: usize, tenant: usize, total: usize) -> FairShares<()> {
        FairShares::new(ShareBounds { key, tenant, total })
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_key_gives_its_own_oldest_idle_entry_and_is_refused_without_one() {
        let (mut shares, me) = (shares(2, 10, 20), owner("a", "k"));
        for id in ["1", "2"] {
            assert!(shares.insert(&me, id.to_owned(), ()).unwrap().is_none());
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
        }
        assert!(shares.touch(&me, "1").is_some());
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        let gone = shares.insert(&me, "3".to_owned(), ()).unwrap();
        assert_eq!(gone.unwrap().0, "2", "the one that was used longest ago");
        assert!(shares.begin_use(&me, "1") && shares.begin_use(&me, "3"));
        assert!(shares.insert(&me, "4".to_owned(), ()).is_err(), "both are in use");
        shares.end_use(&me, "3");
        assert_eq!(shares.insert(&me, "4".to_owned(), ()).unwrap().unwrap().0, "3");
        assert_eq!(shares.total, 2);
    }

    #[test]
    fn whoever_has_the_most_makes_room_for_others_even_with_what_is_in_use() {
        let mut shares = shares(3, 4, 6);
        for (tenant, key, count) in [("a", "k", 3), ("a", "l", 1), ("b", "k", 2)] {
            let own = owner(tenant, key);
            for id in 0..count {
                assert!(shares.insert(&own, format!("{tenant}{key}{id}"), ()).unwrap().is_none());
                assert!(shares.begin_use(&own, &format!("{tenant}{key}{id}")));
            }
        }
        // The server is full: the greatest tenant gives, of its greatest key.
        let gone = shares.insert(&owner("c", "k"), "c".to_owned(), ()).unwrap();
        assert!(gone.unwrap().0.starts_with("ak"));
        // Nobody has more than one more than this one would have.
        assert!(shares.insert(&owner("b", "l"), "b".to_owned(), ()).is_ok());
        assert!(shares.insert(&owner("a", "k"), "a".to_owned(), ()).is_err());
        assert_eq!(shares.total, 6);
    }

    #[test]
    fn an_entry_is_its_owners_alone_and_leaves_no_trace() {
        let (mut shares, me) = (shares(2, 10, 20), owner("a", "k"));
        shares.insert(&me, "1".to_owned(), ()).unwrap();
        for other in [owner("a", "l"), owner("b", "k")] {
            assert!(shares.touch(&other, "1").is_none() && shares.remove(&other, "1").is_none());
            assert!(!shares.begin_use(&other, "1"));
        }
        assert_eq!(shares.take_if(Some(&me.tenant), |()| true).len(), 1);
        assert!(shares.owners.is_empty() && shares.tenants.is_empty() && shares.total == 0);
    }
}
