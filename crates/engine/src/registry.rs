//! Names to tools.
//!
//! Readers take a snapshot without a lock; writers build the next snapshot and
//! swap it in. A running call keeps the tool it began with.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;

use crate::error::{Error, ErrorKind};
use crate::event::{EventBody, EventBus};
use crate::name::{MAX_TOOL_NAME, ToolName};
use crate::tool::{Source, Tool, ToolBuilder};

/// The source of tools that the embedding program registers one by one.
pub(crate) const PROGRAM: &str = "program";

/// All tools of an engine.
pub struct Registry {
    snapshot: ArcSwap<Snapshot>,
    /// Held while the next snapshot is built.
    changing: Mutex<()>,
    bus: Arc<EventBus>,
}

type Names = HashMap<Arc<str>, Entry, RandomState>;

/// A tool that never changes, in a cell from which it is borrowed without
/// counting: all threads would count in the same place.
type Entry = Arc<ArcSwap<Tool>>;

/// A tool that was found, and stays for as long as this is kept.
pub(crate) type Found = Guard<Arc<Tool>>;

#[derive(Clone, Default)]
struct Snapshot {
    by_name: Names,
    /// Only of tools whose wire name differs from their name.
    by_wire_name: Names,
}

impl Registry {
    pub(crate) fn new(bus: Arc<EventBus>) -> Self {
        Self { snapshot: ArcSwap::default(), changing: Mutex::new(()), bus }
    }

    /// The tool with this name or wire name.
    pub fn get(&self, name: &str) -> Option<Arc<Tool>> {
        self.find(name).map(Guard::into_inner)
    }

    /// The same for the time of a call.
    pub(crate) fn find(&self, name: &str) -> Option<Found> {
        let snapshot = self.snapshot.load();
        let entry = snapshot.by_name.get(name).or_else(|| snapshot.by_wire_name.get(name));
        entry.map(|entry| entry.load())
    }

    /// All tools, by name.
    pub fn list(&self) -> Vec<Arc<Tool>> {
        let mut tools: Vec<_> = self.snapshot.load().tools().collect();
        tools.sort_by(|a, b| a.name().cmp(b.name()));
        tools
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.snapshot.load().by_name.len()
    }

    /// Whether there is no tool.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a tool. A name that is taken is an error.
    pub fn register(&self, tool: ToolBuilder) -> Result<Arc<Tool>, Error> {
        let tool = Arc::new(Tool::compile(tool, PROGRAM.into())?);
        self.change(|next| {
            next.insert_new(&tool)?;
            Ok(vec![EventBody::ToolAdded { tool_name: tool.name().clone() }])
        })?;
        Ok(tool)
    }

    /// Adds tools in one step; on an error none is added.
    pub(crate) fn register_all(&self, tools: Vec<ToolBuilder>) -> Result<(), Error> {
        let source: Source = PROGRAM.into();
        self.change(|next| {
            let mut events = Vec::with_capacity(tools.len());
            for builder in tools {
                let tool = Arc::new(Tool::compile(builder, Arc::clone(&source))?);
                next.insert_new(&tool)?;
                events.push(EventBody::ToolAdded { tool_name: tool.name().clone() });
            }
            Ok(events)
        })
    }

    /// Adds a tool, in place of an earlier one of its name.
    pub fn replace(&self, tool: ToolBuilder) -> Result<Arc<Tool>, Error> {
        let tool = Arc::new(Tool::compile(tool, PROGRAM.into())?);
        self.change(|next| {
            let tool_name = tool.name().clone();
            Ok(vec![match next.insert(&tool) {
                Some(_) => EventBody::ToolUpdated { tool_name },
                None => EventBody::ToolAdded { tool_name },
            }])
        })?;
        Ok(tool)
    }

    /// Takes a tool away. Calls that are running finish.
    pub fn unregister(&self, name: &str) -> Result<Arc<Tool>, Error> {
        let mut removed = None;
        self.change(|next| {
            let tool = next
                .remove(name)
                .ok_or_else(|| Error::new(ErrorKind::ToolNotFound, name.to_owned()))?;
            let event = EventBody::ToolRemoved { tool_name: tool.name().clone() };
            removed = Some(tool);
            Ok(vec![event])
        })?;
        removed.ok_or_else(|| Error::new(ErrorKind::Internal, "the removed tool is gone"))
    }

    /// Makes these the tools of a source, all at once: new ones are added,
    /// known ones replaced, missing ones removed. A tool that cannot be
    /// compiled, or whose name belongs to another source, is left out and
    /// reported; a version of it that the source had before stays.
    pub fn replace_source(&self, source: &str, tools: Vec<ToolBuilder>) -> Vec<Error> {
        let mut errors = Vec::new();
        let mut of_source = SourceTools::new(source.into());
        for builder in tools {
            let name = builder.spec().name.clone();
            match Tool::compile(builder, Arc::clone(&of_source.source)) {
                Ok(tool) => of_source.tools.push(Arc::new(tool)),
                Err(error) => {
                    of_source.kept.push(name);
                    errors.push(error);
                }
            }
        }
        errors.extend(self.install(&[of_source]).into_iter().map(|conflict| conflict.error));
        errors
    }

    /// Swaps in the compiled tools of several sources at once. Returns those
    /// whose names belong to another source.
    pub(crate) fn install(&self, sources: &[SourceTools]) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        let swapped = self.change(|next| {
            let mut before = next.by_source();
            let mut events = Vec::new();
            // First what goes, so that a name may move from one file to another.
            for own in sources {
                for name in before.remove(&own.source).unwrap_or_default() {
                    if !own.keeps(&name) {
                        next.remove(name.as_str());
                        events.push(EventBody::ToolRemoved { tool_name: name });
                    }
                }
            }
            for tool in sources.iter().flat_map(|own| &own.tools) {
                conflicts.extend(next.install(tool, &mut events));
            }
            Ok(events)
        });
        debug_assert!(swapped.is_ok(), "a conflict is reported, not an error");
        conflicts
    }

    /// Up to three names that look like this one, the nearest first.
    pub fn nearest(&self, name: &str) -> Vec<ToolName> {
        const ENOUGH: f64 = 0.72;
        if name.is_empty() || name.chars().count() > MAX_TOOL_NAME {
            return Vec::new();
        }
        let wanted = name.to_lowercase();
        let mut near: Vec<(f64, ToolName)> = (self.snapshot.load().tools())
            .map(|tool| {
                let own = tool.name().as_str().to_lowercase();
                let contained =
                    wanted.len() > 2 && (own.contains(&wanted) || wanted.contains(&own));
                let likeness = strsim::jaro_winkler(&wanted, &own);
                (if contained { likeness.max(ENOUGH) } else { likeness }, tool.name().clone())
            })
            .filter(|(likeness, _)| *likeness >= ENOUGH)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        near.into_iter().take(3).map(|(_, name)| name).collect()
    }

    /// Builds the next snapshot, swaps it in and tells what has changed; on an
    /// error nothing has.
    fn change(
        &self,
        apply: impl FnOnce(&mut Snapshot) -> Result<Vec<EventBody>, Error>,
    ) -> Result<(), Error> {
        let changing = self.changing.lock();
        let mut next = Snapshot::clone(&self.snapshot.load());
        let events = apply(&mut next)?;
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
    pub(crate) tools: Vec<Arc<Tool>>,
    /// Names that the source keeps although they are not among its new tools.
    pub(crate) kept: Vec<ToolName>,
}

impl SourceTools {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, tools: Vec::new(), kept: Vec::new() }
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
    fn tools(&self) -> impl Iterator<Item = Arc<Tool>> {
        self.by_name.values().map(|entry| entry.load_full())
    }

    fn insert(&mut self, tool: &Arc<Tool>) -> Option<Arc<Tool>> {
        let entry = Arc::new(ArcSwap::new(Arc::clone(tool)));
        let wire = tool.name().wire();
        if wire != tool.name().as_str() {
            self.by_wire_name.insert(wire.into(), Arc::clone(&entry));
        }
        self.by_name.insert(tool.name().shared(), entry).map(|old| old.load_full())
    }

    fn insert_new(&mut self, tool: &Arc<Tool>) -> Result<(), Error> {
        if let Some(other) = self.by_name.get(tool.name().as_str()) {
            return Err(taken(tool.name(), &other.load()));
        }
        self.insert(tool);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Option<Arc<Tool>> {
        let tool = self.by_name.remove(name)?.load_full();
        self.by_wire_name.remove(tool.name().wire().as_str());
        Some(tool)
    }

    fn by_source(&self) -> HashMap<Source, Vec<ToolName>> {
        let mut by_source = HashMap::<Source, Vec<ToolName>>::new();
        for tool in self.tools() {
            by_source.entry(Arc::clone(tool.source())).or_default().push(tool.name().clone());
        }
        by_source
    }

    /// Adds or replaces a tool of a source.
    fn install(&mut self, tool: &Arc<Tool>, events: &mut Vec<EventBody>) -> Option<Conflict> {
        let tool_name = tool.name().clone();
        if let Some(other) = self.by_name.get(tool_name.as_str()).map(|entry| entry.load())
            && other.source() != tool.source()
        {
            return Some(Conflict { tool: Arc::clone(tool), error: taken(&tool_name, &other) });
        }
        events.push(EventBody::ToolLoaded {
            tool_name: tool_name.clone(),
            source: Arc::clone(tool.source()),
        });
        match self.insert(tool) {
            None => events.push(EventBody::ToolAdded { tool_name }),
            Some(old) if old.spec() != tool.spec() => {
                events.push(EventBody::ToolUpdated { tool_name });
            }
            Some(_) => {}
        }
        None
    }
}

fn taken(name: &ToolName, other: &Tool) -> Error {
    Error::new(
        ErrorKind::AlreadyRegistered,
        format!("the tool `{name}` is already registered by {}", other.source()),
    )
}
