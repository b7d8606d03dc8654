//! How many calls run at once, and which of those that wait comes next.
//!
//! One short lock guards all counts. A call that finds room passes without
//! waiting and without allocating; any other waits in its tenant's queue.
//! Tenants take turns, so that one that floods the engine holds up itself:
//! when the queue is full, the newest call of the longest queue makes room.

mod queue;
mod settings;
mod shares;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::time::Instant;

use queue::{Queue, Tally, Waiter};
pub use settings::{LimitSettings, Strategy};
use shares::Shares;

use crate::context::{Caller, CallerType};
use crate::error::{Error, ErrorKind};
use crate::name::TenantId;
use crate::tool::Tool;

/// The slots of an engine.
pub(crate) struct Limits {
    state: Mutex<State>,
    /// How long calls ran; only for the average.
    run_micros: AtomicU64,
}

#[derive(Default)]
struct State {
    settings: LimitSettings,
    running: usize,
    bypassing: usize,
    buckets: Tally<Arc<str>>,
    tenants: Tally<Arc<str>>,
    /// By a hash of tenant and agent, so that looking copies no name.
    agents: Tally<u64>,
    hasher: ahash::RandomState,
    tools: Tally<Arc<str>>,
    shares: Shares,
    queue: Queue,
    waiters: u64,
    /// When the next call would come if they came evenly.
    next_due: Option<Instant>,
    totals: Totals,
}

#[derive(Default)]
struct Totals {
    acquired: u64,
    rejected: u64,
    abandoned: u64,
}

/// What a call needs a slot for.
#[derive(Clone, Copy)]
pub(crate) struct Demand<'a> {
    pub(crate) tool: &'a Arc<Tool>,
    pub(crate) caller: &'a Arc<Caller>,
}

/// The same, kept while a call waits or is counted.
pub(crate) struct OwnDemand {
    tool: Arc<Tool>,
    caller: Arc<Caller>,
}

impl OwnDemand {
    pub(crate) fn as_demand(&self) -> Demand<'_> {
        Demand { tool: &self.tool, caller: &self.caller }
    }
}

impl<'a> Demand<'a> {
    pub(crate) fn own(self) -> OwnDemand {
        OwnDemand { tool: Arc::clone(self.tool), caller: Arc::clone(self.caller) }
    }

    fn tenant(self) -> &'a TenantId {
        &self.caller.tenant
    }

    /// The agent whose calls are counted together, with its tenant.
    fn agent(self) -> Option<(&'a TenantId, &'a Arc<str>)> {
        match (self.caller.caller_type, &self.caller.caller_id) {
            (CallerType::ConversationAgent, Some(agent)) => Some((self.tenant(), agent)),
            _ => None,
        }
    }

    /// Calls of workflow nodes take no slot (S0.16); their workflow has one.
    fn bypasses(self) -> bool {
        self.caller.caller_type == CallerType::WorkflowNode
    }
}

/// What a running call was counted for. Only what has a limit is counted, and
/// limits may change while it runs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Counted {
    bypass: bool,
    /// For its tenant's share, and not for the only tenant's.
    share: bool,
    bucket: bool,
    tenant: bool,
    agent: bool,
    tool: bool,
}

/// A slot. Dropping it gives the slot back.
pub(crate) struct Permit {
    limits: Arc<Limits>,
    /// None for a call that was counted as running and for nothing else.
    counted: Option<(OwnDemand, Counted)>,
    /// Whether the call had to wait for it.
    pub(crate) waited: bool,
}

impl Limits {
    pub(crate) fn new(settings: LimitSettings) -> Arc<Self> {
        let state = Mutex::new(State { settings, ..State::default() });
        Arc::new(Self { state, run_micros: AtomicU64::new(0) })
    }

    /// A slot, at once or after waiting; an error at once where the call may
    /// not wait. Dropping the future leaves the queue.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        demand: Demand<'_>,
        priority: i32,
    ) -> Result<Permit, Error> {
        match self.admit_now(demand)? {
            Some(permit) => Ok(permit),
            None => self.wait(demand, priority).await,
        }
    }

    /// A slot, if there is one.
    fn admit_now(self: &Arc<Self>, demand: Demand<'_>) -> Result<Option<Permit>, Error> {
        let mut state = self.state.lock();
        state.keep_rate()?;
        if !demand.bypasses() && !state.fits(demand) {
            return Ok(None);
        }
        let counted = state.take(demand);
        drop(state);
        Ok(Some(self.permit(demand, counted, false)))
    }

    async fn wait(self: &Arc<Self>, demand: Demand<'_>, priority: i32) -> Result<Permit, Error> {
        let (id, tenant, answer) = {
            let mut state = self.state.lock();
            if state.fits(demand) {
                let counted = state.take(demand);
                drop(state);
                return Ok(self.permit(demand, counted, true));
            }
            let tenant = demand.tenant().clone();
            let (id, answer, evicted) = state.enqueue(demand.own(), priority)?;
            drop(state);
            if let Some(evicted) = evicted {
                let _ = evicted.answer.send(Err(too_many("others are waiting, too")));
            }
            (id, tenant, answer)
        };
        let _place = Place { limits: self, tenant, id };
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(Error::new(ErrorKind::Internal, "the engine's queue is gone")),
        }
    }

    /// A slot for a call that had one and gave it back while it waited. It was
    /// admitted already: it comes before those of its tenant that were not, and
    /// the size of the queue is not its concern.
    pub(crate) async fn admit_again(self: &Arc<Self>, demand: Demand<'_>) -> Permit {
        loop {
            let (id, answer) = {
                let mut state = self.state.lock();
                if demand.bypasses() || state.fits(demand) {
                    let counted = state.take_again(demand);
                    drop(state);
                    return self.permit(demand, counted, true);
                }
                state.come_back(demand.own())
            };
            let _place = Place { limits: self, tenant: demand.tenant().clone(), id };
            if let Ok(Ok(permit)) = answer.await {
                return permit;
            }
        }
    }

    /// A slot for a call that had one and does not wait for another: one more
    /// than there are, if need be.
    pub(crate) fn admit_anyway(self: &Arc<Self>, demand: Demand<'_>) -> Permit {
        let counted = self.state.lock().take_again(demand);
        self.permit(demand, counted, false)
    }

    fn permit(self: &Arc<Self>, demand: Demand<'_>, counted: Counted, waited: bool) -> Permit {
        let counted = (counted != Counted::default()).then(|| (demand.own(), counted));
        Permit { limits: Arc::clone(self), counted, waited }
    }

    /// The limits as they are.
    pub(crate) fn settings(&self) -> LimitSettings {
        self.state.lock().settings.clone()
    }

    /// Changes the limits. Running calls are not touched; calls that wait and
    /// now fit begin.
    pub(crate) fn set(self: &Arc<Self>, settings: LimitSettings) {
        let mut state = self.state.lock();
        state.settings = settings;
        self.grant(state);
    }

    /// Counts a call that ran.
    pub(crate) fn finished(&self, run_time: Duration) {
        let micros = u64::try_from(run_time.as_micros()).unwrap_or(u64::MAX);
        // Most calls of small tools add nothing, and then touch nothing.
        if micros > 0 {
            self.run_micros.fetch_add(micros, Ordering::Relaxed);
        }
    }

    pub(crate) fn metrics(&self) -> LimitMetrics {
        let state = self.state.lock();
        let totals = &state.totals;
        let micros = self.run_micros.load(Ordering::Relaxed) as f64;
        let under_way = (state.running + state.bypassing) as u64;
        let finished = totals.acquired.saturating_sub(under_way).max(1);
        let average = micros / 1e6 / finished as f64;
        LimitMetrics {
            current_concurrent: state.running,
            bypassing: state.bypassing,
            queue_length: state.queue.len(),
            total_acquired: totals.acquired,
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

    /// Hands slots to those who wait, as long as there are any that fit.
    fn grant(self: &Arc<Self>, mut state: parking_lot::MutexGuard<'_, State>) {
        if state.queue.len() == 0 {
            return;
        }
        let granted: Vec<(Waiter, Counted)> = std::iter::from_fn(|| state.next()).collect();
        drop(state);
        for (Waiter { demand, answer, .. }, counted) in granted {
            let permit = self.permit(demand.as_demand(), counted, true);
            // A permit that nobody takes any more comes back as it is dropped.
            let _ = answer.send(Ok(permit));
        }
    }
}

impl State {
    /// Refuses a call that comes too soon after the others.
    fn keep_rate(&mut self) -> Result<(), Error> {
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
        let settings = &self.settings;
        let within = |limit: Option<usize>, running: &dyn Fn() -> usize| {
            limit.is_none_or(|limit| running() < limit)
        };
        let category = demand.tool.spec().category.as_str();
        self.leaves_room(demand.tenant())
            && within(settings.bucket_limits.get(category).copied(), &|| self.buckets.get(category))
            && within(settings.per_tenant, &|| self.tenants.get(demand.tenant().as_str()))
            && within(settings.per_agent, &|| {
                demand.agent().map_or(0, |agent| self.agents.get(&self.hasher.hash_one(agent)))
            })
            && within(demand.tool.spec().max_concurrent, &|| {
                self.tools.get(demand.tool.name().as_str())
            })
    }

    /// Whether there is a slot for a tenant. The last ones are for those that
    /// have less than their share: otherwise one that floods the engine would
    /// hold them all whenever another comes.
    fn leaves_room(&self, tenant: &TenantId) -> bool {
        let max = self.settings.max_concurrent.max(1);
        let free = max.saturating_sub(self.running);
        free > self.settings.reserved(max)
            || free > 0 && self.shares.of(tenant) <= max / self.shares.tenants_with(tenant)
    }

    /// Counts a call as running.
    fn take(&mut self, demand: Demand<'_>) -> Counted {
        self.totals.acquired += 1;
        self.take_again(demand)
    }

    fn take_again(&mut self, demand: Demand<'_>) -> Counted {
        if demand.bypasses() {
            self.bypassing += 1;
            return Counted { bypass: true, ..Counted::default() };
        }
        self.running += 1;
        let share = self.shares.add(demand.tenant());
        let (settings, spec) = (&self.settings, demand.tool.spec());
        let counted = Counted {
            bypass: false,
            share,
            bucket: settings.bucket_limits.contains_key(spec.category.as_str()),
            tenant: settings.per_tenant.is_some(),
            agent: settings.per_agent.is_some(),
            tool: spec.max_concurrent.is_some(),
        };
        if counted.bucket {
            self.buckets.add(spec.category.shared());
        }
        if counted.tenant {
            self.tenants.add(demand.tenant().shared());
        }
        if counted.agent
            && let Some(agent) = demand.agent()
        {
            self.agents.add(self.hasher.hash_one(agent));
        }
        if counted.tool {
            self.tools.add(demand.tool.name().shared());
        }
        counted
    }

    fn give_back(&mut self, counted: Option<&(OwnDemand, Counted)>) {
        let Some((demand, counted)) = counted else {
            self.running -= 1;
            self.shares.remove_of_first();
            return;
        };
        let demand = demand.as_demand();
        if counted.bypass {
            self.bypassing -= 1;
            return;
        }
        self.running -= 1;
        match counted.share {
            true => self.shares.remove(demand.tenant()),
            false => self.shares.remove_of_first(),
        }
        if counted.bucket {
            self.buckets.remove(demand.tool.spec().category.as_str());
        }
        if counted.tenant {
            self.tenants.remove(demand.tenant().as_str());
        }
        if counted.agent
            && let Some(agent) = demand.agent()
        {
            self.agents.remove(&self.hasher.hash_one(agent));
        }
        if counted.tool {
            self.tools.remove(demand.tool.name().as_str());
        }
    }

    #[expect(clippy::type_complexity, reason = "a place in the queue and who lost theirs")]
    fn enqueue(
        &mut self,
        demand: OwnDemand,
        priority: i32,
    ) -> Result<(u64, oneshot::Receiver<Result<Permit, Error>>, Option<Waiter>), Error> {
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

    fn come_back(&mut self, demand: OwnDemand) -> (u64, oneshot::Receiver<Result<Permit, Error>>) {
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
    ) -> (Waiter, oneshot::Receiver<Result<Permit, Error>>) {
        let (answer, receiver) = oneshot::channel();
        let id = self.waiters;
        self.waiters += 1;
        (Waiter { id, demand, priority, returning, since: Instant::now(), answer }, receiver)
    }

    /// The next call that waits and fits, counted as running.
    fn next(&mut self) -> Option<(Waiter, Counted)> {
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
            let demand = waiter.demand.as_demand();
            let counted =
                if waiter.returning { self.take_again(demand) } else { self.take(demand) };
            (waiter, counted)
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.limits.state.lock();
        state.give_back(self.counted.as_ref());
        self.limits.grant(state);
    }
}

/// A place in the queue; dropping it leaves the queue.
struct Place<'a> {
    limits: &'a Limits,
    tenant: TenantId,
    id: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.limits.state.lock();
        let left = state.queue.remove(&self.tenant, self.id);
        state.totals.abandoned += u64::from(left.is_some());
    }
}

fn too_many(why: &str) -> Error {
    Error::new(ErrorKind::QueueFull, format!("all slots are taken, {why}"))
}

/// How full an engine is (S0.17).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitMetrics {
    /// Calls that have a slot.
    pub current_concurrent: usize,
    /// Calls of workflow nodes, which take none.
    pub bypassing: usize,
    /// Calls that wait.
    pub queue_length: usize,
    /// Calls that got a slot so far.
    pub total_acquired: u64,
    /// Calls that were refused so far.
    pub total_rejected: u64,
    /// Calls that gave up waiting so far, mostly at their deadline.
    pub total_timeout: u64,
    /// How long a call ran on average, in seconds.
    pub avg_execution_time: f64,
    /// The categories that have a limit of their own.
    pub buckets: BTreeMap<String, BucketMetrics>,
}

/// How full a category is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BucketMetrics {
    /// Calls that run.
    pub current: usize,
    /// How many may run.
    pub limit: usize,
    /// Calls that wait.
    pub queue: usize,
}
