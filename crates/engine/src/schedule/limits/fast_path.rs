//! Lock-free fast path, for calls that only `max_concurrent` applies to.
//!
//! While slots are plentiful, each shard has a few of its own, so that
//! concurrent threads share no memory. When slots become scarce the fast path
//! is closed, and every slot is granted under the lock; calls that entered
//! before still count until they end.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use crate::shards::Shards;

/// A shard's counter has the running calls in the low bits, and above them the
/// total number of calls.
const UNDER_WAY: u64 = PASSED - 1;
const PASSED: u64 = 1 << 20;

#[derive(Default)]
pub(super) struct FastPath {
    /// Slots per shard; zero while closed.
    room: AtomicU64,
    shards: Shards<AtomicU64>,
}

/// Outcome of trying the fast path.
pub(super) enum FastPathPass {
    /// A slot of this shard.
    Shard(usize),
    /// Closed or full: take the lock.
    Closed,
    /// Closed concurrently; meanwhile the call may have been counted as
    /// running.
    ClosedMeanwhile,
}

impl FastPath {
    /// Takes a slot of the thread's shard, if one is free.
    pub(super) fn enter(&self) -> FastPathPass {
        let room = self.room.load(SeqCst);
        if room == 0 {
            return FastPathPass::Closed;
        }
        let (at, shard) = self.shards.current();
        if shard.load(Relaxed) & UNDER_WAY >= room {
            return FastPathPass::Closed;
        }
        let before = shard.fetch_add(PASSED + 1, SeqCst);
        // Closing reads the shards afterwards: either it sees this call, or
        // this call sees that the path is closed.
        if before & UNDER_WAY < room && self.room.load(SeqCst) != 0 {
            return FastPathPass::Shard(at);
        }
        shard.fetch_sub(PASSED + 1, SeqCst);
        FastPathPass::ClosedMeanwhile
    }

    /// Returns a slot. Returns whether a call may be waiting for it.
    pub(super) fn leave(&self, at: usize) -> bool {
        self.shards.at(at).fetch_sub(1, SeqCst);
        self.room.load(SeqCst) == 0
    }

    pub(super) fn is_open(&self) -> bool {
        self.room.load(SeqCst) != 0
    }

    pub(super) fn open(&self, room: usize) {
        self.room.store(room as u64, SeqCst);
    }

    pub(super) fn close(&self) {
        self.room.store(0, SeqCst);
    }

    /// Slots per shard, for a total of `spare`.
    pub(super) fn room_in(&self, spare: usize) -> usize {
        (spare / self.shards.len()).min(UNDER_WAY as usize / 2)
    }

    /// Total slots, for this many per shard.
    pub(super) fn slots(&self, room: usize) -> usize {
        room * self.shards.len()
    }

    pub(super) fn under_way(&self) -> usize {
        self.shards.all().map(|shard| (shard.load(SeqCst) & UNDER_WAY) as usize).sum()
    }

    /// Total number of calls that took the fast path.
    pub(super) fn passed(&self) -> u64 {
        self.shards.all().map(|shard| shard.load(SeqCst) / PASSED).sum()
    }
}
