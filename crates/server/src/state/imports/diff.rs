//! The difference between two imports of the same provider.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use windlass::ToolSpec;

use super::{ImportedProvider, StoredTool};

/// What was added, removed and changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ImportDiff {
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) changed: Vec<ChangedTool>,
    pub(crate) unchanged: usize,
}

/// A tool that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ChangedTool {
    pub(crate) name: String,
    pub(crate) operation: String,
    /// Which parts of it: `name`, `description`, `input`, `output`, `request`,
    /// `behaviour`.
    pub(crate) parts: Vec<&'static str>,
}

/// The tools of the previous import.
pub(super) struct EarlierTools<'k> {
    by_operation: HashMap<&'k str, &'k StoredTool>,
    by_name: HashMap<&'k str, &'k StoredTool>,
}

impl<'k> EarlierTools<'k> {
    pub(super) fn of(kept: &'k ImportedProvider) -> Self {
        let tools = &kept.tools;
        Self {
            by_operation: tools.iter().map(|tool| (tool.operation.as_str(), tool)).collect(),
            by_name: tools.iter().map(|tool| (tool.spec.name.as_str(), tool)).collect(),
        }
    }

    /// What a tool comes in place of: the one of its operation, which keeps its
    /// place when a name changes, else the one of its name, which models call.
    pub(super) fn before(&self, tool: &StoredTool) -> Option<&'k StoredTool> {
        let same = self.by_operation.get(tool.operation.as_str());
        same.or_else(|| self.by_name.get(tool.spec.name.as_str())).copied()
    }
}

impl ImportDiff {
    /// Compares two imports.
    pub(super) fn between(old: &ImportedProvider, new: &ImportedProvider) -> Self {
        let known = EarlierTools::of(old);
        let mut diff = Self::default();
        for tool in &new.tools {
            let Some(before) = known.before(tool) else {
                diff.added.push(tool.spec.name.to_string());
                continue;
            };
            let parts = parts(&before.spec, &tool.spec);
            if parts.is_empty() {
                diff.unchanged += 1;
            } else {
                diff.changed.push(ChangedTool {
                    name: tool.spec.name.to_string(),
                    operation: tool.operation.clone(),
                    parts,
                });
            }
        }
        let still: BTreeSet<&str> =
            new.tools.iter().flat_map(|tool| [&*tool.operation, tool.spec.name.as_str()]).collect();
        let is_gone = |tool: &&StoredTool| {
            !still.contains(&*tool.operation) && !still.contains(tool.spec.name.as_str())
        };
        let removed = old.tools.iter().filter(is_gone);
        diff.removed = removed.map(|tool| tool.spec.name.to_string()).collect();
        diff
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// Whether a tool is another one than before.
pub(super) fn differ(old: &ToolSpec, new: &ToolSpec) -> bool {
    !parts(old, new).is_empty()
}

/// The parts in which two tools differ. A new version of the whole API alone is
/// no change of a tool.
fn parts(old: &ToolSpec, new: &ToolSpec) -> Vec<&'static str> {
    [
        ("name", old.name != new.name),
        ("description", old.description != new.description),
        ("input", old.input != new.input),
        ("output", old.output != new.output),
        ("request", old.entry != new.entry),
        ("behaviour", old.behaviour != new.behaviour),
    ]
    .into_iter()
    .filter_map(|(part, differs)| differs.then_some(part))
    .collect()
}
