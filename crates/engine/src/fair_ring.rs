//! [`FairRing`]: a ring buffer of tenants. When it is full, the tenant that has the
//! most loses its oldest entry, so that nobody evicts what is of others.

use std::collections::{HashMap, VecDeque};

use crate::value::name::TenantId;

/// A bounded number of entries of tenants, each tenant's in the order in which they
/// came.
pub struct FairRing<T> {
    most: usize,
    len: usize,
    tenants: HashMap<TenantId, VecDeque<T>, ahash::RandomState>,
}

impl<T> FairRing<T> {
    /// A ring for so many entries, at least one.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), len: 0, tenants: HashMap::default() }
    }

    /// Adds an entry; the one that had to make room for it comes back.
    pub fn push(&mut self, tenant: &TenantId, entry: T) -> Option<(TenantId, T)> {
        self.len += 1;
        match self.tenants.get_mut(tenant) {
            Some(own) => own.push_back(entry),
            None => drop(self.tenants.insert(tenant.clone(), VecDeque::from([entry]))),
        }
        if self.len > self.most { self.evict(tenant) } else { None }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entries of a tenant, the oldest first.
    pub fn of(&self, tenant: &TenantId) -> impl ExactSizeIterator<Item = &T> + DoubleEndedIterator {
        self.tenants.get(tenant).map(VecDeque::iter).unwrap_or_default()
    }

    /// All tenants that have entries, and these, the oldest first.
    pub fn all(&self) -> impl Iterator<Item = (&TenantId, &VecDeque<T>)> {
        self.tenants.iter()
    }

    /// Takes out the oldest entry of whoever has the most; `newcomer` has just added
    /// one.
    fn evict(&mut self, newcomer: &TenantId) -> Option<(TenantId, T)> {
        // More than the average is enough to pay for oneself, and needs no search.
        let is_above = |own: &VecDeque<T>| own.len() * self.tenants.len() > self.len;
        let own = self.tenants.get(newcomer);
        let noisiest = match own.is_some_and(is_above) || self.tenants.len() == 1 {
            true => newcomer.clone(),
            false => {
                let rank = |tenant: &TenantId, own: &VecDeque<T>| (own.len(), tenant != newcomer);
                let most = self.tenants.iter().max_by_key(|(tenant, own)| rank(tenant, own));
                most.map(|(tenant, _)| tenant.clone())?
            }
        };
        let own = self.tenants.get_mut(&noisiest)?;
        let oldest = own.pop_front()?;
        self.len -= 1;
        if own.is_empty() {
            self.tenants.remove(&noisiest);
        }
        Some((noisiest, oldest))
    }
}

/// How many entries each tenant may have, so that all together have at most `most`,
/// and whoever has less keeps all: at least one, and any number where they fit.
pub fn fair_level(counts: impl IntoIterator<Item = u64>, most: u64) -> u64 {
    let mut counts: Vec<u64> = counts.into_iter().filter(|count| *count > 0).collect();
    counts.sort_unstable();
    let (mut left, mut holders) = (most, counts.len() as u64);
    for count in counts {
        let share = left / holders;
        if count > share {
            return share.max(1);
        }
        left -= count;
        holders -= 1;
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_the_most_pays() {
        let mut ring = FairRing::new(10);
        let (noisy, quiet, third) =
            (TenantId::new("noisy"), TenantId::new("quiet"), TenantId::new("third"));
        for at in 0..3 {
            assert!(ring.push(&quiet, at).is_none());
        }
        for at in 0..7 {
            assert!(ring.push(&noisy, at).is_none());
        }
        assert_eq!(ring.push(&noisy, 7), Some((noisy.clone(), 0)));
        for at in 0..3 {
            assert_eq!(ring.push(&third, at).unwrap().0, noisy);
        }
        assert_eq!(ring.len(), 10);
        assert!(ring.of(&quiet).eq(&[0, 1, 2]) && ring.of(&third).eq(&[0, 1, 2]));
        assert!(ring.of(&noisy).eq(&[4, 5, 6, 7]));
        assert_eq!(ring.of(&TenantId::new("nobody")).len(), 0);
        let mut small = FairRing::new(1);
        assert!(small.push(&quiet, 1).is_none());
        assert_eq!(small.push(&noisy, 2), Some((quiet, 1)));
        assert_eq!((small.len(), small.all().count()), (1, 1));
    }

    #[test]
    fn a_level_fills_what_there_is() {
        for (counts, most, level) in [
            (vec![], 5, u64::MAX),
            (vec![5], 5, u64::MAX),
            (vec![6], 5, 5),
            (vec![3, 100], 10, 7),
            (vec![100, 3, 100], 10, 3),
            (vec![1, 2, 100, 50], 13, 5),
            (vec![9; 20], 10, 1),
        ] {
            assert_eq!(fair_level(counts.clone(), most), level, "{counts:?} {most}");
            let kept: u64 = counts.iter().map(|count| level.min(*count)).sum();
            assert!(kept <= most || level == 1);
        }
    }
}
