//! The tools of one owner by their names: those of everybody, or those of one
//! tenant.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use arc_swap::ArcSwap;

use super::{Conflict, Found, SourceTools};
use crate::error::{Error, ErrorKind};
use crate::event::EventBody;
use crate::name::{TenantId, ToolName};
use crate::tool::{Source, Tool};

type Names = HashMap<Arc<str>, Entry, RandomState>;

/// A tool that never changes, in a cell from which it is borrowed without
/// counting: all threads would count in the same place.
type Entry = Arc<ArcSwap<Tool>>;

#[derive(Clone, Default)]
pub(super) struct Shelf {
    by_name: Names,
    /// Only of tools whose wire name differs from their name.
    by_wire_name: Names,
}

impl Shelf {
    /// The tool with this name or wire name, for the time of a call.
    pub(super) fn find(&self, name: &str) -> Option<Found> {
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
        let wire = tool.name().wire();
        if wire != tool.name().as_str() {
            self.by_wire_name.insert(wire.into(), Arc::clone(&entry));
        }
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
        let tool = self.by_name.remove(name)?.load_full();
        self.by_wire_name.remove(tool.name().wire().as_str());
        Some(tool)
    }

    /// Takes away what sources no longer have.
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

/// The event of a tool that is new, or stands in place of another.
pub(super) fn put(tool: &Tool, old: Option<&Arc<Tool>>) -> EventBody {
    let (tool_name, tenant) = named(tool);
    match old {
        Some(_) => EventBody::ToolUpdated { tool_name, tenant },
        None => EventBody::ToolAdded { tool_name, tenant },
    }
}

/// The event of a tool that is gone.
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
