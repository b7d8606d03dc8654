//! Per-thread shards of counters and buffers, against false sharing and lock
//! contention.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

/// Maximum number of shards; further threads share them, because reading has to
/// sum over all.
const MAX_SHARDS: usize = 16;

static SHARDS: LazyLock<usize> = LazyLock::new(|| {
    available_parallelism().map_or(1, usize::from).next_power_of_two().clamp(2, MAX_SHARDS)
});

/// Number of the current thread; the first threads get shards of their own.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    // A thread that is about to end may no longer have one.
    NUMBER.try_with(|number| *number).unwrap_or_default()
}

/// One `T` per shard.
pub(crate) struct Shards<T>(Box<[Shard<T>]>);

/// Aligned to two cache lines, which processors prefetch together.
#[derive(Default)]
#[repr(align(128))]
struct Shard<T>(T);

impl<T> Shards<T> {
    pub(crate) fn new(make: impl Fn() -> T) -> Self {
        Self((0..*SHARDS).map(|_| Shard(make())).collect())
    }

    /// The shard of the current thread, with its index.
    pub(crate) fn current(&self) -> (usize, &T) {
        let at = number() & (self.0.len() - 1);
        (at, &self.0[at].0)
    }

    pub(crate) fn at(&self, at: usize) -> &T {
        &self.0[at].0
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &shard.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}
