//! [`Engine`]: the whole pipeline on one screen.

mod batch;
mod builder;
mod settings;
mod until;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

pub(crate) use builder::Bind;
pub use builder::EngineBuilder;
pub use settings::Settings;
use until::Until;

use crate::call::{Call, CallRequest, CallResult, Shared};
use crate::content::Output;
use crate::error::{Error, ErrorKind};
use crate::event::{Event, EventBus, Subscription};
use crate::groups::{Groups, Session};
use crate::hook::Hook;
use crate::journal::{Journal, OpenCall};
use crate::record::RecordStore;
use crate::registry::Registry;
use crate::schedule::{Demand, LimitMetrics, LimitSettings, Limits};
use crate::stage;
use crate::tool::{Exposure, Kind, Tool};

/// Runs tool calls. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine(Arc<Parts>);

struct Parts {
    settings: Settings,
    registry: Registry,
    groups: Groups,
    limits: Arc<Limits>,
    journal: Journal,
    hooks: Vec<Arc<dyn Hook>>,
    shared: Arc<Shared>,
    kinds: HashMap<Kind, Bind>,
}

impl Engine {
    /// Begins an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Runs a call. It always ends in exactly one result and one record; a
    /// future that is dropped stops the work and is recorded as cancelled.
    pub async fn call(&self, mut request: CallRequest) -> CallResult {
        let mut open = self.0.journal.open(&mut request);
        self.run_open(&request, &mut open).await
    }

    async fn run_open(&self, request: &CallRequest, open: &mut OpenCall<'_>) -> CallResult {
        let outcome = {
            // Pinned here, so that wrapping a future moves a pointer and not
            // all that the call will ever need.
            let run = pin!(self.run(request, open));
            match AssertUnwindSafe(run).catch_unwind().await {
                Ok(outcome) => outcome,
                Err(panic) => Err(stage::panicked(&*panic)),
            }
        };
        let result = open.close(outcome.map(Arc::new));
        if !result.run_time.is_zero() {
            self.0.limits.finished(result.run_time);
        }
        result
    }

    async fn run(&self, request: &CallRequest, open: &mut OpenCall<'_>) -> Result<Output, Error> {
        let parts = &*self.0;
        let strict = parts.settings.strict_validation;
        self.store_keeps_up(request).await?;
        let tool = stage::resolve(&parts.registry, &parts.groups, request)?;
        open.resolved(&tool);
        stage::parse(open.arguments())?;
        let secrets = stage::inject(&tool, &request.context, open.arguments())?;
        stage::validate(&tool, open.arguments(), strict)?;
        let timeout = request.timeout.or(tool.spec().timeout).unwrap_or(self.default_timeout());
        let deadline = open.began + timeout;
        let mut call = Call {
            id: open.id,
            call_ref: request.call_ref.clone(),
            tool,
            arguments: open.share_arguments(),
            secrets,
            context: Arc::clone(&request.context),
            shared: Arc::clone(&parts.shared),
            deadline: deadline.into_std(),
        };
        let until = Until { deadline, timeout, cancel: request.cancel.as_ref() };
        let ran = {
            let work = pin!(async {
                let demand = Demand { tool: &call.tool, caller: &request.context.caller };
                let permit = parts.limits.admit(demand, request.priority).await?;
                until.check(&call.tool, permit.waited)?;
                open.started(permit.waited);
                let output = stage::execute(&mut call, &parts.hooks, strict).await?;
                let max_bytes = parts.settings.max_output_bytes;
                stage::convert(&call, output, max_bytes, &*parts.journal.store).await
            });
            until.run(work).await
        };
        let stopped = match ran {
            Ok(outcome) if parts.hooks.is_empty() => return outcome,
            Ok(outcome) => {
                open.rewritten(&call.arguments);
                return outcome;
            }
            Err(stop) => stop.error(&call.tool, timeout),
        };
        stage::tell_stopped(&call, &parts.hooks, stopped).await
    }

    /// Waits while the store is so far behind that taking more calls would
    /// have no bound, but no longer than the call may take.
    async fn store_keeps_up(&self, request: &CallRequest) -> Result<(), Error> {
        let store = &*self.0.journal.store;
        if store.keeps_up() {
            return Ok(());
        }
        let timeout = request.timeout.unwrap_or(self.default_timeout());
        tokio::time::timeout(timeout, store.caught_up()).await.map_err(|_| {
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

    /// The groups of tools.
    pub fn groups(&self) -> &Groups {
        &self.0.groups
    }

    /// The records.
    pub fn records(&self) -> &dyn RecordStore {
        &*self.0.journal.store
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The limits as they are now.
    pub fn limits(&self) -> LimitSettings {
        self.0.limits.settings()
    }

    /// Changes the limits while calls run.
    pub fn set_limits(&self, limits: LimitSettings) {
        self.0.limits.set(limits);
    }

    /// How full the engine is.
    pub fn limit_metrics(&self) -> LimitMetrics {
        self.0.limits.metrics()
    }

    /// The tools that a model sees in a session: those of active groups that
    /// are exposed directly, by name.
    pub fn active_tools(&self, session: Option<&Session>) -> Vec<Arc<Tool>> {
        let mut tools = self.0.registry.list();
        tools.retain(|tool| {
            let spec = tool.spec();
            let active =
                spec.group.as_ref().is_none_or(|group| self.0.groups.is_active(group, session));
            active && spec.exposure == Exposure::Direct
        });
        tools
    }

    /// Events from now on.
    pub fn events(&self) -> Subscription {
        self.0.journal.bus.subscribe()
    }

    /// Calls back for every event from now on, on a thread of its own.
    pub fn subscribe(&self, callback: impl FnMut(&Event) + Send + 'static) -> Result<(), Error> {
        self.0.journal.bus.call_back(callback).map_err(|error| {
            Error::new(ErrorKind::Internal, "no thread for the callback").with_source(error)
        })
    }

    pub(crate) fn bus(&self) -> &Arc<EventBus> {
        &self.0.journal.bus
    }

    pub(crate) fn kinds(&self) -> &HashMap<Kind, Bind> {
        &self.0.kinds
    }
}
