//! Registry: finds tools by name.
//!
//! Readers use a snapshot without locking; writers build the next snapshot and
//! swap it in (copy-on-write). A running call keeps the tool it began with.
//!
//! A tool is shared by all tenants, or belongs to one. A tenant sees its own
//! tools and the shared ones; its own take precedence. It cannot detect that
//! other tenants' tools exist.

mod owner_tools;

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use crate::error::{Error, ErrorKind};
use crate::journal::event::{EventBody, EventBus};
use crate::tool::{Source, Tool, ToolBuilder};
use crate::value::name::{MAX_TOOL_NAME, TenantId, ToolName};
use owner_tools::OwnerTools;

/// Source of tools that the embedding program registers one by one.
pub(crate) const PROGRAM: &str = "program";

/// All tools of an engine.
///
/// Methods without a tenant concern the shared tools; those that end in `_for`
/// concern what a tenant owns or sees.
pub struct Registry {
    snapshot: ArcSwap<Snapshot>,
    /// Held while the next snapshot is built.
    changing: Mutex<()>,
    bus: Arc<EventBus>,
}

/// A tool that was found, borrowed from the registry without counting.
pub(crate) type FoundTool = Guard<Arc<Tool>>;

#[derive(Clone, Default)]
struct Snapshot {
    everybodys: OwnerTools,
    /// Only tenants with own tools. Shared, so that a change copies one
    /// tenant's tools and not all.
    tenants: HashMap<TenantId, Arc<OwnerTools>, RandomState>,
}

impl Registry {
    pub(crate) fn new(bus: Arc<EventBus>) -> Self {
        Self { snapshot: ArcSwap::default(), changing: Mutex::new(()), bus }
    }

    /// The shared tool with this name or wire name.
    pub fn get(&self, name: &str) -> Option<Arc<Tool>> {
        self.snapshot.load().everybodys.find(name).map(Guard::into_inner)
    }

    /// The tool that a tenant means by this name or wire name: its own, else
    /// the shared one.
    pub fn get_for(&self, tenant: &TenantId, name: &str) -> Option<Arc<Tool>> {
        self.find(tenant, name).map(Guard::into_inner)
    }

    /// Like [`Registry::get_for`], borrowed for the duration of a call.
    pub(crate) fn find(&self, tenant: &TenantId, name: &str) -> Option<FoundTool> {
        let snapshot = self.snapshot.load();
        let own = snapshot.own(tenant).and_then(|shelf| shelf.find(name));
        own.or_else(|| snapshot.everybodys.find(name))
    }

    /// The shared tools, by name.
    pub fn list(&self) -> Vec<Arc<Tool>> {
        sorted(self.snapshot.load().everybodys.tools())
    }

    /// The tools visible to a tenant, by name.
    pub fn list_for(&self, tenant: &TenantId) -> Vec<Arc<Tool>> {
        sorted(self.snapshot.load().seen_by(Some(tenant)))
    }

    /// The tools owned by a tenant, by name.
    pub fn owned_by(&self, tenant: &TenantId) -> Vec<Arc<Tool>> {
        sorted(self.snapshot.load().own(tenant).into_iter().flat_map(|shelf| shelf.tools()))
    }

    /// Number of shared tools.
    pub fn len(&self) -> usize {
        self.snapshot.load().everybodys.len()
    }

    /// Whether there are no shared tools.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a shared tool. A name that is taken is an error.
    pub fn register(&self, tool: ToolBuilder) -> Result<Arc<Tool>, Error> {
        self.add(None, tool)
    }

    /// Adds a tool of a tenant. A name that another of its own tools has is an
    /// error; a shared tool of that name is hidden from the tenant.
    pub fn register_for(&self, tenant: &TenantId, tool: ToolBuilder) -> Result<Arc<Tool>, Error> {
        self.add(Some(tenant), tool)
    }

    fn add(&self, owner: Option<&TenantId>, tool: ToolBuilder) -> Result<Arc<Tool>, Error> {
        let tool = Arc::new(Tool::compile(tool, PROGRAM.into(), owner.cloned())?);
        self.change(owner, |shelf| {
            shelf.insert_new(&tool)?;
            Ok(vec![owner_tools::put(&tool, None)])
        })?;
        Ok(tool)
    }

    /// Adds tools atomically; on an error none is added.
    pub(crate) fn register_all(&self, tools: Vec<ToolBuilder>) -> Result<(), Error> {
        let source: Source = PROGRAM.into();
        self.change(None, |shelf| {
            let mut events = Vec::with_capacity(tools.len());
            for builder in tools {
                let tool = Arc::new(Tool::compile(builder, Arc::clone(&source), None)?);
                shelf.insert_new(&tool)?;
                events.push(owner_tools::put(&tool, None));
            }
            Ok(events)
        })
    }

    /// Adds a shared tool, replacing an earlier one of its name.
    pub fn replace(&self, tool: ToolBuilder) -> Result<Arc<Tool>, Error> {
        self.put(None, tool)
    }

    /// Adds a tool of a tenant, replacing an earlier one of its own with this
    /// name.
    pub fn replace_for(&self, tenant: &TenantId, tool: ToolBuilder) -> Result<Arc<Tool>, Error> {
        self.put(Some(tenant), tool)
    }

    fn put(&self, owner: Option<&TenantId>, tool: ToolBuilder) -> Result<Arc<Tool>, Error> {
        let tool = Arc::new(Tool::compile(tool, PROGRAM.into(), owner.cloned())?);
        self.change(owner, |shelf| {
            let old = shelf.insert(&tool);
            Ok(vec![owner_tools::put(&tool, old.as_ref())])
        })?;
        Ok(tool)
    }

    /// Removes a shared tool. Running calls finish.
    pub fn unregister(&self, name: &str) -> Result<Arc<Tool>, Error> {
        self.take(None, name)
    }

    /// Removes a tool of a tenant. A shared tool of the same name becomes
    /// visible again.
    pub fn unregister_for(&self, tenant: &TenantId, name: &str) -> Result<Arc<Tool>, Error> {
        self.take(Some(tenant), name)
    }

    fn take(&self, owner: Option<&TenantId>, name: &str) -> Result<Arc<Tool>, Error> {
        let mut removed = None;
        self.change(owner, |shelf| {
            let tool = shelf
                .remove(name)
                .ok_or_else(|| Error::new(ErrorKind::ToolNotFound, name.to_owned()))?;
            let event = owner_tools::removed(&tool);
            removed = Some(tool);
            Ok(vec![event])
        })?;
        removed.ok_or_else(|| Error::new(ErrorKind::Internal, "the removed tool is gone"))
    }

    /// Replaces the tools of a source atomically: new ones are added, known
    /// ones replaced, missing ones removed. A tool that cannot be compiled, or
    /// whose name belongs to another source, is skipped and reported; the
    /// source's previous version of it stays.
    pub fn replace_source(&self, source: &str, tools: Vec<ToolBuilder>) -> Vec<Error> {
        self.swap(SourceTools::new(source.into()), tools)
    }

    /// Like [`Registry::replace_source`], for a tenant. Sources of different
    /// tenants are independent, whatever their names.
    pub fn replace_source_for(
        &self,
        tenant: &TenantId,
        source: &str,
        tools: Vec<ToolBuilder>,
    ) -> Vec<Error> {
        self.swap(SourceTools::new(source.into()).owned_by(Some(tenant)), tools)
    }

    fn swap(&self, mut own: SourceTools, tools: Vec<ToolBuilder>) -> Vec<Error> {
        let mut errors = Vec::new();
        for builder in tools {
            let name = builder.spec().name.clone();
            match Tool::compile(builder, Arc::clone(&own.source), own.owner.clone()) {
                Ok(tool) => own.tools.push(Arc::new(tool)),
                Err(error) => {
                    own.kept.push(name);
                    errors.push(error);
                }
            }
        }
        let owner = own.owner.clone();
        let conflicts = self.install(owner.as_ref(), &[own]);
        errors.extend(conflicts.into_iter().map(|conflict| conflict.error));
        errors
    }

    /// Installs the compiled tools of several sources of one owner at once.
    /// Returns those whose names belong to another source.
    pub(crate) fn install(
        &self,
        owner: Option<&TenantId>,
        sources: &[SourceTools],
    ) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        let swapped = self.change(owner, |shelf| {
            let mut events = Vec::new();
            // Removals first, so that a name can move from one file to another.
            shelf.clear_out(sources.iter(), &mut events);
            for tool in sources.iter().flat_map(|own| &own.tools) {
                conflicts.extend(shelf.install(tool, &mut events));
            }
            Ok(events)
        });
        debug_assert!(swapped.is_ok(), "a conflict is reported, not an error");
        conflicts
    }

    /// Up to three similar names of shared tools, best match first.
    pub fn nearest(&self, name: &str) -> Vec<ToolName> {
        nearest(name, self.snapshot.load().seen_by(None))
    }

    /// Up to three similar names of tools visible to a tenant, best match
    /// first.
    pub fn nearest_for(&self, tenant: &TenantId, name: &str) -> Vec<ToolName> {
        nearest(name, self.snapshot.load().seen_by(Some(tenant)))
    }

    /// Builds and swaps in the next snapshot with other tools of an owner, and
    /// emits the changes; on an error nothing changes.
    fn change(
        &self,
        owner: Option<&TenantId>,
        apply: impl FnOnce(&mut OwnerTools) -> Result<Vec<EventBody>, Error>,
    ) -> Result<(), Error> {
        let changing = self.changing.lock();
        let mut next = Snapshot::clone(&self.snapshot.load());
        let events = next.change(owner, apply)?;
        self.snapshot.store(Arc::new(next));
        drop(changing);
        for event in events {
            self.bus.emit(|| event);
        }
        Ok(())
    }
}

/// The compiled tools of a source.
pub(crate) struct SourceTools {
    pub(crate) source: Source,
    pub(crate) owner: Option<TenantId>,
    pub(crate) tools: Vec<Arc<Tool>>,
    /// Names that the source keeps although they are not among its new tools.
    pub(crate) kept: Vec<ToolName>,
}

impl SourceTools {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, owner: None, tools: Vec::new(), kept: Vec::new() }
    }

    pub(crate) fn owned_by(mut self, owner: Option<&TenantId>) -> Self {
        self.owner = owner.cloned();
        self
    }

    fn keeps(&self, name: &ToolName) -> bool {
        self.kept.contains(name) || self.tools.iter().any(|tool| tool.name() == name)
    }
}

/// A tool whose name belongs to another source.
pub(crate) struct Conflict {
    pub(crate) tool: Arc<Tool>,
    pub(crate) error: Error,
}

impl Snapshot {
    /// The tools owned by a tenant; no lookup if no tenant has any.
    fn own(&self, tenant: &TenantId) -> Option<&Arc<OwnerTools>> {
        if self.tenants.is_empty() { None } else { self.tenants.get(tenant) }
    }

    /// A tenant's own tools, and the shared ones that they do not hide.
    fn seen_by(&self, tenant: Option<&TenantId>) -> impl Iterator<Item = Arc<Tool>> {
        let own = tenant.and_then(|tenant| self.own(tenant));
        let shows = move |tool: &Arc<Tool>| own.is_none_or(|own| !own.has(tool.name().as_str()));
        let own_tools = own.into_iter().flat_map(|own| own.tools());
        own_tools.chain(self.everybodys.tools().filter(shows))
    }

    fn change(
        &mut self,
        owner: Option<&TenantId>,
        apply: impl FnOnce(&mut OwnerTools) -> Result<Vec<EventBody>, Error>,
    ) -> Result<Vec<EventBody>, Error> {
        let Some(tenant) = owner else {
            let events = apply(&mut self.everybodys)?;
            self.everybodys.settle();
            return Ok(events);
        };
        let shelf = Arc::make_mut(self.tenants.entry(tenant.clone()).or_default());
        let events = apply(shelf)?;
        shelf.settle();
        if shelf.len() == 0 {
            self.tenants.remove(tenant);
        }
        Ok(events)
    }
}

fn sorted(tools: impl Iterator<Item = Arc<Tool>>) -> Vec<Arc<Tool>> {
    let mut tools: Vec<_> = tools.collect();
    tools.sort_by(|a, b| a.name().cmp(b.name()));
    tools
}

fn nearest(name: &str, tools: impl Iterator<Item = Arc<Tool>>) -> Vec<ToolName> {
    const ENOUGH: f64 = 0.72;
    if name.is_empty() || name.chars().count() > MAX_TOOL_NAME {
        return Vec::new();
    }
    let wanted = name.to_lowercase();
    let mut near: Vec<(f64, ToolName)> = tools
        .map(|tool| {
            let own = tool.name().as_str().to_lowercase();
            let contained = wanted.len() > 2 && (own.contains(&wanted) || wanted.contains(&own));
            let likeness = strsim::jaro_winkler(&wanted, &own);
            (if contained { likeness.max(ENOUGH) } else { likeness }, tool.name().clone())
        })
        .filter(|(likeness, _)| *likeness >= ENOUGH)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    near.into_iter().take(3).map(|(_, name)| name).collect()
}
