//! How many calls run at once, and which of those that wait comes next.
//!
//! One short lock guards all counts. A call that finds room passes without
//! waiting and without allocating; any other waits in its tenant's queue.
//! Tenants take turns, so that one that floods the engine holds up itself:
//! when the queue is full, the newest call of the longest queue makes room.
//! Where there is plenty of room, most calls do not even need the lock.

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
    /// How long calls ran; only for the average.
    run_micros: Shards<AtomicU64>,
}

/// A slot for a call. Dropping it gives the slot back.
pub(crate) struct Permit<'a> {
    limits: &'a Arc<SlotPool>,
    demand: Demand<'a>,
    ticket: Option<Ticket>,
    /// Whether the call had to wait for it.
    pub(crate) waited: bool,
}

/// A slot for a call that waits. Where nobody takes it any more, it is given
/// back.
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

    /// A slot, at once or after waiting; an error at once where the call may
    /// not wait. Dropping the future leaves the queue.
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

    /// A slot, if there is one.
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

    /// A slot for a call that had one and gave it back while it waited. It was
    /// admitted already: it comes before those of its tenant that were not, and
    /// the size of the queue is not its concern.
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

    /// A slot for a call that had one and does not wait for another: one more
    /// than there are, if need be.
    pub(crate) fn admit_anyway(&self, demand: Demand<'_>) -> Ticket {
        self.state.lock().take_anyway(demand)
    }

    /// Takes a slot back, and hands it to whoever waits.
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

    /// The limits as they are.
    pub(crate) fn settings(&self) -> LimitSettings {
        self.state.lock().settings.clone()
    }

    /// Changes the limits. Running calls are not touched; calls that wait and
    /// now fit begin.
    pub(crate) fn set(self: &Arc<Self>, settings: LimitSettings) {
        let mut state = self.state.lock();
        state.set(settings);
        self.grant(state);
    }

    /// Counts a call that ran.
    pub(crate) fn finished(&self, run_time: Duration) {
        let micros = u64::try_from(run_time.as_micros()).unwrap_or(u64::MAX);
        // Most calls of small tools add nothing, and then touch nothing.
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

    /// How many calls of a tenant wait.
    pub(crate) fn waiting_of(&self, tenant: &TenantId) -> usize {
        self.state.lock().queue.of(tenant)
    }

    /// Hands slots to those who wait, as long as there are any that fit.
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
    /// The slot itself, which the caller has to give back from now on.
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

/// A place in the queue; dropping it leaves the queue.
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
