//! [`Engine`]: the whole pipeline on one screen.

mod approve;
mod batch;
mod begin;
mod builder;
mod finish;
mod settings;
mod shown;
mod until;

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

pub use batch::Batch;
pub(crate) use batch::GrowingBatch;
pub use builder::EngineBuilder;
pub(crate) use builder::{Bind, Importer};
use finish::Finishing;
pub use settings::Settings;
use shown::Activated;
use until::Stop;
pub(crate) use until::Until;

use crate::approval::Approvals;
use crate::call::cache::Cache;
use crate::call::content::Output;
use crate::call::context::Context;
use crate::call::credential::{self, CredentialSource};
use crate::call::{Arguments, Call, CallRequest, CallResult, Seldom, Shared};
use crate::error::{Error, ErrorKind};
use crate::hook::Hook;
use crate::journal::OpenCall;
use crate::journal::event::{Event, EventBus, Subscription};
use crate::journal::record::{IdempotencyKey, RecordStore};
use crate::lane::Lanes;
use crate::schedule::{
    Attempt, LimitMetrics, LimitSettings, QuotaScope, QuotaUse, Quotas, RetryPolicy, Running,
    TenantLoad, TicketCell, UnderWay, Upstreams,
};
use crate::stage::{self, Attempts};
use crate::tool::groups::Groups;
use crate::tool::library::Library;
use crate::tool::providers::Providers;
use crate::tool::registry::{Found, Registry};
use crate::tool::search::Finder;
use crate::tool::{Kind, Tool};
use crate::value::name::{BatchId, CallId, TenantId};

/// Runs tool calls. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine(Arc<Parts>);

pub(crate) struct Parts {
    settings: Settings,
    registry: Registry,
    providers: Providers,
    library: Library,
    groups: Groups,
    running: Arc<Running>,
    /// None where no calls are limited.
    quotas: Option<Quotas>,
    upstreams: Upstreams,
    cache: Cache,
    activated: Activated,
    finder: Finder,
    hooks: Vec<Arc<dyn Hook>>,
    credentials: Option<Arc<dyn CredentialSource>>,
    approvals: Option<Arc<dyn Approvals>>,
    /// Calls that waited for a person and are about to end.
    resuming: Arc<Mutex<HashSet<CallId>>>,
    shared: Shared,
    lanes: Lanes<Arc<Shared>>,
    kinds: HashMap<Kind, Bind>,
    importer: Option<Importer>,
    /// Work whose callers have gone.
    tasks: TaskTracker,
}

/// Whether a call may change something.
fn may_change(tool: &Result<Found, Error>) -> bool {
    tool.as_ref().is_ok_and(|tool| !tool.spec().behaviour.read_only)
}

/// What a call has come to.
enum Answer {
    /// A result of its own.
    New(Output),
    /// That of an earlier call.
    Earlier(Arc<Output>),
}

impl Engine {
    /// Begins an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Runs a call. It always ends in exactly one result and one record; a call
    /// that waits for a person ends later, see [`Engine::resume`].
    ///
    /// If the future is dropped, work that changes nothing stops and is
    /// recorded as cancelled; work that has begun to change something is
    /// finished and recorded by the engine.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` moves its arguments once more")]
    pub fn call(&self, mut request: CallRequest) -> impl Future<Output = CallResult> + Send {
        async move {
            let mut open = self.open(&mut request);
            let tool = self.resolve(&request);
            if may_change(&tool) {
                return self.run_durably(request, open, tool).await;
            }
            self.run_to_end(&request, &mut open, tool).await
        }
    }

    fn open(&self, request: &mut CallRequest) -> OpenCall {
        OpenCall::new(Arc::clone(self.0.lanes.mine().1), request)
    }

    fn resolve(&self, request: &CallRequest) -> Result<Found, Error> {
        stage::resolve(&self.0.registry, &self.0.groups, request)
    }

    fn run_durably(
        &self,
        request: CallRequest,
        mut open: OpenCall,
        tool: Result<Found, Error>,
    ) -> Finishing {
        let effect = Arc::new(AtomicBool::new(false));
        open.effect = Some(Arc::clone(&effect));
        let engine = self.clone();
        let work = async move { engine.run_to_end(&request, &mut open, tool).await };
        Finishing::new(work, effect, &self.0.tasks)
    }

    async fn run_to_end(
        &self,
        request: &CallRequest,
        open: &mut OpenCall,
        tool: Result<Found, Error>,
    ) -> CallResult {
        let outcome = {
            // Pinned here, so that wrapping a future moves a pointer and not
            // all that the call will ever need.
            let run = pin!(self.run(request, open, tool));
            match AssertUnwindSafe(run).catch_unwind().await {
                Ok(outcome) => outcome,
                Err(panic) => Err(stage::panicked(&*panic)),
            }
        };
        if open.is_closed() {
            return open.answer(outcome, Duration::ZERO);
        }
        let result = match open.intended {
            true => Box::pin(open.close_durably(outcome)).await,
            false => open.close(outcome),
        };
        if !result.run_time.is_zero() {
            self.0.shared.limits.finished(result.run_time);
        }
        result
    }

    async fn run(
        &self,
        request: &CallRequest,
        open: &mut OpenCall,
        tool: Result<Found, Error>,
    ) -> Result<Arc<Output>, Error> {
        let parts = &*self.0;
        let strict = parts.settings.strict_validation;
        let caller = &request.context.caller;
        let tool = tool?;
        open.resolved(&tool);
        self.check_depth(&request.context)?;
        request.key().map_or(Ok(()), |key| IdempotencyKey::check(key))?;
        stage::parse(open.arguments())?;
        let secrets = stage::inject(&tool, &request.context, open.arguments())?;
        let source = self.credentials_for(&tool);
        if source.is_none() {
            credential::no_source(tool.spec(), request)?;
            let has = |name: &str| secrets.iter().any(|(own, _)| own == name);
            stage::require_secrets(&tool, request.chosen_credential(), has)?;
        }
        stage::validate(&tool, open.arguments(), strict).map_err(|error| {
            match request.approved() {
                Some(_) => approve::changed(&request.tool, error.message()),
                None => error,
            }
        })?;
        if let Some(quotas) = &parts.quotas
            && request.approved().is_none()
        {
            quotas.take(caller, request.context.begun_by.as_ref(), tool.name().as_str())?;
        }
        let timeout = request.timeout.or(tool.spec().timeout).unwrap_or(self.default_timeout());
        let until = Until::new(timeout, request, open, &parts.running);
        let mut call = Call {
            id: open.id,
            call_ref: request.call_ref.clone(),
            tool,
            arguments: Arguments::new(open.share_arguments()),
            secrets,
            context: Arc::clone(&request.context),
            shared: Arc::clone(open.shared()),
            deadline: until.deadline.into_std(),
            ticket: TicketCell::default(),
            seldom: Seldom::default(),
        };
        if let Some(decision) = self.decision(request, &call) {
            Box::pin(self.get_leave(decision, request, open, &call, &until)).await?;
        }
        if let Some(source) = source {
            Box::pin(credential::add_secrets(source, &mut call, request, &until)).await?;
        }
        let tool = &call.tool;
        // A hook may refuse a call or change it, so where there are any, they
        // come first.
        if parts.hooks.is_empty()
            && let Some(earlier) = parts.cache.find(&call, open)
        {
            return Ok(earlier);
        }
        let side = tool.upstream(&parts.upstreams, call.arguments.now(), &call.context);
        let upstream = &*side;
        let policy = RetryPolicy::of(
            request.own_retry(),
            request.own_attempts(),
            tool.spec(),
            &parts.settings.retry,
        );
        let mut attempt = None;
        let ran = {
            let work = pin!(async {
                if !parts.shared.journal.store.keeps_up() {
                    Box::pin(self.store_catches_up(until.deadline)).await?;
                }
                if request.key().is_none() {
                    upstream.look(&caller.tenant)?;
                }
                let permit = call.shared.limits.admit(call.demand(), request.priority).await?;
                let waited = permit.waited;
                call.hold(permit);
                until.check(tool)?;
                if !parts.hooks.is_empty() {
                    let before = Box::pin(stage::before(&call, &parts.hooks, strict));
                    if let Some(skipped) = before.await? {
                        return Ok(Answer::New(skipped));
                    }
                    if let Some(earlier) = parts.cache.find(&call, open) {
                        return Ok(Answer::Earlier(earlier));
                    }
                }
                if self.must_begin(request, tool)
                    && let Some(earlier) = Box::pin(self.begin(request, &call, open)).await?
                {
                    return Ok(Answer::Earlier(earlier));
                }
                attempt = Some(upstream.enter(&caller.tenant)?);
                until.check(tool)?;
                if parts.shared.journal.bus.is_heard() {
                    until.list();
                }
                open.started(waited);
                upstream.first_attempt();
                let attempts = Attempts {
                    open,
                    policy: &policy,
                    upstream,
                    current: &mut attempt,
                    until: &until,
                };
                stage::execute(&call, &parts.hooks, attempts).await.map(Answer::New)
            });
            until.run(work).await
        };
        call.leave_slot();
        if let Some(bill) = call.seldom.bill() {
            open.used(bill);
            if let Some(quotas) = &parts.quotas {
                let (key, cost) = (request.context.begun_by.as_ref(), bill.own.cost_usd);
                quotas.spend(caller, key, tool.name().as_str(), cost);
            }
        }
        if !parts.hooks.is_empty() {
            open.rewritten(call.arguments.now());
        }
        let output = match ran {
            Ok(answer) => match answer? {
                Answer::Earlier(output) => return Ok(output),
                Answer::New(output) => output,
            },
            Err(stop) => {
                match stop {
                    Stop::Deadline => attempt.into_iter().for_each(Attempt::timed_out),
                    Stop::Cancelled => call.cancel_family(),
                }
                let stopped = until.error(stop, tool);
                Box::pin(stage::tell_stopped(&call, &parts.hooks, stopped)).await?
            }
        };
        let max_bytes = parts.settings.max_output_bytes;
        let output = stage::convert(&call, output, max_bytes, &*parts.shared.journal.store).await?;
        let output = Arc::new(output);
        if open.attempts() > 0 {
            parts.cache.put(&call, &output);
        }
        Ok(output)
    }

    /// Who is asked for the credentials of a tool, if anybody is.
    fn credentials_for(&self, tool: &Tool) -> Option<&dyn CredentialSource> {
        let source = self.0.credentials.as_deref()?;
        tool.spec().provider.is_some().then_some(source)
    }

    /// Refuses a call that is nested too deeply.
    fn check_depth(&self, context: &Context) -> Result<(), Error> {
        let max = self.0.settings.max_depth;
        if context.depth <= max {
            return Ok(());
        }
        let why = format!("tools called tools {} times, {max} are allowed", context.depth);
        Err(Error::new(ErrorKind::DepthExceeded, why))
    }

    /// Waits while the store is so far behind that taking more calls would
    /// have no bound, but no longer than the call may take.
    async fn store_catches_up(&self, deadline: Instant) -> Result<(), Error> {
        let store = &*self.0.shared.journal.store;
        tokio::time::timeout_at(deadline, store.caught_up()).await.map_err(|_| {
            let why = "calls are not started while their records cannot be written";
            Error::new(ErrorKind::StorageUnavailable, why)
        })
    }

    fn default_timeout(&self) -> Duration {
        self.0.settings.default_timeout
    }

    /// The tools.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// The providers of tools.
    pub fn providers(&self) -> &Providers {
        &self.0.providers
    }

    /// Prompts and resources.
    pub fn library(&self) -> &Library {
        &self.0.library
    }

    /// The groups of tools.
    pub fn groups(&self) -> &Groups {
        &self.0.groups
    }

    /// The records.
    pub fn records(&self) -> &dyn RecordStore {
        &*self.0.shared.journal.store
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The limits as they are now.
    pub fn limits(&self) -> LimitSettings {
        self.0.shared.limits.settings()
    }

    /// Changes the limits while calls run.
    pub fn set_limits(&self, limits: LimitSettings) {
        self.0.shared.limits.set(limits);
    }

    /// What has been used of a tenant's call quota; nothing where none is set.
    pub fn quota_use(&self, tenant: &TenantId, scope: QuotaScope<'_>) -> QuotaUse {
        let quotas = self.0.quotas.as_ref();
        quotas.map(|quotas| quotas.used(tenant, scope)).unwrap_or_default()
    }

    /// What tenants, and their keys, have used here today: for programs that keep
    /// it, or share it with others.
    pub fn quota_uses(&self) -> Vec<(TenantId, Option<Arc<str>>, QuotaUse)> {
        self.0.quotas.as_ref().map(Quotas::of_today).unwrap_or_default()
    }

    /// What tenants, and their keys, have used elsewhere today. It counts, in place
    /// of what was said before.
    pub fn set_quota_uses(&self, elsewhere: &[(TenantId, Option<Arc<str>>, QuotaUse)]) {
        if let Some(quotas) = &self.0.quotas {
            quotas.set_elsewhere(elsewhere);
        }
    }

    /// Cancels a call that has not ended. What it did until then stays done.
    /// Returns whether there was one.
    pub fn cancel_call(&self, tenant: &TenantId, id: CallId) -> bool {
        self.0.running.cancel_call(tenant, id)
    }

    /// Whether a call waits or runs here.
    pub fn is_under_way(&self, tenant: &TenantId, id: CallId) -> bool {
        self.0.running.find(tenant, id).is_some()
    }

    /// What is known of a call that waits or runs here.
    pub fn under_way(&self, tenant: &TenantId, id: CallId) -> Option<UnderWay> {
        self.0.running.find(tenant, id)
    }

    /// Cancels all calls of a batch that have not ended; returns how many.
    pub fn cancel_batch(&self, tenant: &TenantId, batch: BatchId) -> usize {
        self.cancel_where(tenant, |call| call.batch == Some(batch))
    }

    /// Cancels all calls of a conversation that have not ended; returns how
    /// many.
    pub fn cancel_conversation(&self, tenant: &TenantId, conversation: &str) -> usize {
        self.cancel_where(tenant, |call| call.caller.conversation.as_deref() == Some(conversation))
    }

    /// Cancels those of a tenant's calls that are chosen and have not ended;
    /// returns how many.
    pub fn cancel_where(&self, tenant: &TenantId, chosen: impl Fn(&UnderWay) -> bool) -> usize {
        self.0.running.cancel_where(tenant, chosen)
    }

    /// Cancels all calls that have not ended, of all tenants. Returns how many.
    pub fn cancel_all(&self) -> usize {
        self.0.running.cancel_everything()
    }

    /// How many calls wait or run, but for those that end at once.
    pub fn calls_under_way(&self) -> usize {
        self.0.running.len()
    }

    /// Ends when the work whose callers have gone is done and recorded. A
    /// program calls it before it ends.
    pub async fn finish(&self) {
        self.0.tasks.wait().await;
    }

    /// How full the engine is.
    pub fn limit_metrics(&self) -> LimitMetrics {
        self.0.shared.limits.metrics()
    }

    /// How much a tenant has the engine do now. It tells nothing of others.
    pub fn tenant_load(&self, tenant: &TenantId) -> TenantLoad {
        let queue_length = self.0.shared.limits.waiting_of(tenant);
        let current_concurrent = self.0.running.of(tenant).saturating_sub(queue_length);
        TenantLoad { current_concurrent, queue_length }
    }

    /// Events from now on.
    pub fn events(&self) -> Subscription {
        self.0.shared.journal.bus.subscribe()
    }

    /// Calls back for every event from now on, on a thread of its own.
    pub fn subscribe(&self, callback: impl FnMut(&Event) + Send + 'static) -> Result<(), Error> {
        self.0.shared.journal.bus.call_back(callback).map_err(|error| {
            Error::new(ErrorKind::Internal, "no thread for the callback").with_source(error)
        })
    }

    pub(crate) fn of(parts: Arc<Parts>) -> Self {
        Self(parts)
    }

    pub(crate) fn bus(&self) -> &Arc<EventBus> {
        &self.0.shared.journal.bus
    }

    pub(crate) fn importer(&self) -> Option<&Importer> {
        self.0.importer.as_ref()
    }

    pub(crate) fn kinds(&self) -> &HashMap<Kind, Bind> {
        &self.0.kinds
    }
}
