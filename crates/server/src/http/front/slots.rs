//! Slots of requests: how many are worked on at once, how many wait, and whose
//! they are.
//!
//! ```text
//! arriving ──► running ◄──► waiting
//! no key yet    works       a long poll, a stream
//! ```
//!
//! A request that waits costs next to nothing, so it has no slot of those that
//! run. Both are shared by dynamic thresholds: a tenant may take one more while it
//! has less than [`TENANT`] times what is free, a key while it has less than
//! [`KEY`] times. One that floods stops itself before the last slot, two before
//! that, and whoever comes next always finds room. None is set aside where nobody
//! floods.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use parking_lot::Mutex;
use windlass::TenantId;

use super::connections::Place;
use super::problem::Problem;
use crate::http::app::App;
use crate::state::identity::Identity;

/// A tenant may have this many times what is free: alone, four of five slots.
pub(crate) const TENANT: usize = 4;
/// A key may have this many times what is free: alone, two of three.
const KEY: usize = 2;
/// What an address may always have while nobody knows who asks.
const ARRIVING: usize = 64;

/// The slots of a server.
pub(crate) struct Slots {
    running: Pool,
    waiting: Pool,
    /// Requests whose bearers are not known yet, by address.
    arriving: Mutex<Tally<IpAddr>>,
}

impl Slots {
    /// So many for requests that run, and for those that wait.
    pub(crate) fn new(running: usize, waiting: usize) -> Arc<Self> {
        let (running, waiting) = (Pool::new(running), Pool::new(waiting));
        Arc::new(Self { running, waiting, arriving: Mutex::default() })
    }

    /// A slot for a request that has just come. It has cost next to nothing:
    /// neither its key nor its body has been looked at.
    pub(crate) fn arrive(
        self: &Arc<Self>,
        place: &Arc<Place>,
        client: IpAddr,
    ) -> Result<Arc<Slot>, Problem> {
        let most = self.running.most;
        let mut arriving = self.arriving.lock();
        if arriving.total >= most || arriving.of(&client) >= (most / 2).max(ARRIVING) {
            return Err(too_many());
        }
        arriving.add(&client);
        drop(arriving);
        Ok(self.slot(place, Phase::Arriving(client)))
    }

    /// A slot for a request that is always let in.
    pub(crate) fn always(self: &Arc<Self>, place: &Arc<Place>) -> Arc<Slot> {
        self.slot(place, Phase::Free)
    }

    fn slot(self: &Arc<Self>, place: &Arc<Place>, phase: Phase) -> Arc<Slot> {
        let (slots, place) = (Arc::clone(self), Arc::clone(place));
        Arc::new(Slot { slots, place, phase: Mutex::new(phase) })
    }
}

/// The slot of a request. Dropping it gives it back.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    place: Arc<Place>,
    phase: Mutex<Phase>,
}

#[derive(Clone)]
enum Phase {
    /// It does not count.
    Free,
    Arriving(IpAddr),
    Running(Holder),
    Waiting(Holder),
}

impl Slot {
    /// It is known who asks: the request runs, if they may have one more.
    pub(crate) fn identify(&self, who: &Identity) -> Result<(), Problem> {
        if !self.place.claim(&who.tenant, &who.key_id) {
            return Err(too_many_connections());
        }
        let mut phase = self.phase.lock();
        if let Phase::Arriving(client) = *phase {
            let holder = Holder { tenant: who.tenant.clone(), key: Arc::clone(&who.key_id) };
            self.slots.running.take(&holder)?;
            self.slots.arriving.lock().remove(&client);
            *phase = Phase::Running(holder);
        }
        Ok(())
    }

    /// The request waits from now on, if one more may; it runs again when what
    /// comes back is dropped.
    pub(crate) fn wait(&self) -> Result<Waiting<'_>, Problem> {
        self.follow()?;
        Ok(Waiting(self))
    }

    /// The rest of the answer is a stream: it waits until it ends.
    pub(crate) fn follow(&self) -> Result<(), Problem> {
        let mut phase = self.phase.lock();
        if let Phase::Running(holder) = &*phase {
            let holder = holder.clone();
            self.slots.waiting.take(&holder)?;
            self.slots.running.give_back(&holder);
            *phase = Phase::Waiting(holder);
        }
        Ok(())
    }

    /// Whether its answer is a stream that goes on.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(*self.phase.lock(), Phase::Waiting(_))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        match self.phase.get_mut() {
            Phase::Free => {}
            Phase::Arriving(client) => self.slots.arriving.lock().remove(client),
            Phase::Running(holder) => self.slots.running.give_back(holder),
            Phase::Waiting(holder) => self.slots.waiting.give_back(holder),
        }
    }
}

/// A request that waits.
pub(crate) struct Waiting<'a>(&'a Slot);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut phase = self.0.phase.lock();
        if let Phase::Waiting(holder) = &*phase {
            let holder = holder.clone();
            // It was let in before, and ends soon.
            self.0.slots.running.take_anyway(&holder);
            self.0.slots.waiting.give_back(&holder);
            *phase = Phase::Running(holder);
        }
    }
}

/// The slot of the request that a handler answers.
pub(crate) struct Own(pub(crate) Arc<Slot>);

impl FromRequestParts<Arc<App>> for Own {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        parts.extensions.get::<Arc<Slot>>().cloned().map(Self).ok_or_else(|| {
            let why = "a request without a slot";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", why)
        })
    }
}

/// Who has a slot.
#[derive(Clone)]
struct Holder {
    tenant: TenantId,
    key: Arc<str>,
}

/// Slots that tenants and their keys share.
struct Pool {
    most: usize,
    state: Mutex<Shares>,
}

#[derive(Default)]
struct Shares {
    tenants: Tally<TenantId>,
    keys: Tally<Arc<str>>,
}

impl Pool {
    fn new(most: usize) -> Self {
        Self { most, state: Mutex::default() }
    }

    fn take(&self, holder: &Holder) -> Result<(), Problem> {
        let mut state = self.state.lock();
        let free = self.most.saturating_sub(state.tenants.total);
        if free == 0 {
            return Err(too_many());
        }
        if state.tenants.of(&holder.tenant) >= free.saturating_mul(TENANT)
            || state.keys.of(&holder.key) >= free.saturating_mul(KEY)
        {
            return Err(too_many_of_one());
        }
        state.add(holder);
        Ok(())
    }

    fn take_anyway(&self, holder: &Holder) {
        self.state.lock().add(holder);
    }

    fn give_back(&self, holder: &Holder) {
        let mut state = self.state.lock();
        state.tenants.remove(&holder.tenant);
        state.keys.remove(&holder.key);
    }
}

impl Shares {
    fn add(&mut self, holder: &Holder) {
        self.tenants.add(&holder.tenant);
        self.keys.add(&holder.key);
    }
}

/// How many there are, in all and of each.
struct Tally<K> {
    total: usize,
    each: HashMap<K, usize>,
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self { total: 0, each: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash> Tally<K> {
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

    fn holder(tenant: &str, key: &str) -> Holder {
        Holder { tenant: TenantId::new(tenant), key: key.into() }
    }

    fn fill(pool: &Pool, holder: &Holder) -> usize {
        (0..).take_while(|_| pool.take(holder).is_ok()).count()
    }

    #[test]
    fn whoever_floods_stops_before_the_last_slot_and_newcomers_find_room() {
        let pool = Pool::new(4096);
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
        let pool = Pool::new(2);
        let one = holder("a", "a1");
        assert_eq!(fill(&pool, &one), 2);
        pool.give_back(&one);
        pool.give_back(&one);
        let state = pool.state.lock();
        assert!(state.tenants.each.is_empty() && state.keys.each.is_empty());
        assert_eq!(state.tenants.total, 0);
    }
}
