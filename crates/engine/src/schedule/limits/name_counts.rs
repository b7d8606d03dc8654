//! Counts by name.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// How many names without any calls are remembered.
const MAX_IDLE: usize = 64;

/// Counts of running calls by a name. A name that comes and goes all the time
/// keeps its place; of those that have none, only a few do.
pub(super) struct NameCounts<K> {
    counts: HashMap<K, usize, ahash::RandomState>,
    /// How many names have any.
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

    /// How many names have any.
    pub(super) fn len(&self) -> usize {
        self.busy
    }

    pub(super) fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// Counts one more if there are less than `limit`; returns whether it did.
    /// `own` makes the name where it is not known yet.
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
