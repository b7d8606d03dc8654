//! How much of what keys are refused goes into the audit log.
//!
//! Whoever may do nothing may still try, as often as they like, and the log is
//! never shortened. So only some refusals of a minute are written down for a key,
//! and for a tenant; the rest is counted, and told with the next entry.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;
use windlass::TenantId;

/// Entries of a key, and of all keys of a tenant, in a [`WINDOW`].
const OF_KEY: u32 = 20;
const OF_TENANT: u32 = 120;
const WINDOW: Duration = Duration::from_secs(60);
/// Keys and tenants that are remembered.
const KNOWN: NonZeroUsize = NonZeroUsize::new(10_000).expect("not zero");

/// A tenant, and one of its keys or all of them.
type Holder = (TenantId, Option<Arc<str>>);

/// What was refused lately: a rate limit for entries of the audit log.
pub(crate) struct Refusals(Mutex<LruCache<Holder, RefusalWindow>>);

struct RefusalWindow {
    since: Instant,
    written: u32,
    left_out: u64,
}

impl Default for Refusals {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(KNOWN)))
    }
}

impl Refusals {
    /// Counts one. If it is to be written down, how many of the key's before it were
    /// not.
    pub(super) fn count(&self, tenant: &TenantId, key: &Arc<str>) -> Option<u64> {
        let mut known = self.0.lock();
        let mut take = |key: Option<&Arc<str>>, most: u32| {
            let name = (tenant.clone(), key.cloned());
            let new = || RefusalWindow { since: Instant::now(), written: 0, left_out: 0 };
            let window = known.get_or_insert_mut(name, new);
            if window.since.elapsed() >= WINDOW {
                (window.since, window.written) = (Instant::now(), 0);
            }
            if window.written < most {
                window.written += 1;
                return Some(std::mem::take(&mut window.left_out));
            }
            window.left_out += 1;
            None
        };
        let left_out = take(Some(key), OF_KEY)?;
        take(None, OF_TENANT).map(|_| left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_a_tenant_write_so_much_and_no_more() {
        let refusals = Refusals::default();
        let written = |tenant: &str, key: &str, times: usize| {
            let (tenant, key) = (TenantId::new(tenant), key.into());
            (0..times).filter(|_| refusals.count(&tenant, &key).is_some()).count()
        };
        assert_eq!(written("a", "one", 1_000), OF_KEY as usize);
        assert_eq!(written("a", "two", 5), 5);
        let more: usize = (0..50).map(|key| written("a", &key.to_string(), 10)).sum();
        assert_eq!(more, OF_TENANT as usize - OF_KEY as usize - 5);
        assert_eq!(written("b", "three", 5), 5);
    }
}
