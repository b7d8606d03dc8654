//! What another import changes.

use std::collections::BTreeMap;

use serde::Serialize;
use windlass::ToolSpec;

use super::Kept;

/// What was added, removed and changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Diff {
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) changed: Vec<Changed>,
    pub(crate) unchanged: usize,
}

/// A tool that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Changed {
    pub(crate) name: String,
    pub(crate) operation: String,
    /// Which parts of it: `name`, `description`, `input`, `output`, `request`,
    /// `behaviour`.
    pub(crate) parts: Vec<&'static str>,
}

impl Diff {
    /// Compares two imports by their operations, which keep their place when a
    /// name changes.
    pub(super) fn between(old: &Kept, new: &Kept) -> Self {
        let before: BTreeMap<&str, &ToolSpec> =
            old.tools.iter().map(|tool| (tool.operation.as_str(), &tool.spec)).collect();
        let mut diff = Self::default();
        for tool in &new.tools {
            let Some(known) = before.get(tool.operation.as_str()) else {
                diff.added.push(tool.spec.name.to_string());
                continue;
            };
            let parts = parts(known, &tool.spec);
            if parts.is_empty() {
                diff.unchanged += 1;
            } else {
                diff.changed.push(Changed {
                    name: tool.spec.name.to_string(),
                    operation: tool.operation.clone(),
                    parts,
                });
            }
        }
        let still = |operation: &str| new.tools.iter().any(|tool| tool.operation == operation);
        let removed = old.tools.iter().filter(|tool| !still(&tool.operation));
        diff.removed = removed.map(|tool| tool.spec.name.to_string()).collect();
        diff
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
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
