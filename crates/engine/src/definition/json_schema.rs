//! The form of model APIs and protocols: arguments are a JSON Schema.
//!
//! Anthropic (`input_schema`), OpenAI Chat (`{type: function, function: …}`)
//! and Responses (flat), Gemini (`functionDeclarations`), MCP (`inputSchema`,
//! `outputSchema`, `annotations`) and S1.9 (`type: REST`, `metadata`). The keys
//! that every form takes may stand beside theirs. Without a `kind` such a tool
//! is native: the program that loads it brings the code.

use serde_json::Value;

use super::Definition;
use super::check;
use super::header::{self, Draft};
use super::located::{Data, Node};
use super::reader::{self, Fields, Report};
use super::schema::{self, Dialect};
use crate::tool::{Behaviour, Exposure, Kind, ToolSpec};
use crate::value::text::Text;

const INPUT: [&str; 5] =
    ["input_schema", "inputSchema", "parameters", "parametersJsonSchema", "parameters_json_schema"];
const OUTPUT: [&str; 5] =
    ["output_schema", "outputSchema", "response", "responseJsonSchema", "response_json_schema"];

/// Keys that matter to the API they come from, and to nothing here.
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

/// The key under which a document wraps a list of tools.
pub(super) fn wrapped(node: &Node) -> Option<&'static str> {
    let lists = ["tools", "functionDeclarations", "function_declarations"];
    lists.into_iter().find(|key| node.has(key)).filter(|_| !node.has("name"))
}

/// Whether a document has the shape of this form.
pub(super) fn is_json_schema(node: &Node) -> bool {
    INPUT.iter().any(|key| *key != "parameters" && node.has(key))
        || node.has("type")
        || node.has("function")
        || node.get("parameters").is_some_and(|schema| matches!(schema.data, Data::Map(_)))
}

/// Reads one tool.
pub(super) fn read(node: &Node, report: &mut Report<'_>) -> Option<Definition> {
    let mut fields = Fields::of(node, "a tool", report)?;
    let Some(inner) = fields.get("function") else { return read_flat(fields, report) };
    if let Some(kind) = fields.need("type", report) {
        reader::choice(kind, "tool type", &[("function", ())], report);
    }
    fields.finish(report);
    read_flat(Fields::of(inner, "`function`", report)?, report)
}

fn read_flat(mut fields: Fields<'_>, report: &mut Report<'_>) -> Option<Definition> {
    fields.ignore(&FOREIGN);
    let name = fields.need("name", report);
    let mut draft = Draft::new(fields.at, name, report)?;
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

/// Reads the schema of the arguments: an object, whether it says so or not.
fn read_input(node: &Node, draft: &mut Draft, report: &mut Report<'_>) {
    let Data::Map(entries) = &node.data else {
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
    // With a combinator, or open to more, a name may be required that no
    // property here declares.
    let closed = ["allOf", "anyOf", "oneOf", "$ref", "if", "patternProperties"]
        .iter()
        .all(|key| !input.contains_key(*key))
        && input.get("additionalProperties").is_none_or(|more| more == false);
    if closed && let Some(required) = node.get("required") {
        check::required(&input, required.at, report);
    }
    if let Some(Node { data: Data::Map(properties), .. }) = node.get("properties") {
        draft.places.extend(properties.iter().map(|entry| (entry.key.clone(), entry.at)));
    }
    draft.spec.input = Value::Object(input);
}

/// `function` and `custom` are what model APIs call any tool; S1.9 names the
/// kind.
fn read_kind(node: &Node, report: &mut Report<'_>) -> Option<Kind> {
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
    let Data::List(icons) = &node.data else { return None };
    match &icons.first()?.get("src")?.data {
        Data::Text(source) => Some(source.clone()),
        _ => None,
    }
}

/// MCP's hints. A tool that changes something is destructive unless it says
/// otherwise: that is MCP's own default.
fn read_annotations(node: &Node, spec: &mut ToolSpec, report: &mut Report<'_>) {
    let Some(mut fields) = Fields::of(node, "`annotations`", report) else { return };
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
