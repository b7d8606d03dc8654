//! Definitions whose arguments are a JSON Schema: the formats of model APIs and
//! protocols.
//!
//! Anthropic (`input_schema`), OpenAI Chat (`{type: function, function: …}`)
//! and Responses (flat), Gemini (`functionDeclarations`), MCP (`inputSchema`,
//! `outputSchema`, `annotations`), and a format with `type: REST` and
//! `metadata`. The shared keys may stand beside theirs. Without a `kind` such a
//! tool is native: the program that loads it brings the code.

use serde_json::Value;

use super::Definition;
use super::check;
use super::header::{self, ToolDraft};
use super::node::{Node, NodeValue};
use super::reader::{self, FaultReport, MapFields};
use super::schema::{self, Dialect};
use crate::tool::{Behaviour, Exposure, Kind, ToolSpec};
use crate::value::text::Text;

const INPUT: [&str; 5] =
    ["input_schema", "inputSchema", "parameters", "parametersJsonSchema", "parameters_json_schema"];
const OUTPUT: [&str; 5] =
    ["output_schema", "outputSchema", "response", "responseJsonSchema", "response_json_schema"];

/// Keys that only matter to the API they come from.
const FOREIGN: [&str; 8] = [
    "strict",
    "cache_control",
    "execution",
    "_meta",
    "behavior",
    "input_examples",
    "allowed_callers",
    "eager_input_streaming",
];

/// The key under which a document wraps a list of tools, if it does.
pub(super) fn wrapped(node: &Node) -> Option<&'static str> {
    let lists = ["tools", "functionDeclarations", "function_declarations"];
    lists.into_iter().find(|key| node.has(key)).filter(|_| !node.has("name"))
}

/// Whether a document has this form.
pub(super) fn is_json_schema(node: &Node) -> bool {
    INPUT.iter().any(|key| *key != "parameters" && node.has(key))
        || node.has("type")
        || node.has("function")
        || node.get("parameters").is_some_and(|schema| matches!(schema.data, NodeValue::Map(_)))
}

/// Reads one tool.
pub(super) fn read(node: &Node, report: &mut FaultReport<'_>) -> Option<Definition> {
    let mut fields = MapFields::of(node, "a tool", report)?;
    let Some(inner) = fields.get("function") else { return read_flat(fields, report) };
    if let Some(kind) = fields.need("type", report) {
        reader::choice(kind, "tool type", &[("function", ())], report);
    }
    fields.finish(report);
    read_flat(MapFields::of(inner, "`function`", report)?, report)
}

fn read_flat(mut fields: MapFields<'_>, report: &mut FaultReport<'_>) -> Option<Definition> {
    fields.ignore(&FOREIGN);
    let name = fields.need("name", report);
    let mut draft = ToolDraft::new(fields.at, name, report)?;
    draft.of_others = true;
    if let Some(node) = fields.get("description") {
        draft.spec.description = reader::i18n(node, "description", report).unwrap_or_default();
    }
    if let Some(node) = fields.get_any(&INPUT, report) {
        read_input(node, &mut draft, report);
    }
    if let Some(node) = fields.get_any(&OUTPUT, report) {
        draft.spec.output = Some(schema::read(node, Dialect::JsonSchema, report));
    }
    let kind = fields.get("type").and_then(|node| read_kind(node, report));
    header::read_kind(&mut fields, &mut draft, kind.unwrap_or(Kind::Native), report);
    if let Some(node) = fields.get("title") {
        draft.spec.label = reader::text(node, "title", report).map(Text::One);
    }
    if let Some(node) = fields.get("icons") {
        draft.spec.icon = first_icon(node);
    }
    if let Some(node) = fields.get("annotations") {
        read_annotations(node, &mut draft.spec, report);
    }
    if let Some(node) = fields.get("defer_loading")
        && reader::flag(node, "defer_loading", report) == Some(true)
    {
        draft.spec.exposure = Exposure::Deferred;
    }
    Some(draft.finish(fields, report))
}

/// Reads the schema of the arguments: an object, even if it does not say so.
fn read_input(node: &Node, draft: &mut ToolDraft, report: &mut FaultReport<'_>) {
    let NodeValue::Map(entries) = &node.data else {
        report.hinted(
            node.at,
            format!("the arguments are a JSON Schema, found {}", node.kind_name()),
            "write `type: object` and `properties`",
        );
        return;
    };
    let structural = |key: &str| {
        key.starts_with('$')
            || [
                "type",
                "properties",
                "additionalProperties",
                "patternProperties",
                "required",
                "allOf",
                "anyOf",
                "oneOf",
                "description",
                "title",
            ]
            .contains(&key)
    };
    if !entries.is_empty() && !entries.iter().any(|entry| structural(&entry.key)) {
        report.hinted(
            node.at,
            "the arguments are a mapping, but not a JSON Schema",
            "write a list of parameters, or `type: object` and `properties`",
        );
        return;
    }
    let Value::Object(mut input) = schema::read(node, Dialect::JsonSchema, report) else { return };
    match input.get("type") {
        Some(Value::String(name)) if name == "object" => {}
        Some(other) => {
            let at = node.get("type").map_or(node.at, |node| node.at);
            report.hinted(at, format!("the arguments are of type {other}"), "write `object`");
        }
        None => {
            input.insert("type".to_owned(), "object".into());
        }
    }
    // With a combinator or open properties, required names need not be declared
    // here.
    let closed = ["allOf", "anyOf", "oneOf", "$ref", "if", "patternProperties"]
        .iter()
        .all(|key| !input.contains_key(*key))
        && input.get("additionalProperties").is_none_or(|more| more == false);
    if closed && let Some(required) = node.get("required") {
        check::required(&input, required.at, report);
    }
    if let Some(Node { data: NodeValue::Map(properties), .. }) = node.get("properties") {
        draft.places.extend(properties.iter().map(|entry| (entry.key.clone(), entry.at)));
    }
    draft.spec.input = Value::Object(input);
}

/// Reads `type`: `function` and `custom` are what model APIs call any tool;
/// other values name the kind.
fn read_kind(node: &Node, report: &mut FaultReport<'_>) -> Option<Kind> {
    let word = reader::text(node, "type", report)?;
    if matches!(word.as_str(), "function" | "custom") {
        return None;
    }
    let kind = header::kind_in_capitals(&word);
    if kind.is_none() {
        let known = ["function", "BUILTIN", "NATIVE", "REST", "MCP"];
        reader::unknown(node.at, &format!("tool type `{word}`"), &word, &known, report);
    }
    kind
}

fn first_icon(node: &Node) -> Option<String> {
    let NodeValue::List(icons) = &node.data else { return None };
    match &icons.first()?.get("src")?.data {
        NodeValue::Text(source) => Some(source.clone()),
        _ => None,
    }
}

/// Reads MCP's annotations. A tool that is not read-only is destructive by
/// default, as in MCP.
fn read_annotations(node: &Node, spec: &mut ToolSpec, report: &mut FaultReport<'_>) {
    let Some(mut fields) = MapFields::of(node, "`annotations`", report) else { return };
    if let Some(node) = fields.get("title")
        && spec.label.is_none()
    {
        spec.label = reader::text(node, "title", report).map(Text::One);
    }
    let mut hint = |key| fields.get(key).and_then(|node| reader::flag(node, key, report));
    let read_only = hint("readOnlyHint");
    let destructive = hint("destructiveHint");
    let idempotent = hint("idempotentHint");
    hint("openWorldHint");
    fields.finish(report);
    let read_only_or_unsaid = read_only.unwrap_or_default();
    spec.behaviour = Behaviour {
        read_only: read_only_or_unsaid,
        concurrency_safe: read_only_or_unsaid.then_some(true),
        idempotent: idempotent.unwrap_or_default() || read_only_or_unsaid,
        destructive: !read_only_or_unsaid && destructive.unwrap_or(read_only.is_some()),
    };
}
