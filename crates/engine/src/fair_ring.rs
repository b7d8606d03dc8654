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

    /// The same for an entry that says whose it is. Where its tenant has to make room,
    /// as the only one or the noisiest does, nothing is looked up twice or cloned.
    pub fn push_of(&mut self, entry: T, tenant: impl Fn(&T) -> &TenantId) -> Option<T> {
        let (len, holders) = (self.len + 1, self.tenants.len());
        if len > self.most
            && let Some(own) = self.tenants.get_mut(tenant(&entry))
            && pays(own.len() + 1, holders, len)
        {
            let oldest = own.pop_front();
            own.push_back(entry);
            return oldest;
        }
        let tenant = tenant(&entry).clone();
        self.push(&tenant, entry).map(|(_, evicted)| evicted)
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
        let holders = self.tenants.len();
        let own = self.tenants.get(newcomer).map_or(0, VecDeque::len);
        let noisiest = match pays(own, holders, self.len) {
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

/// Whether a tenant with so many of all entries pays for itself: with more than the
/// average, nobody has to be searched for.
fn pays(own: usize, holders: usize, all: usize) -> bool {
    holders == 1 || own * holders > all
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
    fn an_entry_may_say_whose_it_is() {
        let mut rng = fastrand::Rng::with_seed(7);
        let tenants = ["a", "b", "c", "d"].map(TenantId::new);
        for most in [1, 2, 7, 40] {
            let mut ring = FairRing::new(most);
            let mut left: HashMap<TenantId, VecDeque<usize>> = HashMap::new();
            for at in 0..500 {
                let tenant = &tenants[rng.usize(..4) * rng.usize(..4) / 3];
                left.entry(tenant.clone()).or_default().push_back(at);
                let evicted = ring.push_of((tenant.clone(), at), |(tenant, _)| tenant);
                assert_eq!(evicted.is_some(), at >= most);
                if let Some((whose, which)) = evicted {
                    let (len, noisiest) = (left[&whose].len(), left.values().map(VecDeque::len));
                    let pays = whose == *tenant && len * left.len() > most + 1;
                    assert!(pays || noisiest.max() == Some(len), "{whose} of {left:?}");
                    assert_eq!(left.get_mut(&whose).and_then(VecDeque::pop_front), Some(which));
                    left.retain(|_, own| !own.is_empty());
                }
                assert_eq!(ring.len(), left.values().map(VecDeque::len).sum::<usize>());
            }
        }
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
