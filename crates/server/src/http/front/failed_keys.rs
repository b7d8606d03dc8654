//! Rate limit for failed authentication, by client address, with a metric for
//! operators and sampled audit entries.
//!
//! A valid key is always let in, whatever others at the same address try: several
//! clients may share one address.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;

/// How many keys that do not work an address may show in a [`WINDOW`], if nobody
/// says otherwise.
pub(crate) const MOST: usize = 120;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are remembered.
const ADDRESSES: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");
/// How many audit entries there are in a [`WINDOW`], whatever the number of
/// addresses.
const MOST_ENTRIES: u32 = 60;

tokio::task_local! {
    /// Where the request that is being answered came from.
    pub(crate) static PEER: IpAddr;
}

/// Where the request that is being answered came from, as far as it is known.
pub(crate) fn peer() -> Option<IpAddr> {
    PEER.try_with(|peer| *peer).ok()
}

/// Rate limiter of failed authentications.
pub(crate) struct FailedKeys {
    most: usize,
    total: AtomicU64,
    limited: AtomicU64,
    state: Mutex<FailedKeysState>,
}

struct FailedKeysState {
    addresses: LruCache<Option<IpAddr>, FailureWindow>,
    entries: FailureWindow,
}

/// A time, and how often something happened in it.
#[derive(Clone, Copy)]
struct FailureWindow {
    since: Instant,
    count: u32,
}

impl FailureWindow {
    fn new() -> Self {
        Self { since: Instant::now(), count: 0 }
    }

    /// Counts one more; returns how many came in a time that has just ended.
    fn count(&mut self) -> Option<u32> {
        let ended = (self.since.elapsed() >= WINDOW).then_some(self.count);
        if ended.is_some() {
            *self = Self::new();
        }
        self.count += 1;
        ended
    }
}

/// The result of counting a failed authentication.
pub(crate) struct FailedKeyOutcome {
    /// When the address may try again, if it has shown too many.
    pub(crate) wait: Option<Duration>,
    /// To be written to the audit log: how many there were since the last entry
    /// of this address.
    pub(crate) entry: Option<u32>,
}

impl FailedKeys {
    /// Lets an address show so many in a minute.
    pub(crate) fn new(most: usize) -> Self {
        let state =
            FailedKeysState { addresses: LruCache::new(ADDRESSES), entries: FailureWindow::new() };
        let (total, limited) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { most, total, limited, state: Mutex::new(state) }
    }

    /// Counts a key that does not work.
    pub(crate) fn count(&self, address: Option<IpAddr>) -> FailedKeyOutcome {
        self.total.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        let FailedKeysState { addresses, entries } = &mut *state;
        let window = addresses.get_or_insert_mut(address, FailureWindow::new);
        let ended = window.count();
        let (count, since) = (window.count, window.since);
        // The first failure of a window is logged at once; the rest with the next window's
        // first.
        let mut entry = (count == 1).then(|| ended.unwrap_or_default().max(1));
        if entry.is_some() {
            entries.count();
            entry = entry.filter(|_| entries.count <= MOST_ENTRIES);
        }
        drop(state);
        let wait = (count as usize > self.most).then(|| WINDOW.saturating_sub(since.elapsed()));
        if wait.is_some() {
            self.limited.fetch_add(1, Ordering::Relaxed);
        }
        FailedKeyOutcome { wait, entry }
    }

    /// How many there were, and how many of them came too often.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.total.load(Ordering::Relaxed), self.limited.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_limit_and_few_entries() {
        let failed = FailedKeys::new(MOST);
        let address = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        let verdicts: Vec<FailedKeyOutcome> =
            (0..MOST + 5).map(|_| failed.count(address(1))).collect();
        let waiting = verdicts.iter().filter(|verdict| verdict.wait.is_some()).count();
        let entries = verdicts.iter().filter(|verdict| verdict.entry.is_some()).count();
        assert_eq!((waiting, entries), (5, 1));
        assert!(failed.count(address(2)).wait.is_none());
        let entries = (3..=255).filter(|last| failed.count(address(*last)).entry.is_some()).count();
        assert!(entries < MOST_ENTRIES as usize, "{entries}");
        assert_eq!(failed.totals(), (MOST as u64 + 5 + 1 + 253, 5));
    }
}
