//! Wait queue: one queue per tenant, served round-robin.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Demand, GrantedSlot, OwnDemand};
use crate::error::Error;
use crate::value::name::TenantId;

/// A waiting call.
pub(super) struct Waiter {
    pub(super) id: u64,
    pub(super) demand: OwnDemand,
    pub(super) priority: i32,
    /// It has run before, released its slot while it waited for something else,
    /// and now wants to continue.
    pub(super) returning: bool,
    pub(super) since: Instant,
    pub(super) answer: oneshot::Sender<Result<GrantedSlot, Error>>,
}

#[derive(Default)]
pub(super) struct WaitQueue {
    tenants: HashMap<TenantId, VecDeque<Waiter>>,
    /// Tenants with waiting calls; the first is served next.
    turns: VecDeque<TenantId>,
    len: usize,
}

impl WaitQueue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Number of waiting calls of a tenant.
    pub(super) fn of(&self, tenant: &TenantId) -> usize {
        self.tenants.get(tenant).map_or(0, VecDeque::len)
    }

    pub(super) fn push(&mut self, waiter: Waiter) {
        let tenant = waiter.demand.caller.tenant.clone();
        if !self.tenants.contains_key(&tenant) {
            self.turns.push_back(tenant.clone());
        }
        let queue = self.tenants.entry(tenant).or_default();
        // Returning calls precede new ones, in their own order.
        let at = match waiter.returning {
            true => queue.iter().take_while(|other| other.returning).count(),
            false => queue.len(),
        };
        queue.insert(at, waiter);
        self.len += 1;
    }

    /// Removes a call that no longer wants to wait.
    pub(super) fn remove(&mut self, tenant: &TenantId, id: u64) -> Option<Waiter> {
        let at = self.tenants.get(tenant)?.iter().position(|waiter| waiter.id == id)?;
        self.take(tenant, at)
    }

    /// Makes room for a call of `newcomer`: if another tenant has the longest
    /// queue, evicts its call with the lowest priority, and of several the
    /// newest. Returning calls are never evicted.
    pub(super) fn make_room(&mut self, newcomer: &TenantId) -> Option<Waiter> {
        let new = |queue: &VecDeque<Waiter>| queue.iter().filter(|it| !it.returning).count();
        let own = self.tenants.get(newcomer).map_or(0, new);
        let (longest, waiting) = self
            .tenants
            .iter()
            .map(|(tenant, queue)| (tenant, new(queue)))
            .max_by_key(|(_, len)| *len)?;
        if waiting <= own + 1 {
            return None;
        }
        let (at, _) = self
            .tenants
            .get(longest)?
            .iter()
            .enumerate()
            .filter(|(_, waiter)| !waiter.returning)
            .min_by_key(|(_, waiter)| (waiter.priority, Reverse(waiter.id)))?;
        let longest = longest.clone();
        self.take(&longest, at)
    }

    /// The next call that fits, round-robin over tenants.
    pub(super) fn next_in_turn(&mut self, fits: impl Fn(Demand<'_>) -> bool) -> Option<Waiter> {
        let (turn, at) = self.turns.iter().enumerate().find_map(|(turn, tenant)| {
            let queue = self.tenants.get(tenant)?;
            queue.iter().position(|waiter| fits(waiter.demand.as_demand())).map(|at| (turn, at))
        })?;
        let tenant = self.turns.remove(turn)?;
        self.turns.push_back(tenant.clone());
        self.take(&tenant, at)
    }

    /// The call with the highest priority that fits; priorities grow by one
    /// step for each `ageing` of waiting time.
    pub(super) fn next_by_priority(
        &mut self,
        now: Instant,
        ageing: Duration,
        fits: impl Fn(Demand<'_>) -> bool,
    ) -> Option<Waiter> {
        let step = ageing.as_secs_f64().max(1e-3);
        let rank = |waiter: &Waiter| {
            f64::from(waiter.priority) + now.duration_since(waiter.since).as_secs_f64() / step
        };
        let (_, id, tenant) = self
            .tenants
            .values()
            .flatten()
            .filter(|waiter| fits(waiter.demand.as_demand()))
            .map(|waiter| (rank(waiter), waiter.id, &waiter.demand.caller.tenant))
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
        let tenant = tenant.clone();
        self.remove(&tenant, id)
    }

    /// Number of waiting calls of a category.
    pub(super) fn waiting_in(&self, category: &str) -> usize {
        let waits = |waiter: &&Waiter| waiter.demand.tool.spec().category.as_str() == category;
        self.tenants.values().flatten().filter(waits).count()
    }

    fn take(&mut self, tenant: &TenantId, at: usize) -> Option<Waiter> {
        let queue = self.tenants.get_mut(tenant)?;
        let waiter = queue.remove(at)?;
        self.len -= 1;
        if queue.is_empty() {
            self.tenants.remove(tenant);
            self.turns.retain(|known| known != tenant);
        }
        Some(waiter)
    }
}
