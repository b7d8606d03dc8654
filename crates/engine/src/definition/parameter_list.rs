//! Definitions with `name`, `description` and a list of parameters.

use super::Definition;
use super::header::{self, ToolDraft};
use super::node::Node;
use super::parameter;
use super::reader::{self, FaultReport, MapFields};
use crate::tool::Kind;

/// Reads one tool. Without an `entry` it is a built-in with its own name.
pub(super) fn read(node: &Node, report: &mut FaultReport<'_>) -> Option<Definition> {
    let mut fields = MapFields::of(node, "a tool", report)?;
    let name = fields.need("name", report);
    let mut draft = ToolDraft::new(node.at, name, report)?;
    if let Some(node) = fields.get("description") {
        draft.spec.description = reader::i18n(node, "description", report).unwrap_or_default();
    }
    if let Some(node) = fields.get("parameters") {
        parameter::read_list(node, &mut draft, report);
    }
    header::read_kind(&mut fields, &mut draft, Kind::Builtin, report);
    Some(draft.finish(fields, report))
}
