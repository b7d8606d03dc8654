//! [`FairSlots`]: a semaphore whose slots tenants share fairly.
//!
//! A tenant may take one more slot while it holds less than [`TENANT_SHARE`] times
//! what is free (dynamic thresholds), and the last one only if it holds none: alone
//! it has nearly all, and others find one at once. Of those who wait, the tenant that
//! holds the fewest comes next, or the one that was served the longest ago.
//!
//! Not to be confused with [`super::limits`], which knows calls, their tools and
//! priorities: this is for what work needs besides, such as threads and connections.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::value::name::TenantId;

/// A tenant may have this many times what is free of something that all share:
/// alone, four of five.
pub const TENANT_SHARE: usize = 4;
/// How many tenants are remembered although they hold nothing.
const IDLE: usize = 64;

/// Slots that tenants share fairly.
pub struct FairSlots {
    most: usize,
    state: Mutex<SlotState>,
}

/// A slot, returned when it is dropped.
pub struct FairSlot {
    slots: Arc<FairSlots>,
    tenant: Option<TenantId>,
}

#[derive(Default)]
struct SlotState {
    held: usize,
    tenants: HashMap<Option<TenantId>, TenantSlots, ahash::RandomState>,
    /// How many wait.
    waiting: usize,
    /// Numbers waiters, and grants.
    clock: u64,
}

/// What a tenant holds, and its waiters, the oldest first.
#[derive(Default)]
struct TenantSlots {
    held: usize,
    /// When it last took one.
    served: u64,
    waiters: BTreeMap<u64, oneshot::Sender<FairSlot>>,
}

impl FairSlots {
    /// So many slots, at least one.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), state: Mutex::default() })
    }

    /// Takes a slot, as soon as there is one for the tenant; `None` is the operator.
    pub async fn take(self: &Arc<Self>, tenant: Option<&TenantId>) -> FairSlot {
        let tenant = tenant.cloned();
        loop {
            let (id, granted) = {
                let mut state = self.state.lock();
                if state.take(self.most, &tenant) {
                    drop(state);
                    return self.slot(tenant);
                }
                state.wait(&tenant)
            };
            let _place = WaitGuard { slots: self, tenant: &tenant, id };
            if let Ok(slot) = granted.await {
                return slot;
            }
        }
    }

    fn slot(self: &Arc<Self>, tenant: Option<TenantId>) -> FairSlot {
        FairSlot { slots: Arc::clone(self), tenant }
    }

    fn give_back(self: &Arc<Self>, tenant: &Option<TenantId>) {
        let mut state = self.state.lock();
        state.release(tenant);
        if state.waiting == 0 {
            return;
        }
        let next = std::iter::from_fn(|| state.next(self.most));
        let granted: Vec<_> = next.collect();
        drop(state);
        for (tenant, waiter) in granted {
            // A slot that nobody receives any more is dropped, and so given back.
            drop(waiter.send(self.slot(tenant)));
        }
    }
}

impl Drop for FairSlot {
    fn drop(&mut self) {
        self.slots.give_back(&self.tenant);
    }
}

impl TenantSlots {
    /// Whether the tenant may take one more, where so many are free.
    fn fits(&self, free: usize) -> bool {
        match self.held {
            0 => free > 0,
            held => free > 1 && held < free.saturating_mul(TENANT_SHARE),
        }
    }

    fn is_idle(&self) -> bool {
        self.held == 0 && self.waiters.is_empty()
    }
}

impl SlotState {
    /// Takes a slot, if a tenant may have one more.
    fn take(&mut self, most: usize, tenant: &Option<TenantId>) -> bool {
        let free = most.saturating_sub(self.held);
        if !self.tenants.contains_key(tenant) {
            self.add(tenant);
        }
        let Some(own) = self.tenants.get_mut(tenant) else { return false };
        let fits = own.fits(free);
        if fits {
            own.held += 1;
            self.held += 1;
            self.clock += 1;
            own.served = self.clock;
        }
        fits
    }

    /// A tenant that was not here lately. Those that are idle are forgotten only now, so
    /// that nobody pays for that with each slot.
    fn add(&mut self, tenant: &Option<TenantId>) {
        if self.tenants.len() >= IDLE {
            self.tenants.retain(|_, own| !own.is_idle());
        }
        self.tenants.insert(tenant.clone(), TenantSlots::default());
    }

    fn release(&mut self, tenant: &Option<TenantId>) {
        if let Some(own) = self.tenants.get_mut(tenant) {
            own.held -= 1;
            self.held -= 1;
        }
    }

    fn wait(&mut self, tenant: &Option<TenantId>) -> (u64, oneshot::Receiver<FairSlot>) {
        let (waiter, granted) = oneshot::channel();
        self.clock += 1;
        let id = self.clock;
        self.waiting += 1;
        self.tenants.entry(tenant.clone()).or_default().waiters.insert(id, waiter);
        (id, granted)
    }

    fn leave(&mut self, tenant: &Option<TenantId>, id: u64) {
        let own = self.tenants.get_mut(tenant);
        if own.is_some_and(|own| own.waiters.remove(&id).is_some()) {
            self.waiting -= 1;
        }
    }

    /// The next waiter that may have a slot, which is counted as held.
    fn next(&mut self, most: usize) -> Option<(Option<TenantId>, oneshot::Sender<FairSlot>)> {
        let free = most.saturating_sub(self.held);
        let first = |own: &TenantSlots| own.waiters.keys().next().copied();
        let tenant = (self.tenants.iter())
            .filter(|(_, own)| own.fits(free))
            .filter_map(|(tenant, own)| Some(((own.held, own.served, first(own)?), tenant)))
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, tenant)| tenant.clone())?;
        let (_, waiter) = self.tenants.get_mut(&tenant)?.waiters.pop_first()?;
        self.waiting -= 1;
        self.take(most, &tenant);
        Some((tenant, waiter))
    }
}

/// Guard of a waiter; dropping it leaves the queue.
struct WaitGuard<'a> {
    slots: &'a FairSlots,
    tenant: &'a Option<TenantId>,
    id: u64,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.slots.state.lock().leave(self.tenant, self.id);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, poll};

    use super::*;

    impl FairSlots {
        fn is_unused(&self) -> bool {
            let state = self.state.lock();
            state.tenants.values().all(TenantSlots::is_idle) && state.held + state.waiting == 0
        }
    }

    #[tokio::test]
    async fn tenants_that_hold_nothing_are_forgotten() {
        let slots = FairSlots::new(4);
        for tenant in 0..1_000 {
            slots.take(Some(&TenantId::new(tenant.to_string()))).await;
        }
        assert!(slots.is_unused() && slots.state.lock().tenants.len() <= IDLE);
    }

    fn fill(slots: &Arc<FairSlots>, tenant: &TenantId) -> Vec<FairSlot> {
        std::iter::from_fn(|| slots.take(Some(tenant)).now_or_never()).collect()
    }

    #[test]
    fn whoever_floods_leaves_slots_and_small_pools_keep_one() {
        let (noisy, quiet) = (TenantId::new("noisy"), TenantId::new("quiet"));
        for (most, alone) in [(1, 1), (2, 1), (5, 4), (256, 205)] {
            let slots = FairSlots::new(most);
            let held = fill(&slots, &noisy);
            assert_eq!(held.len(), alone, "of {most}");
            assert_eq!(slots.take(Some(&quiet)).now_or_never().is_some(), most > 1, "of {most}");
            drop(held);
            assert!(slots.is_unused());
        }
    }

    #[tokio::test]
    async fn the_next_slot_is_for_whoever_holds_the_fewest() {
        let tenants: Vec<TenantId> = ["a", "b", "c"].map(TenantId::new).into();
        let slots = FairSlots::new(8);
        let mut of_a = fill(&slots, &tenants[0]);
        let of_b = fill(&slots, &tenants[1]);
        assert_eq!((of_a.len(), of_b.len()), (7, 1));
        let wait = |tenant: usize| Box::pin(slots.take(Some(&tenants[tenant])));
        let mut waiting = [wait(0), wait(1), wait(2)];
        for waiter in &mut waiting {
            assert!(poll!(waiter).is_pending());
        }
        let [mut first, mut second, mut third] = waiting;
        of_a.pop();
        assert!(poll!(&mut second).is_pending() && poll!(&mut first).is_pending());
        let held_by_c = poll!(&mut third);
        assert!(held_by_c.is_ready(), "it held nothing, although it came last");
        // The last one is for whoever comes and holds none.
        of_a.pop();
        assert!(poll!(&mut second).is_pending() && poll!(&mut first).is_pending());
        of_a.pop();
        let held_by_b = poll!(&mut second);
        assert!(held_by_b.is_ready() && poll!(&mut first).is_pending());
        // Whoever gives up is forgotten.
        drop((first, second, third));
        drop((of_a, of_b, held_by_b, held_by_c));
        assert!(slots.is_unused());
    }

    #[tokio::test]
    async fn a_single_slot_goes_round() {
        let (noisy, quiet) = (TenantId::new("noisy"), TenantId::new("quiet"));
        let slots = FairSlots::new(1);
        let held = slots.take(Some(&noisy)).await;
        let mut flood: Vec<_> = (0..50).map(|_| Box::pin(slots.take(Some(&noisy)))).collect();
        for waiter in &mut flood {
            assert!(poll!(waiter).is_pending());
        }
        let mut one = Box::pin(slots.take(Some(&quiet)));
        assert!(poll!(&mut one).is_pending());
        drop(held);
        assert!(poll!(&mut one).is_ready(), "it was served the longest ago");
    }
}
