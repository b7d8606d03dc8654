//! The way past the lock, for calls that no limit but `max_concurrent` concerns.
//!
//! While an engine has plenty of slots, each lane has a few of its own, and
//! threads that call at the same time touch nothing in common. As soon as slots
//! are scarce the way is closed, and every slot is given under the lock; what
//! is on its way then still counts until it ends.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use crate::shards::Shards;

/// A lane's count has the calls under way in the low bits, and above them all
/// that ever passed.
const UNDER_WAY: u64 = PASSED - 1;
const PASSED: u64 = 1 << 20;

#[derive(Default)]
pub(super) struct FastPath {
    /// How many calls may be under way in each lane; none while it is closed.
    room: AtomicU64,
    shards: Shards<AtomicU64>,
}

/// What became of a call that tried the express way.
pub(super) enum FastPathPass {
    /// It has a slot of this lane.
    Shard(usize),
    /// It needs one of the others.
    Closed,
    /// The same, and meanwhile it may have been counted as under way.
    ClosedMeanwhile,
}

impl FastPath {
    /// A slot of the thread's lane, if there is one.
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
        // Whoever closes it reads the lanes afterwards: either that sees this
        // call, or this call sees that it is closed.
        if before & UNDER_WAY < room && self.room.load(SeqCst) != 0 {
            return FastPathPass::Shard(at);
        }
        shard.fetch_sub(PASSED + 1, SeqCst);
        FastPathPass::ClosedMeanwhile
    }

    /// Gives a slot back. Returns whether somebody may wait for it.
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

    /// How many slots each lane may have, of so many that are to spare.
    pub(super) fn room_in(&self, spare: usize) -> usize {
        (spare / self.shards.len()).min(UNDER_WAY as usize / 2)
    }

    /// How many slots all lanes have, with so many each.
    pub(super) fn slots(&self, room: usize) -> usize {
        room * self.shards.len()
    }

    pub(super) fn under_way(&self) -> usize {
        self.shards.all().map(|shard| (shard.load(SeqCst) & UNDER_WAY) as usize).sum()
    }

    /// How many calls ever passed.
    pub(super) fn passed(&self) -> u64 {
        self.shards.all().map(|shard| shard.load(SeqCst) / PASSED).sum()
    }
}
