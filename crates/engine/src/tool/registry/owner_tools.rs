//! The tools of one owner by name: the shared ones, or those of a tenant.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ahash::RandomState;
use arc_swap::ArcSwap;

use super::{Conflict, FoundTool, SourceTools};
use crate::error::{Error, ErrorKind};
use crate::journal::event::EventBody;
use crate::tool::{Source, Tool};
use crate::value::name::{TenantId, ToolName};

type ToolsByName = HashMap<Arc<str>, ToolCell, RandomState>;

/// An immutable tool in a cell from which it can be borrowed without reference
/// counting, on which all threads would contend.
type ToolCell = Arc<ArcSwap<Tool>>;

#[derive(Clone, Default)]
pub(super) struct OwnerTools {
    by_name: ToolsByName,
    /// Only tools whose wire names differ from their name.
    by_wire_name: ToolsByName,
}

impl OwnerTools {
    /// The tool with this name or wire name, borrowed for the duration of a
    /// call.
    pub(super) fn find(&self, name: &str) -> Option<FoundTool> {
        let entry = self.by_name.get(name).or_else(|| self.by_wire_name.get(name));
        entry.map(|entry| entry.load())
    }

    pub(super) fn tools(&self) -> impl Iterator<Item = Arc<Tool>> {
        self.by_name.values().map(|entry| entry.load_full())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn insert(&mut self, tool: &Arc<Tool>) -> Option<Arc<Tool>> {
        let entry = Arc::new(ArcSwap::new(Arc::clone(tool)));
        self.by_name.insert(tool.name().shared(), entry).map(|old| old.load_full())
    }

    pub(super) fn insert_new(&mut self, tool: &Arc<Tool>) -> Result<(), Error> {
        if let Some(other) = self.by_name.get(tool.name().as_str()) {
            return Err(taken(tool.name(), &other.load()));
        }
        self.insert(tool);
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Arc<Tool>> {
        Some(self.by_name.remove(name)?.load_full())
    }

    /// Assigns wire names, after any change. A readable name that two tools
    /// would share goes to neither; a tool whose own name it is keeps it.
    pub(super) fn settle(&mut self) {
        self.by_wire_name.clear();
        let mut wanted = HashMap::<Arc<str>, usize>::new();
        let tools: Vec<(Arc<Tool>, ToolCell)> = (self.by_name.values())
            .map(|entry| (entry.load_full(), Arc::clone(entry)))
            .filter(|(tool, _)| tool.wire_names().is_some())
            .collect();
        for wire in tools.iter().filter_map(|(tool, _)| tool.wire_names()) {
            *wanted.entry(Arc::clone(&wire.readable)).or_default() += 1;
        }
        for (tool, entry) in &tools {
            let hashed = tool.wire_names().map(|wire| Arc::clone(&wire.hashed));
            self.by_wire_name.extend(hashed.map(|hashed| (hashed, Arc::clone(entry))));
        }
        for (tool, entry) in &tools {
            let Some(wire) = tool.wire_names() else { continue };
            // A name may be crafted to look like a hashed one.
            let is_shared = self.has(&wire.readable)
                || self.by_wire_name.contains_key(&wire.readable)
                || wanted[&wire.readable] > 1;
            wire.is_shared.store(is_shared, Ordering::Relaxed);
            if !is_shared {
                self.by_wire_name.insert(Arc::clone(&wire.readable), Arc::clone(entry));
            }
        }
    }

    /// Removes tools that their sources no longer have.
    pub(super) fn clear_out<'s>(
        &mut self,
        sources: impl Iterator<Item = &'s SourceTools>,
        events: &mut Vec<EventBody>,
    ) {
        let mut before = self.by_source();
        for own in sources {
            for name in before.remove(&own.source).unwrap_or_default() {
                if !own.keeps(&name)
                    && let Some(gone) = self.remove(name.as_str())
                {
                    events.push(removed(&gone));
                }
            }
        }
    }

    /// Adds or replaces a tool of a source.
    pub(super) fn install(
        &mut self,
        tool: &Arc<Tool>,
        events: &mut Vec<EventBody>,
    ) -> Option<Conflict> {
        if let Some(other) = self.by_name.get(tool.name().as_str()).map(|entry| entry.load())
            && other.source() != tool.source()
        {
            return Some(Conflict { tool: Arc::clone(tool), error: taken(tool.name(), &other) });
        }
        events.push(EventBody::ToolLoaded {
            tool_name: tool.name().clone(),
            source: Arc::clone(tool.source()),
            tenant: tool.owner().cloned(),
        });
        match self.insert(tool) {
            Some(old) if old.spec() == tool.spec() => {}
            old => events.push(put(tool, old.as_ref())),
        }
        None
    }

    fn by_source(&self) -> HashMap<Source, Vec<ToolName>> {
        let mut by_source = HashMap::<Source, Vec<ToolName>>::new();
        for tool in self.tools() {
            by_source.entry(Arc::clone(tool.source())).or_default().push(tool.name().clone());
        }
        by_source
    }
}

/// The event of a tool that was added or replaced.
pub(super) fn put(tool: &Tool, old: Option<&Arc<Tool>>) -> EventBody {
    let (tool_name, tenant) = named(tool);
    match old {
        Some(_) => EventBody::ToolUpdated { tool_name, tenant },
        None => EventBody::ToolAdded { tool_name, tenant },
    }
}

/// The event of a tool that was removed.
pub(super) fn removed(tool: &Tool) -> EventBody {
    let (tool_name, tenant) = named(tool);
    EventBody::ToolRemoved { tool_name, tenant }
}

fn named(tool: &Tool) -> (ToolName, Option<TenantId>) {
    (tool.name().clone(), tool.owner().cloned())
}

fn taken(name: &ToolName, other: &Tool) -> Error {
    Error::new(
        ErrorKind::AlreadyRegistered,
        format!("the tool `{name}` is already registered by {}", other.source()),
    )
}
