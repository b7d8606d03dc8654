//! The slot of a call that runs, given back while the call only waits: for
//! tools that it calls, or for the next attempt.
//!
//! So a tool that calls tools cannot take the slots that those need.

use std::sync::Arc;

use parking_lot::Mutex;

use super::limits::{Demand, Limits, OwnDemand, Permit};

/// A slot that is given back and taken again.
pub(crate) struct Slot {
    limits: Arc<Limits>,
    demand: OwnDemand,
    state: Mutex<State>,
}

struct State {
    permit: Option<Permit>,
    /// How many things the call waits for.
    away: usize,
    ended: bool,
}

impl Slot {
    pub(crate) fn new(permit: Option<Permit>, limits: &Arc<Limits>, demand: Demand<'_>) -> Self {
        let ended = permit.is_none();
        Self {
            limits: Arc::clone(limits),
            demand: demand.own(),
            state: Mutex::new(State { permit, away: 0, ended }),
        }
    }

    /// Waits for something without the slot, and takes a slot again before it
    /// goes on.
    pub(crate) async fn without<T>(&self, wait: impl Future<Output = T>) -> T {
        let away = self.leave();
        let done = wait.await;
        drop(away);
        self.take_again().await;
        done
    }

    /// Gives the slot back until it is taken again.
    pub(crate) fn leave(&self) -> Away<'_> {
        Away::new(self)
    }

    /// The call has ended: its slot is free for good.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        let permit = state.permit.take();
        drop(state);
        drop(permit);
    }

    /// Takes a slot again, if the call has none and needs one.
    pub(crate) async fn take_again(&self) {
        if !self.is_needed() {
            return;
        }
        let permit = self.limits.admit_again(self.demand.as_demand()).await;
        let mut state = self.state.lock();
        // Meanwhile the call may have ended, or wait for something else.
        let spare = if state.ended || state.away > 0 || state.permit.is_some() {
            Some(permit)
        } else {
            state.permit.replace(permit)
        };
        drop(state);
        drop(spare);
    }

    fn is_needed(&self) -> bool {
        let state = self.state.lock();
        !state.ended && state.away == 0 && state.permit.is_none()
    }
}

/// While it lives, the call has no slot.
pub(crate) struct Away<'a>(&'a Slot);

impl<'a> Away<'a> {
    fn new(slot: &'a Slot) -> Self {
        let mut state = slot.state.lock();
        state.away += 1;
        let permit = state.permit.take();
        drop(state);
        drop(permit);
        Self(slot)
    }
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.0.state.lock().away -= 1;
    }
}
