//! Request slots: backpressure for concurrent requests, shared fairly among tenants
//! and keys.
//!
//! ```text
//! arriving ──► running ◄──► waiting
//! no key yet    works       a long poll, a stream
//! ```
//!
//! A request that waits costs next to nothing, so it is counted apart from those
//! that run. Both pools are shared by dynamic thresholds: a tenant may take one more
//! slot while it holds less than [`TENANT_SHARE`] times the free ones, a key while it holds
//! less than [`KEY`] times. A flooding tenant is stopped before the last slot, two
//! are stopped earlier, and a newcomer always finds room; no capacity is reserved
//! while nobody floods.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use parking_lot::Mutex;
use windlass::{TENANT_SHARE, TenantId};

use super::connections::ConnectionPermit;
use super::problem::Problem;
use crate::http::app::App;
use crate::state::identity::Identity;

/// A key may have this many times what is free: alone, two of three.
const KEY: usize = 2;
/// The unauthenticated connections that an address may always have.
const ARRIVING: usize = 64;

/// The request slots of a server.
pub(crate) struct RequestSlots {
    running: RequestSlotPool,
    waiting: RequestSlotPool,
    /// Requests whose bearers are not known yet, by address.
    arriving: Mutex<HolderCounts<IpAddr>>,
}

impl RequestSlots {
    /// So many for requests that run, and for those that wait.
    pub(crate) fn new(running: usize, waiting: usize) -> Arc<Self> {
        let (running, waiting) = (RequestSlotPool::new(running), RequestSlotPool::new(waiting));
        Arc::new(Self { running, waiting, arriving: Mutex::default() })
    }

    /// A slot for a request that has just come. It has cost next to nothing:
    /// neither its key nor its body has been looked at.
    pub(crate) fn arrive(
        self: &Arc<Self>,
        place: &Arc<ConnectionPermit>,
        client: IpAddr,
    ) -> Result<Arc<RequestSlot>, Problem> {
        let most = self.running.most;
        let mut arriving = self.arriving.lock();
        if arriving.total >= most || arriving.of(&client) >= (most / 2).max(ARRIVING) {
            return Err(too_many());
        }
        arriving.add(&client);
        drop(arriving);
        Ok(self.slot(place, SlotPhase::Arriving(client)))
    }

    /// A slot that is never refused, for health checks.
    pub(crate) fn always(self: &Arc<Self>, place: &Arc<ConnectionPermit>) -> Arc<RequestSlot> {
        self.slot(place, SlotPhase::Free)
    }

    fn slot(self: &Arc<Self>, place: &Arc<ConnectionPermit>, phase: SlotPhase) -> Arc<RequestSlot> {
        let (slots, place) = (Arc::clone(self), Arc::clone(place));
        Arc::new(RequestSlot { slots, place, phase: Mutex::new(phase) })
    }
}

/// The slot of a request, returned when it is dropped.
pub(crate) struct RequestSlot {
    slots: Arc<RequestSlots>,
    place: Arc<ConnectionPermit>,
    phase: Mutex<SlotPhase>,
}

#[derive(Clone)]
enum SlotPhase {
    /// It does not count.
    Free,
    Arriving(IpAddr),
    Running(SlotHolder),
    Waiting(SlotHolder),
}

impl RequestSlot {
    /// It is known who asks: the request runs, if they may have one more.
    pub(crate) fn identify(&self, who: &Identity) -> Result<(), Problem> {
        if !self.place.claim(&who.tenant, &who.key_id) {
            return Err(too_many_connections());
        }
        let mut phase = self.phase.lock();
        if let SlotPhase::Arriving(client) = *phase {
            let holder = SlotHolder { tenant: who.tenant.clone(), key: Arc::clone(&who.key_id) };
            self.slots.running.take(&holder)?;
            self.slots.arriving.lock().remove(&client);
            *phase = SlotPhase::Running(holder);
        }
        Ok(())
    }

    /// The request waits from now on, if one more may; it runs again when what
    /// comes back is dropped.
    pub(crate) fn wait(&self) -> Result<WaitingRequest<'_>, Problem> {
        self.follow()?;
        Ok(WaitingRequest(self))
    }

    /// The rest of the answer is a stream: it waits until it ends.
    pub(crate) fn follow(&self) -> Result<(), Problem> {
        let mut phase = self.phase.lock();
        if let SlotPhase::Running(holder) = &*phase {
            let holder = holder.clone();
            self.slots.waiting.take(&holder)?;
            self.slots.running.give_back(&holder);
            *phase = SlotPhase::Waiting(holder);
        }
        Ok(())
    }

    /// Whether its answer is an event stream.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(*self.phase.lock(), SlotPhase::Waiting(_))
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        match self.phase.get_mut() {
            SlotPhase::Free => {}
            SlotPhase::Arriving(client) => self.slots.arriving.lock().remove(client),
            SlotPhase::Running(holder) => self.slots.running.give_back(holder),
            SlotPhase::Waiting(holder) => self.slots.waiting.give_back(holder),
        }
    }
}

/// A request that waits.
pub(crate) struct WaitingRequest<'a>(&'a RequestSlot);

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        let mut phase = self.0.phase.lock();
        if let SlotPhase::Waiting(holder) = &*phase {
            let holder = holder.clone();
            // Admitted already, and about to end.
            self.0.slots.running.take_anyway(&holder);
            self.0.slots.waiting.give_back(&holder);
            *phase = SlotPhase::Running(holder);
        }
    }
}

/// The slot of the request that a handler answers.
pub(crate) struct OwnSlot(pub(crate) Arc<RequestSlot>);

impl FromRequestParts<Arc<App>> for OwnSlot {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        parts.extensions.get::<Arc<RequestSlot>>().cloned().map(Self).ok_or_else(|| {
            let why = "a request without a slot";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", why)
        })
    }
}

/// Who has a slot.
#[derive(Clone)]
struct SlotHolder {
    tenant: TenantId,
    key: Arc<str>,
}

/// Slots that tenants and their keys share.
struct RequestSlotPool {
    most: usize,
    state: Mutex<PoolUse>,
}

#[derive(Default)]
struct PoolUse {
    tenants: HolderCounts<TenantId>,
    keys: HolderCounts<Arc<str>>,
}

impl RequestSlotPool {
    fn new(most: usize) -> Self {
        Self { most, state: Mutex::default() }
    }

    fn take(&self, holder: &SlotHolder) -> Result<(), Problem> {
        let mut state = self.state.lock();
        let free = self.most.saturating_sub(state.tenants.total);
        if free == 0 {
            return Err(too_many());
        }
        if state.tenants.of(&holder.tenant) >= free.saturating_mul(TENANT_SHARE)
            || state.keys.of(&holder.key) >= free.saturating_mul(KEY)
        {
            return Err(too_many_of_one());
        }
        state.add(holder);
        Ok(())
    }

    fn take_anyway(&self, holder: &SlotHolder) {
        self.state.lock().add(holder);
    }

    fn give_back(&self, holder: &SlotHolder) {
        let mut state = self.state.lock();
        state.tenants.remove(&holder.tenant);
        state.keys.remove(&holder.key);
    }
}

impl PoolUse {
    fn add(&mut self, holder: &SlotHolder) {
        self.tenants.add(&holder.tenant);
        self.keys.add(&holder.key);
    }
}

/// How many there are, in all and of each.
struct HolderCounts<K> {
    total: usize,
    each: HashMap<K, usize>,
}

impl<K> Default for HolderCounts<K> {
    fn default() -> Self {
        Self { total: 0, each: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash> HolderCounts<K> {
    fn of(&self, one: &K) -> usize {
        self.each.get(one).copied().unwrap_or_default()
    }

    fn add(&mut self, one: &K) {
        self.total += 1;
        match self.each.get_mut(one) {
            Some(count) => *count += 1,
            None => drop(self.each.insert(one.clone(), 1)),
        }
    }

    fn remove(&mut self, one: &K) {
        if let Some(count) = self.each.get_mut(one) {
            self.total -= 1;
            *count -= 1;
            if *count == 0 {
                self.each.remove(one);
            }
        }
    }
}

fn too_many() -> Problem {
    let why = "the server works on as many requests as it may";
    refused(why).hint("try again a little later; the operator sets `server.max_requests`")
}

fn too_many_of_one() -> Problem {
    let why = "this key or its tenant has its share of the requests that the server works on";
    refused(why).hint(
        "wait for some of them to end; the operator sets `server.max_requests` and \
         `server.max_waiting`",
    )
}

fn too_many_connections() -> Problem {
    let why = "this key or its tenant uses as many connections as it may, and all are busy";
    refused(why).hint("use fewer; the operator sets `server.max_connections_per_key`")
}

fn refused(why: &str) -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", why)
        .retry_after(Some(Duration::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(tenant: &str, key: &str) -> SlotHolder {
        SlotHolder { tenant: TenantId::new(tenant), key: key.into() }
    }

    fn fill(pool: &RequestSlotPool, holder: &SlotHolder) -> usize {
        (0..).take_while(|_| pool.take(holder).is_ok()).count()
    }

    #[test]
    fn whoever_floods_stops_before_the_last_slot_and_newcomers_find_room() {
        let pool = RequestSlotPool::new(4096);
        let alone = fill(&pool, &holder("a", "a1"));
        assert!((2700..=2731).contains(&alone), "two of three: {alone}");
        fill(&pool, &holder("a", "a2"));
        let of_tenant = pool.state.lock().tenants.of(&TenantId::new("a"));
        assert!((3200..=3277).contains(&of_tenant), "four of five: {of_tenant}");
        for tenant in 0..50 {
            let tenant = tenant.to_string();
            let got = fill(&pool, &holder(&tenant, &tenant));
            assert!(got > 0, "tenant {tenant} found no room");
            (1..got).for_each(|_| pool.give_back(&holder(&tenant, &tenant)));
        }
    }

    #[test]
    fn small_pools_can_be_used_up_and_are_empty_again() {
        let pool = RequestSlotPool::new(2);
        let one = holder("a", "a1");
        assert_eq!(fill(&pool, &one), 2);
        pool.give_back(&one);
        pool.give_back(&one);
        let state = pool.state.lock();
        assert!(state.tenants.each.is_empty() && state.keys.each.is_empty());
        assert_eq!(state.tenants.total, 0);
    }
}
