//! Slot of a running call, released while the call waits for nested calls or
//! for the next attempt.
//!
//! So nested calls cannot deadlock on the concurrency limit.

use std::sync::Arc;

use parking_lot::Mutex;

use super::limits::{Demand, OwnDemand, SlotPool, Ticket};

/// A slot that can be released and reacquired.
pub(crate) struct Slot {
    limits: Arc<SlotPool>,
    demand: OwnDemand,
    state: Mutex<SlotState>,
}

struct SlotState {
    ticket: Option<Ticket>,
    /// Number of things that the call waits for.
    away: usize,
    ended: bool,
}

impl Slot {
    pub(crate) fn new(ticket: Option<Ticket>, limits: &Arc<SlotPool>, demand: Demand<'_>) -> Self {
        let ended = ticket.is_none();
        Self {
            limits: Arc::clone(limits),
            demand: demand.own(),
            state: Mutex::new(SlotState { ticket, away: 0, ended }),
        }
    }

    /// Awaits a future without the slot, and reacquires it afterwards.
    pub(crate) async fn without<T>(&self, wait: impl Future<Output = T>) -> T {
        let away = self.leave();
        let done = wait.await;
        away.come_back().await;
        done
    }

    /// Releases the slot until the call comes back.
    pub(crate) fn leave(&self) -> SlotAway<'_> {
        let mut state = self.state.lock();
        state.away += 1;
        let ticket = state.ticket.take();
        drop(state);
        self.give_back(ticket);
        SlotAway { slot: self, is_over: false, is_back: false }
    }

    /// The call has ended: releases the slot for good.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        let ticket = state.ticket.take();
        drop(state);
        self.give_back(ticket);
    }

    /// Whether the call continues and has no slot.
    fn is_needed(&self) -> bool {
        let state = self.state.lock();
        !state.ended && state.away == 0 && state.ticket.is_none()
    }

    fn give_back(&self, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            self.limits.give_back(ticket, self.demand.as_demand());
        }
    }

    fn put(&self, ticket: Ticket) {
        let mut state = self.state.lock();
        // Meanwhile the call may have ended, or wait for something else.
        let spare = if state.ended || state.away > 0 || state.ticket.is_some() {
            Some(ticket)
        } else {
            state.ticket.replace(ticket)
        };
        drop(state);
        self.give_back(spare);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let ticket = self.state.get_mut().ticket.take();
        self.give_back(ticket);
    }
}

/// Guard: while it lives, the call has no slot. If it is dropped early, because
/// the call stopped waiting, the call continues at once; it was admitted
/// before, so the limit may be exceeded for a while.
pub(crate) struct SlotAway<'a> {
    slot: &'a Slot,
    /// No longer counted as waiting.
    is_over: bool,
    is_back: bool,
}

impl SlotAway<'_> {
    /// Reacquires a slot, unless the call still waits for something else.
    pub(crate) async fn come_back(mut self) {
        self.end();
        if self.slot.is_needed() {
            let slot = self.slot;
            let ticket = slot.limits.admit_again(slot.demand.as_demand()).await;
            slot.put(ticket);
        }
        self.is_back = true;
    }

    /// The call ends without a slot.
    pub(crate) fn stay_away(mut self) {
        self.end();
        self.is_back = true;
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.slot.state.lock().away -= 1;
        }
    }
}

impl Drop for SlotAway<'_> {
    fn drop(&mut self) {
        if self.is_back {
            return;
        }
        self.end();
        if self.slot.is_needed() {
            let slot = self.slot;
            slot.put(slot.limits.admit_anyway(slot.demand.as_demand()));
        }
    }
}
