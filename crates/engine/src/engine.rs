//! [`Engine`] and its pipeline, on one screen.

mod approve;
mod batch;
mod begin;
mod builder;
mod deadline;
mod finish;
mod quota;
mod settings;
mod visible_tools;

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

pub use batch::Batch;
pub(crate) use batch::GrowingBatch;
pub use builder::EngineBuilder;
pub(crate) use builder::{BindKind, ImportDocument};
pub(crate) use deadline::{Deadline, StopReason};
use finish::DurableCall;
pub use settings::EngineSettings;
use visible_tools::ActivatedTools;

use crate::approval::Approvals;
use crate::call::cache::ResultCache;
use crate::call::content::Output;
use crate::call::credential::CredentialSource;
use crate::call::{Call, CallEnvironment, CallOptions, CallRequest, CallResult};
use crate::error::{Error, ErrorKind};
use crate::hook::Hook;
use crate::journal::OpenCall;
use crate::journal::event::{Event, EventBus, Subscription};
use crate::journal::record::RecordStore;
use crate::schedule::{
    LimitMetrics, LimitSettings, QuotaCounters, RunningCalls, TenantLoad, UnderWay, Upstreams,
};
use crate::shards::Shards;
use crate::stage::{self, Attempts, Checked, InjectedSecrets, Outcome};
use crate::tool::groups::Groups;
use crate::tool::library::Library;
use crate::tool::providers::Providers;
use crate::tool::registry::{FoundTool, Registry};
use crate::tool::search::Finder;
use crate::tool::{Kind, Tool};
use crate::value::name::{BatchId, CallId, TenantId};

/// Runs tool calls. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine(Arc<EngineInner>);

pub(crate) struct EngineInner {
    settings: EngineSettings,
    registry: Registry,
    providers: Providers,
    library: Library,
    groups: Groups,
    running: Arc<RunningCalls>,
    quotas: QuotaCounters,
    upstreams: Upstreams,
    cache: ResultCache,
    activated: ActivatedTools,
    finder: Finder,
    hooks: Vec<Arc<dyn Hook>>,
    credentials: Option<Arc<dyn CredentialSource>>,
    approvals: Option<Arc<dyn Approvals>>,
    /// Suspended calls that are being completed.
    resuming: Arc<Mutex<HashSet<CallId>>>,
    shared: CallEnvironment,
    shards: Shards<Arc<CallEnvironment>>,
    kinds: HashMap<Kind, BindKind>,
    importer: Option<ImportDocument>,
    /// Detached work, whose callers have gone.
    tasks: TaskTracker,
}

impl Engine {
    /// Starts building an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Runs a call. Every call ends in exactly one result and one record; a
    /// suspended call, which waits for approval, is completed later by
    /// [`Engine::resume`].
    ///
    /// If the future is dropped, read-only work stops and is recorded as
    /// cancelled. Work that has begun to change something runs to completion in
    /// the background and is recorded.
    pub fn call(&self, request: CallRequest) -> impl Future<Output = CallResult> + Send {
        self.run_opened(move || self.open(request))
    }

    fn open(&self, request: CallRequest) -> (OpenCall, CallOptions) {
        OpenCall::new(Arc::clone(self.0.shards.current().1), request)
    }

    /// Resolves a call that is open, or is opened now, and runs it to its end. One
    /// that may change something is finished even if its caller goes away.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` moves its arguments once more")]
    fn run_opened(
        &self,
        open: impl FnOnce() -> (OpenCall, CallOptions) + Send,
    ) -> impl Future<Output = CallResult> + Send {
        async move {
            let (mut open, request) = open();
            let found = match request.own_tool() {
                Some(tool) => Ok(FoundTool::from_inner(Arc::clone(tool))),
                None => self.resolve(&open),
            };
            if found.as_ref().is_ok_and(|tool| !tool.spec().behaviour.read_only) {
                return self.run_durably(request, open, found).await;
            }
            self.run_to_end(&request, &mut open, found).await
        }
    }

    fn resolve(&self, open: &OpenCall) -> Result<FoundTool, Error> {
        stage::resolve(&self.0.registry, &self.0.groups, open.caller(), open.tool_name())
    }

    fn run_durably(
        &self,
        request: CallOptions,
        mut open: OpenCall,
        found: Result<FoundTool, Error>,
    ) -> DurableCall<'_> {
        let effect = Arc::new(AtomicBool::new(false));
        open.effect = Some(Arc::clone(&effect));
        let engine = self.clone();
        let work = Box::pin(async move { engine.run_to_end(&request, &mut open, found).await });
        DurableCall::new(work, effect, &self.0.tasks)
    }

    async fn run_to_end(
        &self,
        request: &CallOptions,
        open: &mut OpenCall,
        found: Result<FoundTool, Error>,
    ) -> CallResult {
        let outcome = {
            // Pinned here, so that wrapping the future moves a pointer and not
            // the whole state machine.
            let run = pin!(self.run(request, open, found));
            match AssertUnwindSafe(run).catch_unwind().await {
                Ok(outcome) => outcome,
                Err(panic) => Err(stage::panicked(&*panic)),
            }
        };
        self.close(open, outcome).await
    }

    /// The pipeline, from the resolved tool to the call's outcome: one
    /// statement per stage. Each stage has its own fast path, and boxes its
    /// slow path so that the future stays small.
    async fn run(
        &self,
        request: &CallOptions,
        open: &mut OpenCall,
        found: Result<FoundTool, Error>,
    ) -> Result<Arc<Output>, Error> {
        let EngineInner { settings, hooks, cache, .. } = &*self.0;
        // What can be refused without waiting.
        let tool = found.inspect(|tool| open.resolved(tool))?;
        stage::check_request(request, open.context(), settings.max_depth)?;
        stage::parse(request, open.arguments())?;
        let secrets = stage::inject(&tool, open)?;
        let source = self.choose_credentials(request, &tool, &secrets)?;
        let arguments = self.validate(request, &tool, open)?;
        self.take_quota(request, open.context(), &tool)?;
        let until = self.until(request, &tool, open);
        let mut call = Call::new(tool, arguments, secrets, open, until.deadline);
        // What may wait, and can be stopped.
        self.approve(request, &call, open, &until).await?;
        stage::add_credentials(source, request, &mut call, &until).await?;
        if let Some(earlier) = self.find_cached(&call, open) {
            return Ok(earlier);
        }
        let upstream = call.upstream(&self.0.upstreams);
        let mut attempts = Attempts::new(request, &call, open, &until, &upstream, &settings.retry);
        let ran = until
            .run(
                &call.context,
                pin!(async {
                    self.catch_up(&until).await?;
                    let waited = stage::admit(&attempts).await?;
                    if let Some(answer) = self.before(&mut attempts).await? {
                        return Ok(answer);
                    }
                    if let Some(earlier) = self.begin(&mut attempts).await? {
                        return Ok(earlier);
                    }
                    attempts.enter(waited)?;
                    stage::execute(&mut attempts, hooks).await
                }),
            )
            .await;
        let answer = self.settle(&mut attempts, ran).await?;
        let most = request.own_max_output(&call, settings.max_output_bytes);
        let output = stage::convert(&call, open, answer, most, self.records()).await?;
        cache.put(&call, open, &output);
        Ok(output)
    }

    /// The credential source for the call, if it needs one.
    fn choose_credentials(
        &self,
        request: &CallOptions,
        tool: &Tool,
        secrets: &InjectedSecrets,
    ) -> Result<Option<&dyn CredentialSource>, Error> {
        stage::choose_credentials(self.0.credentials.as_deref(), request, tool, secrets)
    }

    fn validate(
        &self,
        request: &CallOptions,
        tool: &Tool,
        open: &mut OpenCall,
    ) -> Result<Checked, Error> {
        let checked = stage::validate(tool, open, self.0.settings.strict_validation);
        checked.map_err(|error| approve::unfit(request, tool, error))
    }

    fn until<'a>(
        &'a self,
        request: &'a CallOptions,
        tool: &Tool,
        open: &mut OpenCall,
    ) -> Deadline<'a> {
        Deadline::new(request, tool, open, self.default_timeout(), &self.0.running)
    }

    /// The cached result of an earlier call. Hooks may refuse or change a call,
    /// so they run before the cache is consulted.
    fn find_cached(&self, call: &Call, open: &mut OpenCall) -> Option<Arc<Output>> {
        if self.0.hooks.is_empty() { self.0.cache.find(call, open) } else { None }
    }

    /// Runs the hooks, then consults the cache.
    async fn before(&self, attempts: &mut Attempts<'_, '_>) -> Result<Option<Outcome>, Error> {
        let EngineInner { settings, hooks, cache, .. } = &*self.0;
        if hooks.is_empty() {
            return Ok(None);
        }
        let asked = stage::before(attempts.call, hooks, settings.strict_validation);
        if let Some(skipped) = Box::pin(asked).await? {
            return Ok(Some(Outcome::New(skipped)));
        }
        Ok(cache.find(attempts.call, attempts.open).map(Outcome::Earlier))
    }

    fn default_timeout(&self) -> Duration {
        self.0.settings.default_timeout
    }

    /// The registry of tools.
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
    pub fn settings(&self) -> &EngineSettings {
        &self.0.settings
    }

    /// The current limits.
    pub fn limits(&self) -> LimitSettings {
        self.0.shared.limits.settings()
    }

    /// Changes the limits while calls run.
    pub fn set_limits(&self, limits: LimitSettings) {
        self.0.shared.limits.set(limits);
    }

    /// Cancels a pending or running call; what it has done so far is not
    /// undone. Returns whether there was one.
    pub fn cancel_call(&self, tenant: &TenantId, id: CallId) -> bool {
        self.0.running.cancel_call(tenant, id)
    }

    /// Whether a call is pending or running in this engine.
    pub fn is_under_way(&self, tenant: &TenantId, id: CallId) -> bool {
        self.0.running.find(tenant, id).is_some()
    }

    /// Information about a call that is pending or running in this engine.
    pub fn under_way(&self, tenant: &TenantId, id: CallId) -> Option<UnderWay> {
        self.0.running.find(tenant, id)
    }

    /// Cancels all unfinished calls of a batch; returns how many.
    pub fn cancel_batch(&self, tenant: &TenantId, batch: BatchId) -> usize {
        self.cancel_where(tenant, |call| call.batch == Some(batch))
    }

    /// Cancels all unfinished calls of a conversation; returns how many.
    pub fn cancel_conversation(&self, tenant: &TenantId, conversation: &str) -> usize {
        self.cancel_where(tenant, |call| call.caller.conversation.as_deref() == Some(conversation))
    }

    /// Cancels the unfinished calls of a tenant that the predicate selects;
    /// returns how many.
    pub fn cancel_where(&self, tenant: &TenantId, chosen: impl Fn(&UnderWay) -> bool) -> usize {
        self.0.running.cancel_where(tenant, chosen)
    }

    /// Cancels all unfinished calls of all tenants; returns how many.
    pub fn cancel_all(&self) -> usize {
        self.0.running.cancel_everything()
    }

    /// Number of pending and running calls. Calls that finish at their first
    /// poll are not counted.
    pub fn calls_under_way(&self) -> usize {
        self.0.running.len()
    }

    /// Waits until all detached work is done and recorded. Call it before the
    /// program exits (graceful shutdown).
    pub async fn finish(&self) {
        self.0.tasks.wait().await;
    }

    /// Metrics of the concurrency limits.
    pub fn limit_metrics(&self) -> LimitMetrics {
        self.0.shared.limits.metrics()
    }

    /// Load caused by one tenant; reveals nothing about others.
    pub fn tenant_load(&self, tenant: &TenantId) -> TenantLoad {
        let queue_length = self.0.shared.limits.waiting_of(tenant);
        let current_concurrent = self.0.running.of(tenant).saturating_sub(queue_length);
        TenantLoad { current_concurrent, queue_length }
    }

    /// Subscribes to events from now on.
    pub fn events(&self) -> Subscription {
        self.0.shared.journal.bus.subscribe()
    }

    /// Subscribes to the events that a tenant may see, from now on. However many
    /// events others have, the subscriber does not fall behind by them.
    pub fn events_of(&self, tenant: &TenantId) -> Subscription {
        self.0.shared.journal.bus.subscribe_of(tenant)
    }

    /// Registers a callback for events from now on; it runs on a thread of its
    /// own.
    pub fn subscribe(&self, callback: impl FnMut(&Event) + Send + 'static) -> Result<(), Error> {
        self.0.shared.journal.bus.call_back(callback).map_err(|error| {
            Error::new(ErrorKind::Internal, "no thread for the callback").with_source(error)
        })
    }

    pub(crate) fn of(parts: Arc<EngineInner>) -> Self {
        Self(parts)
    }

    pub(crate) fn bus(&self) -> &Arc<EventBus> {
        &self.0.shared.journal.bus
    }

    pub(crate) fn importer(&self) -> Option<&ImportDocument> {
        self.0.importer.as_ref()
    }

    pub(crate) fn kinds(&self) -> &HashMap<Kind, BindKind> {
        &self.0.kinds
    }
}
