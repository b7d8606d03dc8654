//! Definitions with an `identity` block.

use super::Definition;
use super::header::{self, ToolDraft};
use super::node::Node;
use super::parameter;
use super::reader::{self, FaultReport, MapFields};
use crate::tool::Kind;
use crate::value::text::Text;

/// Reads one tool. Without an `entry` it is a built-in with its own name.
pub(super) fn read(node: &Node, report: &mut FaultReport<'_>) -> Option<Definition> {
    let mut fields = MapFields::of(node, "a tool", report)?;
    // Python sources of other engines.
    fields.ignore(&["extra"]);
    let mut identity = MapFields::of(fields.need("identity", report)?, "`identity`", report)?;
    identity.ignore(&["tags"]);
    let name = identity.need("name", report);
    let mut draft = ToolDraft::new(node.at, name, report)?;
    for (key, field) in [
        ("author", &mut draft.spec.author),
        ("icon", &mut draft.spec.icon),
        ("provider", &mut draft.spec.provider),
    ] {
        if let Some(node) = identity.get(key) {
            *field = reader::text(node, key, report);
        }
    }
    if let Some(node) = identity.get("label") {
        draft.spec.label = reader::i18n(node, "label", report);
    }
    identity.finish(report);
    if let Some(node) = fields.get("description") {
        draft.spec.description = description(node, report).unwrap_or_default();
    }
    if let Some(node) = fields.get("parameters") {
        parameter::read_list(node, &mut draft, report);
    }
    header::read_kind(&mut fields, &mut draft, Kind::Builtin, report);
    Some(draft.finish(fields, report))
}

/// A text, one per language, or `{human: …, llm: …}`, of which the `llm` text
/// is used.
fn description(node: &Node, report: &mut FaultReport<'_>) -> Option<Text> {
    if !node.has("human") && !node.has("llm") {
        return reader::i18n(node, "description", report);
    }
    let mut fields = MapFields::of(node, "`description`", report)?;
    let human = fields.get("human").and_then(|node| reader::i18n(node, "human", report));
    let model = fields.get("llm").and_then(|node| reader::i18n(node, "llm", report));
    fields.finish(report);
    model.filter(|text| !text.is_empty()).or(human)
}
