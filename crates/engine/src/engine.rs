//! [`Engine`]: the whole pipeline on one screen.

mod builder;
mod settings;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use builder::Bind;
pub use builder::EngineBuilder;
pub use settings::Settings;

use crate::call::{Call, CallRequest, CallResult};
use crate::content::Output;
use crate::context::Objects;
use crate::error::{Error, ErrorKind};
use crate::event::{Event, EventBus, Subscription};
use crate::groups::{Groups, Session};
use crate::hook::Hook;
use crate::journal::{Journal, OpenCall};
use crate::record::RecordStore;
use crate::registry::Registry;
use crate::schedule::Limits;
use crate::stage;
use crate::tool::{Exposure, Kind, Tool};

/// Runs tool calls. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine(Arc<Parts>);

struct Parts {
    settings: Settings,
    registry: Registry,
    groups: Groups,
    limits: Limits,
    journal: Journal,
    hooks: Vec<Arc<dyn Hook>>,
    objects: Arc<Objects>,
    bus: Arc<EventBus>,
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
        self.0.journal.ready().await;
        let mut open = self.0.journal.open(&mut request);
        let outcome = self.run(&request, &mut open).await;
        open.close(outcome.map(Arc::new))
    }

    async fn run(&self, request: &CallRequest, open: &mut OpenCall<'_>) -> Result<Output, Error> {
        let parts = &*self.0;
        let strict = parts.settings.strict_validation;
        let tool = stage::resolve(&parts.registry, &parts.groups, request)?;
        open.resolved(&tool);
        stage::parse(open.arguments())?;
        let secrets = stage::inject(&tool, &request.context, open.arguments())?;
        stage::validate(&tool, open.arguments(), strict)?;
        let timeout = self.timeout(request, &tool);
        let deadline = open.began + timeout;
        let mut call = Call {
            id: open.id,
            call_ref: request.call_ref.clone(),
            tool,
            arguments: open.share_arguments(),
            secrets,
            context: Arc::clone(&request.context),
            toolkit: Arc::clone(&parts.objects),
            deadline: deadline.into_std(),
            bus: Arc::clone(&parts.bus),
        };
        let work = async {
            let permit = parts.limits.admit().await?;
            open.started(permit.waited);
            stage::execute(&mut call, &parts.hooks, strict).await
        };
        let ran = within(deadline, request.cancel.as_ref(), work).await;
        if !parts.hooks.is_empty() {
            open.rewritten(&call.arguments);
        }
        let output = ran.unwrap_or_else(|| Err(timed_out(&call.tool, timeout)))?;
        stage::convert(&call, output, parts.settings.max_output_bytes, &*parts.journal.store).await
    }

    /// Call, then tool, then engine.
    fn timeout(&self, request: &CallRequest, tool: &Tool) -> Duration {
        request.timeout.or(tool.spec().timeout).unwrap_or(self.0.settings.default_timeout)
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
        self.0.bus.subscribe()
    }

    /// Calls back for every event from now on, on a thread of its own.
    pub fn subscribe(&self, callback: impl FnMut(&Event) + Send + 'static) -> Result<(), Error> {
        self.0.bus.call_back(callback).map_err(|error| {
            Error::new(ErrorKind::Internal, "no thread for the callback").with_source(error)
        })
    }

    pub(crate) fn bus(&self) -> &Arc<EventBus> {
        &self.0.bus
    }

    pub(crate) fn kinds(&self) -> &HashMap<Kind, Bind> {
        &self.0.kinds
    }
}

/// Runs work until its deadline or until it is cancelled. Work that is done
/// wins over both. None means that the deadline passed.
async fn within(
    deadline: Instant,
    cancel: Option<&CancellationToken>,
    work: impl Future<Output = Result<Output, Error>>,
) -> Option<Result<Output, Error>> {
    let work = tokio::time::timeout_at(deadline, work);
    match cancel {
        None => work.await.ok(),
        Some(token) => tokio::select! {
            biased;
            done = work => done.ok(),
            () = token.cancelled() => {
                Some(Err(Error::new(ErrorKind::Cancelled, "the call was cancelled")))
            }
        },
    }
}

fn timed_out(tool: &Tool, timeout: Duration) -> Error {
    let message = format!("Tool {} timed out after {}ms", tool.name(), timeout.as_millis());
    Error::new(ErrorKind::Timeout, message)
}
