//! [`EngineBuilder`].

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use tokio_util::task::TaskTracker;

use super::{Engine, EngineInner, EngineSettings};
use crate::approval::Approvals;
use crate::call::CallEnvironment;
use crate::call::cache::ResultCache;
use crate::call::context::Objects;
use crate::call::credential::CredentialSource;
use crate::definition::{ImportRequest, Parsed};
use crate::error::{Error, ErrorKind};
use crate::hook::Hook;
use crate::journal::event::{Event, EventBus};
use crate::journal::record::{CallRecord, MemoryStore, RecordStore};
use crate::journal::{Journal, RecordObserver};
use crate::schedule::{QuotaCounters, SlotPool, UpstreamSettings, Upstreams};
use crate::shards::Shards;
use crate::tool::executor::Executor;
use crate::tool::groups::Groups;
use crate::tool::library::Library;
use crate::tool::output_tool;
use crate::tool::providers::Providers;
use crate::tool::registry::Registry;
use crate::tool::search::{Embedder, Finder};
use crate::tool::search_tool;
use crate::tool::{Kind, ToolBuilder, ToolSpec};
use crate::value::clock::Clock;

/// Finds the executor of a defined tool.
pub(crate) type BindKind =
    Arc<dyn Fn(&ToolSpec) -> Result<Arc<dyn Executor>, Error> + Send + Sync + 'static>;

/// Reads the API document of a provider's definition; its path is relative to a
/// folder.
pub(crate) type ImportDocument =
    Arc<dyn Fn(&ImportRequest, &Path) -> Result<Parsed, Error> + Send + Sync + 'static>;

type Callback = Box<dyn FnMut(&Event) + Send>;

/// Builds an [`Engine`].
#[derive(Default)]
pub struct EngineBuilder {
    settings: EngineSettings,
    tools: Vec<ToolBuilder>,
    store: Option<Arc<dyn RecordStore>>,
    hooks: Vec<Arc<dyn Hook>>,
    credentials: Option<Arc<dyn CredentialSource>>,
    approvals: Option<Arc<dyn Approvals>>,
    objects: Objects,
    groups: Groups,
    group_tool: bool,
    output_tool: bool,
    search_tool: bool,
    embedder: Option<Arc<dyn Embedder>>,
    kinds: HashMap<Kind, BindKind>,
    importer: Option<ImportDocument>,
    callbacks: Vec<Callback>,
    observer: Option<RecordObserver>,
}

impl EngineBuilder {
    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: ToolBuilder) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = ToolBuilder>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Registers a kind of tool. `bind` returns the executor for a definition.
    #[must_use]
    pub fn kind(
        mut self,
        kind: Kind,
        bind: impl Fn(&ToolSpec) -> Result<Arc<dyn Executor>, Error> + Send + Sync + 'static,
    ) -> Self {
        self.kinds.insert(kind, Arc::new(bind));
        self
    }

    /// Registers the reader of API documents that definitions of providers
    /// name; the folder is that of the definition.
    #[must_use]
    pub fn importer(
        mut self,
        import: impl Fn(&ImportRequest, &Path) -> Result<Parsed, Error> + Send + Sync + 'static,
    ) -> Self {
        self.importer = Some(Arc::new(import));
        self
    }

    /// Adds a context object that all tools can find by its type.
    #[must_use]
    pub fn object<T: Send + Sync + 'static>(mut self, object: T) -> Self {
        self.objects.insert(object);
        self
    }

    /// Creates a group of tools, active or not.
    #[must_use]
    pub fn group(self, name: &str, description: &str, active: bool) -> Self {
        self.groups.create(name, description, active);
        self
    }

    /// Adds the tool `update_tool_groups`, with which a model switches the
    /// groups of its own session.
    #[must_use]
    pub fn group_tool(mut self) -> Self {
        self.group_tool = true;
        self
    }

    /// Adds the tool `read_output`, with which a model reads the rest of a
    /// truncated result.
    #[must_use]
    pub fn output_tool(mut self) -> Self {
        self.output_tool = true;
        self
    }

    /// Adds the tool `tool_search`, with which a model finds deferred tools. It
    /// is only listed if there are any.
    #[must_use]
    pub fn search_tool(mut self) -> Self {
        self.search_tool = true;
        self
    }

    /// Adds semantic search for tools, with vectors of an embedding model. If
    /// the model fails, keyword search decides alone.
    #[must_use]
    pub fn search_embedder(mut self, embedder: impl Embedder) -> Self {
        self.embedder = Some(Arc::new(embedder));
        self
    }

    /// Appends a hook.
    #[must_use]
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Sets the source of credentials for tools that name a provider.
    #[must_use]
    pub fn credentials(mut self, source: impl CredentialSource) -> Self {
        self.credentials = Some(Arc::new(source));
        self
    }

    /// Sets the approval policy, which also stores suspended calls. Without
    /// one, the tools' own settings apply, and calls that need approval are
    /// refused.
    #[must_use]
    pub fn approvals(mut self, approvals: impl Approvals) -> Self {
        self.approvals = Some(Arc::new(approvals));
        self
    }

    /// Sets the record store; records are kept in memory by default.
    #[must_use]
    pub fn store(mut self, store: impl RecordStore) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Registers an observer of every record, called before it is stored; also
    /// for calls that an earlier process left behind. It runs on the path of
    /// calls, so it should be fast.
    #[must_use]
    pub fn on_record(mut self, look: impl Fn(&CallRecord) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(look));
        self
    }

    /// Registers a callback for every event, on a thread of its own. Unlike
    /// [`Engine::subscribe`], it also receives the calls that an earlier
    /// process left behind.
    #[must_use]
    pub fn on_event(mut self, callback: impl FnMut(&Event) + Send + 'static) -> Self {
        self.callbacks.push(Box::new(callback));
        self
    }

    /// Changes settings.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut EngineSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Validates everything and builds the engine.
    pub fn build(self) -> Result<Engine, Error> {
        let bus = EventBus::new(self.settings.event_capacity);
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let registry = Registry::new(Arc::clone(&bus));
        let mut tools = self.tools;
        if self.group_tool {
            tools.push(self.groups.meta_tool());
        }
        if self.output_tool {
            tools.push(output_tool::read_output(Arc::clone(&store)));
        }
        if self.search_tool {
            tools.push(search_tool::tool_search());
        }
        registry.register_all(tools)?;
        if self.settings.default_timeout.is_zero() {
            let why = "the default timeout is zero: every call would be stopped at once";
            return Err(Error::new(ErrorKind::InvalidDefinition, why));
        }
        let limits = SlotPool::new(self.settings.limits.clone());
        let journal = Journal {
            store,
            bus: Arc::clone(&bus),
            clock: Arc::new(Clock::new()),
            max_record_bytes: self.settings.max_record_bytes,
            observer: self.observer,
        };
        for callback in self.callbacks {
            bus.call_back(callback).map_err(|error| {
                Error::new(ErrorKind::Internal, "no thread for the callback").with_source(error)
            })?;
        }
        journal.interrupted();
        let upstreams = Upstreams::new(UpstreamSettings {
            budget: self.settings.retry_budget,
            breaker: self.settings.breaker,
        });
        let toolkit = self.objects;
        // A closed tracker still accepts tasks, and only a closed one can be
        // awaited.
        let tasks = TaskTracker::new();
        tasks.close();
        Ok(Engine(Arc::new_cyclic(|engine| {
            let shared = CallEnvironment { journal, toolkit, limits, engine: Weak::clone(engine) };
            EngineInner {
                quotas: QuotaCounters::new(
                    self.settings.quotas,
                    self.settings.tenant_quotas.clone(),
                ),
                running: Arc::default(),
                upstreams,
                cache: ResultCache::new(self.settings.cache_entries),
                activated: super::ActivatedTools::default(),
                finder: Finder::new(self.embedder),
                registry,
                providers: Providers::default(),
                library: Library::default(),
                groups: self.groups,
                hooks: self.hooks,
                credentials: self.credentials,
                approvals: self.approvals,
                resuming: Arc::default(),
                shards: Shards::new(|| Arc::new(shared.clone())),
                shared,
                kinds: self.kinds,
                importer: self.importer,
                tasks,
                settings: self.settings,
            }
        })))
    }
}
