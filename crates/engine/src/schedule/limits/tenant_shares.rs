//! Slots in use per tenant.
//!
//! Optimised for one tenant at a time: its calls need no map. Counting by name
//! starts with the second tenant, and ends when nothing runs any more.

use std::sync::Arc;

use super::name_counts::NameCounts;
use crate::value::name::TenantId;

#[derive(Default)]
pub(super) struct TenantShares {
    /// The first tenant, and the number of its calls that were counted without
    /// a name.
    first: Option<TenantId>,
    of_first: usize,
    /// Calls of other tenants, and later ones.
    counted: NameCounts<Arc<str>>,
}

impl TenantShares {
    /// Counts a call; returns whether it must be uncounted by name.
    pub(super) fn add(&mut self, tenant: &TenantId) -> bool {
        if self.is_first(tenant) {
            self.of_first += 1;
            return false;
        }
        if self.of_first == 0 && self.counted.is_empty() {
            (self.first, self.of_first) = (Some(tenant.clone()), 1);
            return false;
        }
        self.counted.add(tenant.as_str(), usize::MAX, || tenant.shared())
    }

    pub(super) fn remove(&mut self, tenant: &TenantId) {
        self.counted.remove(tenant.as_str());
    }

    pub(super) fn remove_of_first(&mut self) {
        self.of_first -= 1;
    }

    /// Number of slots in use by a tenant.
    pub(super) fn of(&self, tenant: &TenantId) -> usize {
        if self.is_first(tenant) { self.of_first } else { self.counted.get(tenant.as_str()) }
    }

    /// Number of tenants with slots, including this one.
    pub(super) fn tenants_with(&self, tenant: &TenantId) -> usize {
        let has_none = self.of(tenant) == 0;
        usize::from(self.of_first > 0) + self.counted.len() + usize::from(has_none)
    }

    fn is_first(&self, tenant: &TenantId) -> bool {
        self.first.as_ref() == Some(tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_counted_whoever_came_first() {
        let tenant = |name: &str| TenantId::new(name);
        let mut shares = TenantShares::default();
        assert!(!shares.add(&tenant("a")));
        assert!(!shares.add(&tenant("a")));
        assert!(shares.add(&tenant("b")));
        assert_eq!((shares.of(&tenant("a")), shares.of(&tenant("b"))), (2, 1));
        assert_eq!((shares.tenants_with(&tenant("a")), shares.tenants_with(&tenant("c"))), (2, 3));
        shares.remove_of_first();
        shares.remove_of_first();
        // Somebody still runs, so the first one stays the first.
        assert!(!shares.add(&tenant("a")));
        shares.remove_of_first();
        shares.remove(&tenant("b"));
        assert!(!shares.add(&tenant("c")), "all is over, and another one is the first");
        assert_eq!((shares.of(&tenant("a")), shares.of(&tenant("c"))), (0, 1));
    }
}
