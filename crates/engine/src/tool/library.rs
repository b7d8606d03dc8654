//! Prompts and resources of an engine. Like tools, they are shared or belong to
//! a tenant, and those of a source are replaced together.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::definition::{LibrarySpec, PromptSpec, ResourceSpec};
use crate::tool::Source;
use crate::value::name::TenantId;

/// All prompts and resources of an engine.
pub struct Library {
    shelves: RwLock<Vec<SourceLibrary>>,
    /// Version, increased with every change.
    version: watch::Sender<u64>,
}

struct SourceLibrary {
    owner: Option<TenantId>,
    source: Source,
    spec: Arc<LibrarySpec>,
}

impl Default for Library {
    fn default() -> Self {
        Self { shelves: RwLock::default(), version: watch::Sender::new(0) }
    }
}

impl Library {
    /// The prompts visible to a tenant, by name; its own take precedence.
    pub fn prompts_for(&self, tenant: &TenantId) -> Vec<PromptSpec> {
        self.seen_by(tenant, |spec| &spec.prompts, |prompt| &prompt.name)
    }

    /// The resources visible to a tenant, by URI; its own take precedence.
    pub fn resources_for(&self, tenant: &TenantId) -> Vec<ResourceSpec> {
        self.seen_by(tenant, |spec| &spec.resources, |resource| &resource.uri)
    }

    /// Notifies of changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Replaces the prompts and resources of a source.
    pub fn replace_source(&self, owner: Option<&TenantId>, source: &str, spec: LibrarySpec) {
        let mut shelves = self.shelves.write();
        let is_own =
            |shelf: &SourceLibrary| *shelf.source == *source && shelf.owner.as_ref() == owner;
        let before = shelves.iter().position(is_own);
        match before {
            // Most files define only tools.
            None if spec.is_empty() => return,
            Some(at) if *shelves[at].spec == spec => return,
            Some(at) if spec.is_empty() => drop(shelves.remove(at)),
            Some(at) => shelves[at].spec = Arc::new(spec),
            None => shelves.push(SourceLibrary {
                owner: owner.cloned(),
                source: source.into(),
                spec: Arc::new(spec),
            }),
        }
        drop(shelves);
        self.version.send_modify(|version| *version += 1);
    }

    fn seen_by<T: Clone>(
        &self,
        tenant: &TenantId,
        items: impl Fn(&LibrarySpec) -> &Vec<T>,
        name: impl Fn(&T) -> &String,
    ) -> Vec<T> {
        let shelves = self.shelves.read();
        let own = shelves.iter().filter(|shelf| shelf.owner.as_ref() == Some(tenant));
        let everybodys = shelves.iter().filter(|shelf| shelf.owner.is_none());
        let mut seen: Vec<T> = Vec::new();
        for item in own.chain(everybodys).flat_map(|shelf| items(&shelf.spec)) {
            if !seen.iter().any(|known| name(known) == name(item)) {
                seen.push(item.clone());
            }
        }
        seen.sort_by(|a, b| name(a).cmp(name(b)));
        seen
    }
}
