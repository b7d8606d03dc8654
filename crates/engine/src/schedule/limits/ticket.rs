//! What a slot was given for, small enough to be kept in an atomic.

use std::sync::atomic::{AtomicU32, Ordering};

/// A slot that was given. It must be given back, with the demand that it was
/// given for. It says what was counted: only what has a limit is, and limits
/// may change while the call runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

impl Ticket {
    /// Every ticket has it, so that none is zero.
    const GIVEN: u32 = 1;
    /// It is of an express lane, whose position is in the high half.
    const FAST_PATH: u32 = 1 << 1;
    /// It takes no slot.
    pub(super) const BYPASS: u32 = 1 << 2;
    /// For its tenant's share, and not for the only tenant's.
    pub(super) const SHARE: u32 = 1 << 3;
    pub(super) const BUCKET: u32 = 1 << 4;
    pub(super) const TENANT: u32 = 1 << 5;
    pub(super) const AGENT: u32 = 1 << 6;
    pub(super) const TOOL: u32 = 1 << 7;

    pub(super) fn fast_path(shard: usize) -> Self {
        Self(Self::GIVEN | Self::FAST_PATH | (shard as u32) << 16)
    }

    /// Writes down what was counted.
    pub(super) fn add(&mut self, what: u32) {
        self.0 |= what;
    }

    /// The express lane, if it is of one.
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

/// A place for a ticket.
#[derive(Default)]
pub(crate) struct TicketCell(AtomicU32);

impl TicketCell {
    /// Puts a ticket where there is none.
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
