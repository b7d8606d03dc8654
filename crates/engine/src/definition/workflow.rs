//! Keys of workflow definitions (`kind: workflow`).
//!
//! ```yaml
//! name: answer_ticket
//! kind: workflow
//! description: Answers a support ticket.
//! parameters:
//!   - {name: ticket_id, type: string, required: true}
//! steps:
//!   ticket: {call: get_ticket, with: {id: "${input.ticket_id}"}}
//!   text: {template: "About {{ ticket.subject }}"}
//! output: {answer: "${text}"}
//! ```
//!
//! The steps are read by the executor of workflows; here their places are
//! noted, so that each of its errors has a line and a column.

use std::time::Duration;

use super::SettingPlaces;
use super::node::{Node, NodeValue};
use super::reader::{FaultReport, MapFields};
use super::schema::{self, Dialect};
use crate::tool::ToolSpec;

/// Default timeout of a workflow: the time that it runs, without waiting.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Reads a workflow's own keys into the settings of its entry.
pub(super) fn read(
    fields: &mut MapFields<'_>,
    spec: &mut ToolSpec,
    places: &mut SettingPlaces,
    report: &mut FaultReport<'_>,
) {
    const KEYS: [&str; 5] = ["steps", "output", "budget", "limits", "dify"];
    for key in KEYS {
        if let Some(node) = fields.get(key) {
            places.note_all(key, node);
            spec.entry.config.insert(key.to_owned(), node.to_json());
        }
    }
    for key in ["steps", "budget", "limits"] {
        let node = fields.get(key);
        node.into_iter().for_each(|node| must_be_mapping(node, key, report));
    }
    if let Some(node) = fields.get("output_schema") {
        spec.output = Some(schema::read(node, Dialect::JsonSchema, report));
    }
    // The executor checks what a run returns; a run that waits returns nothing yet.
    spec.output_advisory = true;
}

fn must_be_mapping(node: &Node, key: &str, report: &mut FaultReport<'_>) {
    if !matches!(node.data, NodeValue::Map(_)) {
        report.add(node.at, format!("`{key}` is a mapping, found {}", node.kind_name()));
    }
}

/// Fills in defaults.
pub(super) fn complete(spec: &mut ToolSpec) {
    spec.timeout.get_or_insert(TIMEOUT);
    // Runs share nothing.
    spec.behaviour.concurrency_safe.get_or_insert(true);
}
