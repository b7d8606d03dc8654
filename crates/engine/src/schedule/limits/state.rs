//! The counters behind the lock: running calls, waiting calls, limits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::demand::{Demand, OwnDemand};
use super::fast_path::FastPath;
use super::name_counts::NameCounts;
use super::queue::{WaitQueue, Waiter};
use super::settings::{LimitSettings, Strategy};
use super::tenant_shares::TenantShares;
use super::ticket::Ticket;
use super::{GrantedSlot, too_many};
use crate::error::{Error, ErrorKind};
use crate::value::name::TenantId;

/// The fast path has at most this fraction (1/n) of all slots.
const FAST_PATH_PART: usize = 4;

/// Receives the slot of a waiting call.
pub(super) type SlotReceiver = oneshot::Receiver<Result<GrantedSlot, Error>>;

#[derive(Default)]
pub(super) struct LimitState {
    pub(super) settings: LimitSettings,
    /// Calls with slots granted here, without those of the fast path.
    pub(super) running: usize,
    pub(super) bypassing: usize,
    pub(super) fast_path: Arc<FastPath>,
    /// Slots per shard of the fast path while it is open.
    room: usize,
    /// Whether the fast path is closed but may still have running calls.
    draining: bool,
    pub(super) buckets: NameCounts<Arc<str>>,
    tenants: NameCounts<Arc<str>>,
    /// By a hash of tenant and agent, to avoid copying names on lookup.
    agents: NameCounts<u64>,
    hasher: ahash::RandomState,
    tools: NameCounts<Arc<str>>,
    shares: TenantShares,
    pub(super) queue: WaitQueue,
    waiters: u64,
    /// Virtual start time of the next call, for the rate limit.
    next_due: Option<Instant>,
    pub(super) totals: SlotTotals,
}

#[derive(Default)]
pub(super) struct SlotTotals {
    pub(super) acquired: u64,
    pub(super) rejected: u64,
    pub(super) abandoned: u64,
}

impl LimitState {
    pub(super) fn new(settings: LimitSettings, fast_path: Arc<FastPath>) -> Self {
        let mut state = Self { settings, fast_path, ..Self::default() };
        state.try_fast_path();
        state
    }

    /// Changes the limits.
    pub(super) fn set(&mut self, settings: LimitSettings) {
        self.settings = settings;
        self.close_fast_path();
        self.try_fast_path();
    }

    /// Slots in use by the fast path, or available to it without asking.
    fn on_fast_path(&self) -> usize {
        match self.fast_path.is_open() {
            true => self.fast_path.slots(self.room),
            false if self.draining => self.fast_path.under_way(),
            false => 0,
        }
    }

    /// Opens the fast path if slots are plentiful and nobody waits.
    pub(super) fn try_fast_path(&mut self) {
        if self.fast_path.is_open() {
            return;
        }
        self.draining = self.on_fast_path() > 0;
        if self.draining || self.queue.len() > 0 {
            return;
        }
        let settings = &self.settings;
        let has_others = settings.per_tenant.is_some()
            || settings.per_agent.is_some()
            || settings.calls_per_second.is_some()
            || !settings.bucket_limits.is_empty();
        let max = settings.max_concurrent.max(1);
        let room = self.fast_path.room_in(max / FAST_PATH_PART);
        let taken = self.running + self.fast_path.slots(room) + settings.reserved(max);
        if !has_others && room > 0 && taken * 4 < max * 3 {
            self.room = room;
            self.fast_path.open(room);
        }
    }

    /// Closes the fast path if its slots could exceed the limit.
    fn guard_fast_path(&mut self) {
        if self.fast_path.is_open() {
            let max = self.settings.max_concurrent.max(1);
            let taken = self.running + self.fast_path.slots(self.room);
            if taken + self.settings.reserved(max) >= max {
                self.close_fast_path();
            }
        }
    }

    fn close_fast_path(&mut self) {
        self.fast_path.close();
        self.draining = true;
    }

    /// Enforces the rate limit.
    pub(super) fn keep_rate(&mut self) -> Result<(), Error> {
        let Some(rate) = self.settings.calls_per_second.filter(|rate| *rate > 0) else {
            return Ok(());
        };
        let now = Instant::now();
        let apart = Duration::from_secs(1) / rate;
        let due = self.next_due.map_or(now, |due| due.max(now)) + apart;
        let early = due.duration_since(now).saturating_sub(Duration::from_secs(1));
        if !early.is_zero() {
            self.totals.rejected += 1;
            let why = format!("more than {rate} calls in a second");
            return Err(Error::new(ErrorKind::RateLimited, why).with_retry_after(early));
        }
        self.next_due = Some(due);
        Ok(())
    }

    fn fits(&self, demand: Demand<'_>) -> bool {
        self.leaves_room(demand.tenant()) && self.fits_own(demand)
    }

    /// Whether the limits that apply to only some calls admit this one.
    fn fits_own(&self, demand: Demand<'_>) -> bool {
        let settings = &self.settings;
        let within = |limit: Option<usize>, running: &dyn Fn() -> usize| {
            limit.is_none_or(|limit| running() < limit)
        };
        let category = demand.tool.spec().category.as_str();
        within(settings.bucket_limits.get(category).copied(), &|| self.buckets.get(category))
            && within(settings.per_tenant, &|| self.tenants.get(demand.tenant().as_str()))
            && within(settings.per_agent, &|| {
                demand.agent().map_or(0, |agent| self.agents.get(&self.hasher.hash_one(agent)))
            })
            && within(demand.tool.spec().max_concurrent, &|| {
                self.tools.get(&**demand.tool.counted_as())
            })
    }

    /// Whether there is a slot for a tenant. The reserved slots are for tenants
    /// below their fair share: otherwise a flooding tenant would hold all slots
    /// whenever another comes.
    fn leaves_room(&self, tenant: &TenantId) -> bool {
        let max = self.settings.max_concurrent.max(1);
        let free = max.saturating_sub(self.running + self.on_fast_path());
        free > self.settings.reserved(max)
            || free > 0 && self.shares.of(tenant) <= max / self.shares.tenants_with(tenant)
    }

    /// Counts a call as running, if every limit admits it.
    pub(super) fn take(&mut self, demand: Demand<'_>) -> Option<Ticket> {
        let ticket = self.take_again(demand)?;
        self.totals.acquired += 1;
        Some(ticket)
    }

    /// Counts a call as running again that had a slot before.
    pub(super) fn take_again(&mut self, demand: Demand<'_>) -> Option<Ticket> {
        if !demand.bypasses() && !self.leaves_room(demand.tenant()) {
            return None;
        }
        let mut ticket = Ticket::default();
        if self.count(&mut ticket, demand, |limit| limit) {
            return Some(ticket);
        }
        self.uncount(ticket, demand);
        None
    }

    /// Counts a call as running, ignoring the limits.
    pub(super) fn take_anyway(&mut self, demand: Demand<'_>) -> Ticket {
        let mut ticket = Ticket::default();
        self.count(&mut ticket, demand, |_| usize::MAX);
        ticket
    }

    /// Counts a call against every applicable limit, and notes those on the
    /// ticket. Stops at the first limit that is reached.
    fn count(
        &mut self,
        ticket: &mut Ticket,
        demand: Demand<'_>,
        cap: impl Fn(usize) -> usize,
    ) -> bool {
        if demand.bypasses() {
            self.bypassing += 1;
            ticket.add(Ticket::BYPASS);
            return true;
        }
        let (settings, spec) = (&self.settings, demand.tool.spec());
        let category = &spec.category;
        if let Some(&limit) = settings.bucket_limits.get(category.as_str()) {
            if !self.buckets.add(category.as_str(), cap(limit), || category.shared()) {
                return false;
            }
            ticket.add(Ticket::BUCKET);
        }
        if let Some(limit) = settings.per_tenant {
            let tenant = demand.tenant();
            if !self.tenants.add(tenant.as_str(), cap(limit), || tenant.shared()) {
                return false;
            }
            ticket.add(Ticket::TENANT);
        }
        if let (Some(limit), Some(agent)) = (settings.per_agent, demand.agent()) {
            let agent = self.hasher.hash_one(agent);
            if !self.agents.add(&agent, cap(limit), || agent) {
                return false;
            }
            ticket.add(Ticket::AGENT);
        }
        if let Some(limit) = spec.max_concurrent {
            let name = demand.tool.counted_as();
            if !self.tools.add(&**name, cap(limit), || Arc::clone(name)) {
                return false;
            }
            ticket.add(Ticket::TOOL);
        }
        self.running += 1;
        if self.shares.add(demand.tenant()) {
            ticket.add(Ticket::SHARE);
        }
        self.guard_fast_path();
        true
    }

    pub(super) fn give_back(&mut self, ticket: Ticket, demand: Demand<'_>) {
        if ticket.counts(Ticket::BYPASS) {
            self.bypassing -= 1;
            return;
        }
        self.running -= 1;
        match ticket.counts(Ticket::SHARE) {
            true => self.shares.remove(demand.tenant()),
            false => self.shares.remove_of_first(),
        }
        self.uncount(ticket, demand);
    }

    /// Uncounts what is counted by name.
    fn uncount(&mut self, ticket: Ticket, demand: Demand<'_>) {
        if ticket.counts(Ticket::BUCKET) {
            self.buckets.remove(demand.tool.spec().category.as_str());
        }
        if ticket.counts(Ticket::TENANT) {
            self.tenants.remove(demand.tenant().as_str());
        }
        if ticket.counts(Ticket::AGENT)
            && let Some(agent) = demand.agent()
        {
            self.agents.remove(&self.hasher.hash_one(agent));
        }
        if ticket.counts(Ticket::TOOL) {
            self.tools.remove(&**demand.tool.counted_as());
        }
    }

    pub(super) fn enqueue(
        &mut self,
        demand: OwnDemand,
        priority: i32,
    ) -> Result<(u64, SlotReceiver, Option<Waiter>), Error> {
        if self.settings.strategy == Strategy::Reject {
            self.totals.rejected += 1;
            return Err(too_many("and no call may wait"));
        }
        let mut evicted = None;
        if self.queue.len() >= self.settings.queue_size {
            evicted = self.queue.make_room(demand.as_demand().tenant());
            self.totals.rejected += 1;
            if evicted.is_none() {
                return Err(too_many("and the queue is full"));
            }
        }
        let (waiter, receiver) = self.waiter(demand, priority, false);
        let id = waiter.id;
        self.queue.push(waiter);
        Ok((id, receiver, evicted))
    }

    pub(super) fn come_back(&mut self, demand: OwnDemand) -> (u64, SlotReceiver) {
        let (waiter, receiver) = self.waiter(demand, i32::MAX, true);
        let id = waiter.id;
        self.queue.push(waiter);
        (id, receiver)
    }

    fn waiter(
        &mut self,
        demand: OwnDemand,
        priority: i32,
        returning: bool,
    ) -> (Waiter, SlotReceiver) {
        let (answer, receiver) = oneshot::channel();
        let id = self.waiters;
        self.waiters += 1;
        (Waiter { id, demand, priority, returning, since: Instant::now(), answer }, receiver)
    }

    /// The next waiting call that fits, counted as running.
    pub(super) fn next(&mut self) -> Option<(Waiter, Ticket)> {
        let mut queue = std::mem::take(&mut self.queue);
        let fits = |demand: Demand<'_>| self.fits(demand);
        let next = match self.settings.strategy {
            Strategy::Priority => {
                queue.next_by_priority(Instant::now(), self.settings.ageing, fits)
            }
            Strategy::Fifo | Strategy::Reject => queue.next_in_turn(fits),
        };
        self.queue = queue;
        next.map(|waiter| {
            // It fits: nothing has changed since the check.
            let ticket = self.take_anyway(waiter.demand.as_demand());
            self.totals.acquired += u64::from(!waiter.returning);
            (waiter, ticket)
        })
    }
}
