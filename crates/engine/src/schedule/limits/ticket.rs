//! Ticket of a slot: what was counted, small enough for an atomic.

use std::sync::atomic::{AtomicU32, Ordering};

/// Ticket of a granted slot. It must be returned with the demand that it was
/// granted for. It records which limits were counted, because limits may change
/// while the call runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

impl Ticket {
    /// Set on every ticket, so that none is zero.
    const GIVEN: u32 = 1;
    /// A slot of the fast path; the shard is in the high half.
    const FAST_PATH: u32 = 1 << 1;
    /// Takes no slot.
    pub(super) const BYPASS: u32 = 1 << 2;
    /// Counted by name for its tenant's share.
    pub(super) const SHARE: u32 = 1 << 3;
    pub(super) const BUCKET: u32 = 1 << 4;
    pub(super) const TENANT: u32 = 1 << 5;
    pub(super) const AGENT: u32 = 1 << 6;
    pub(super) const TOOL: u32 = 1 << 7;

    pub(super) fn fast_path(shard: usize) -> Self {
        Self(Self::GIVEN | Self::FAST_PATH | (shard as u32) << 16)
    }

    /// Notes what was counted.
    pub(super) fn add(&mut self, what: u32) {
        self.0 |= what;
    }

    /// The shard of the fast path, if it is a slot of that.
    pub(super) fn shard(self) -> Option<usize> {
        (self.0 & Self::FAST_PATH != 0).then_some((self.0 >> 16) as usize)
    }

    pub(super) fn counts(self, what: u32) -> bool {
        self.0 & what != 0
    }
}

impl Default for Ticket {
    fn default() -> Self {
        Self(Self::GIVEN)
    }
}

/// Atomic cell for a ticket.
#[derive(Default)]
pub(crate) struct TicketCell(AtomicU32);

impl TicketCell {
    /// Stores a ticket in an empty cell.
    pub(crate) fn put(&self, ticket: Ticket) {
        self.0.store(ticket.0, Ordering::Release);
    }

    pub(crate) fn take(&self) -> Option<Ticket> {
        if self.0.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let ticket = self.0.swap(0, Ordering::AcqRel);
        (ticket != 0).then_some(Ticket(ticket))
    }
}
