//! Concurrency limits and the bounded queue, with fair sharing between tenants.
//!
//! One short lock guards all counters. A call that finds a free slot takes it
//! without waiting or allocating; otherwise it waits in its tenant's queue.
//! Tenants are served round-robin, so a tenant that floods the engine only
//! delays itself: when the queue is full, the newest call of the longest queue
//! is evicted. While slots are plentiful, most calls bypass the lock
//! ([`fast_path`]).

mod demand;
mod fast_path;
mod metrics;
mod name_counts;
mod queue;
mod settings;
mod state;
mod tenant_shares;
mod ticket;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

pub(crate) use demand::{Demand, OwnDemand};
use fast_path::{FastPath, FastPathPass};
pub use metrics::{BucketMetrics, LimitMetrics, TenantLoad};
use queue::Waiter;
pub use settings::{LimitSettings, Strategy};
use state::LimitState;
pub(crate) use ticket::{Ticket, TicketCell};

use crate::error::{Error, ErrorKind};
use crate::shards::Shards;
use crate::value::name::TenantId;

/// The slots of an engine.
pub(crate) struct SlotPool {
    fast_path: Arc<FastPath>,
    state: Mutex<LimitState>,
    /// Total execution time, for the average.
    run_micros: Shards<AtomicU64>,
}

/// A slot for a call (RAII): dropping it returns the slot.
pub(crate) struct Permit<'a> {
    limits: &'a Arc<SlotPool>,
    demand: Demand<'a>,
    ticket: Option<Ticket>,
    /// Whether the call had to wait for it.
    pub(crate) waited: bool,
}

/// A slot granted to a waiting call. If nobody receives it, dropping it returns
/// the slot.
struct GrantedSlot {
    limits: Arc<SlotPool>,
    demand: OwnDemand,
    ticket: Option<Ticket>,
}

impl SlotPool {
    pub(crate) fn new(settings: LimitSettings) -> Arc<Self> {
        let fast_path = Arc::<FastPath>::default();
        let state = Mutex::new(LimitState::new(settings, Arc::clone(&fast_path)));
        Arc::new(Self { fast_path, state, run_micros: Shards::default() })
    }

    /// Acquires a slot, waiting if necessary; fails at once if the call may not
    /// wait. Dropping the future leaves the queue.
    pub(crate) async fn admit<'a>(
        self: &'a Arc<Self>,
        demand: Demand<'a>,
        priority: i32,
    ) -> Result<Permit<'a>, Error> {
        let (ticket, waited) = match self.admit_now(demand)? {
            Some(ticket) => (ticket, false),
            None => (Box::pin(self.wait(demand, priority)).await?, true),
        };
        Ok(Permit { limits: self, demand, ticket: Some(ticket), waited })
    }

    /// Acquires a slot if one is free.
    fn admit_now(self: &Arc<Self>, demand: Demand<'_>) -> Result<Option<Ticket>, Error> {
        let only_slot = demand.tool.spec().max_concurrent.is_none() && !demand.bypasses();
        match if only_slot { self.fast_path.enter() } else { FastPathPass::Closed } {
            FastPathPass::Shard(shard) => return Ok(Some(Ticket::fast_path(shard))),
            FastPathPass::ClosedMeanwhile => self.grant(self.state.lock()),
            FastPathPass::Closed => {}
        }
        let mut state = self.state.lock();
        state.keep_rate()?;
        Ok(state.take(demand))
    }

    async fn wait(self: &Arc<Self>, demand: Demand<'_>, priority: i32) -> Result<Ticket, Error> {
        let (id, tenant, answer) = {
            let mut state = self.state.lock();
            if let Some(ticket) = state.take(demand) {
                return Ok(ticket);
            }
            let tenant = demand.tenant().clone();
            let (id, answer, evicted) = state.enqueue(demand.own(), priority)?;
            drop(state);
            if let Some(evicted) = evicted {
                let _ = evicted.answer.send(Err(too_many("others are waiting, too")));
            }
            (id, tenant, answer)
        };
        let _place = QueueGuard { limits: self, tenant, id };
        let gone = || Error::new(ErrorKind::Internal, "the engine's queue is gone");
        answer.await.map_err(|_| gone())??.ticket.take().ok_or_else(gone)
    }

    /// Reacquires the slot of a call that released it while it waited. The call
    /// was admitted before: it precedes its tenant's new calls, and the queue's
    /// limit does not apply.
    pub(crate) async fn admit_again(self: &Arc<Self>, demand: Demand<'_>) -> Ticket {
        loop {
            let (id, answer) = {
                let mut state = self.state.lock();
                if let Some(ticket) = state.take_again(demand) {
                    return ticket;
                }
                state.come_back(demand.own())
            };
            let _place = QueueGuard { limits: self, tenant: demand.tenant().clone(), id };
            if let Ok(Ok(mut granted)) = answer.await
                && let Some(ticket) = granted.ticket.take()
            {
                return ticket;
            }
        }
    }

    /// Reacquires a slot without waiting, exceeding the limit if necessary.
    pub(crate) fn admit_anyway(&self, demand: Demand<'_>) -> Ticket {
        self.state.lock().take_anyway(demand)
    }

    /// Returns a slot, and grants it to a waiting call.
    pub(crate) fn give_back(self: &Arc<Self>, ticket: Ticket, demand: Demand<'_>) {
        match ticket.shard() {
            Some(shard) => {
                if self.fast_path.leave(shard) {
                    self.grant(self.state.lock());
                }
            }
            None => {
                let mut state = self.state.lock();
                state.give_back(ticket, demand);
                self.grant(state);
            }
        }
    }

    /// The current limits.
    pub(crate) fn settings(&self) -> LimitSettings {
        self.state.lock().settings.clone()
    }

    /// Changes the limits. Running calls are not affected; waiting calls that
    /// now fit start.
    pub(crate) fn set(self: &Arc<Self>, settings: LimitSettings) {
        let mut state = self.state.lock();
        state.set(settings);
        self.grant(state);
    }

    /// Adds the execution time of a finished call.
    pub(crate) fn finished(&self, run_time: Duration) {
        let micros = u64::try_from(run_time.as_micros()).unwrap_or(u64::MAX);
        // Skipped for very short calls, to avoid touching shared memory.
        if micros > 0 {
            self.run_micros.current().1.fetch_add(micros, Ordering::Relaxed);
        }
    }

    pub(crate) fn metrics(&self) -> LimitMetrics {
        let state = self.state.lock();
        let totals = &state.totals;
        let micros: u64 = self.run_micros.all().map(|shard| shard.load(Ordering::Relaxed)).sum();
        let running = state.running + self.fast_path.under_way();
        let acquired = totals.acquired + self.fast_path.passed();
        let under_way = (running + state.bypassing) as u64;
        let finished = acquired.saturating_sub(under_way).max(1);
        let average = micros as f64 / 1e6 / finished as f64;
        LimitMetrics {
            current_concurrent: running,
            bypassing: state.bypassing,
            queue_length: state.queue.len(),
            total_acquired: acquired,
            total_rejected: totals.rejected,
            total_timeout: totals.abandoned,
            avg_execution_time: average,
            buckets: state
                .settings
                .bucket_limits
                .iter()
                .map(|(name, &limit)| {
                    let (current, queue) =
                        (state.buckets.get(name.as_str()), state.queue.waiting_in(name));
                    (name.clone(), BucketMetrics { current, limit, queue })
                })
                .collect(),
        }
    }

    /// Number of waiting calls of a tenant.
    pub(crate) fn waiting_of(&self, tenant: &TenantId) -> usize {
        self.state.lock().queue.of(tenant)
    }

    /// Grants slots to waiting calls as long as any fit.
    fn grant(self: &Arc<Self>, mut state: MutexGuard<'_, LimitState>) {
        if state.queue.len() == 0 {
            state.try_fast_path();
            return;
        }
        let granted: Vec<(Waiter, Ticket)> = std::iter::from_fn(|| state.next()).collect();
        drop(state);
        for (Waiter { demand, answer, .. }, ticket) in granted {
            let limits = Arc::clone(self);
            let _ = answer.send(Ok(GrantedSlot { limits, demand, ticket: Some(ticket) }));
        }
    }
}

impl Permit<'_> {
    /// The ticket of the slot, which the caller must return.
    pub(crate) fn into_ticket(mut self) -> Option<Ticket> {
        self.ticket.take()
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.limits.give_back(ticket, self.demand);
        }
    }
}

impl Drop for GrantedSlot {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.limits.give_back(ticket, self.demand.as_demand());
        }
    }
}

/// Guard of a queue entry; dropping it leaves the queue.
struct QueueGuard<'a> {
    limits: &'a SlotPool,
    tenant: TenantId,
    id: u64,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.limits.state.lock();
        let left = state.queue.remove(&self.tenant, self.id);
        state.totals.abandoned += u64::from(left.is_some());
    }
}

fn too_many(why: &str) -> Error {
    Error::new(ErrorKind::QueueFull, format!("all slots are taken, {why}"))
}
