//! Counters by name.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// Maximum number of remembered names without calls.
const MAX_IDLE: usize = 64;

/// Running calls by name. Names in use stay allocated; of idle names only a few
/// do.
pub(super) struct NameCounts<K> {
    counts: HashMap<K, usize, ahash::RandomState>,
    /// Number of names with calls.
    busy: usize,
}

impl<K> Default for NameCounts<K> {
    fn default() -> Self {
        Self { counts: HashMap::default(), busy: 0 }
    }
}

impl<K: Hash + Eq> NameCounts<K> {
    pub(super) fn get<Q: Hash + Eq + ?Sized>(&self, name: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.counts.get(name).copied().unwrap_or_default()
    }

    /// Number of names with calls.
    pub(super) fn len(&self) -> usize {
        self.busy
    }

    pub(super) fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// Increments if the counter is below `limit`; returns whether it did.
    /// `own` makes the owned name if it is new.
    pub(super) fn add<Q: Hash + Eq + ?Sized>(
        &mut self,
        name: &Q,
        limit: usize,
        own: impl FnOnce() -> K,
    ) -> bool
    where
        K: Borrow<Q>,
    {
        let count = match self.counts.get_mut(name) {
            Some(count) => count,
            None if limit == 0 => return false,
            None => self.counts.entry(own()).or_default(),
        };
        if *count >= limit {
            return false;
        }
        self.busy += usize::from(*count == 0);
        *count += 1;
        true
    }

    pub(super) fn remove<Q: Hash + Eq + ?Sized>(&mut self, name: &Q)
    where
        K: Borrow<Q>,
    {
        let Some(count) = self.counts.get_mut(name) else { return };
        *count -= 1;
        if *count == 0 {
            self.busy -= 1;
            if self.counts.len() > 2 * self.busy + MAX_IDLE {
                self.counts.retain(|_, count| *count > 0);
            }
        }
    }
}
