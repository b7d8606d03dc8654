//! Converts a list of parameters to a JSON Schema, and to the settings that a
//! schema cannot express.
//!
//! The keys of both formats with such lists are accepted in either. `required`
//! defaults to false.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::check;
use super::header::ToolDraft;
use super::node::{MapEntry, Node, NodeValue};
use super::reader::{self, FaultReport, MapFields};
use super::schema::{self, Dialect};
use crate::tool::{FilledBy, InputKind, Parameter};
use crate::value::text::{Lang, Text};

/// Parameter types.
const TYPES: [&str; 10] = [
    "string",
    "number",
    "integer",
    "boolean",
    "array",
    "object",
    "any",
    "select",
    "secret-input",
    "file",
];

/// Constraints that may stand beside the parameter instead of under
/// `validation`.
const LIMITS: [&str; 7] =
    ["min", "max", "minimum", "maximum", "min_length", "max_length", "pattern"];

/// Reads all parameters into the tool.
pub(super) fn read_list(node: &Node, draft: &mut ToolDraft, report: &mut FaultReport<'_>) {
    let NodeValue::List(items) = &node.data else {
        let message = format!("`parameters` is a list, found {}", node.kind_name());
        report.hinted(node.at, message, "write `- name: …` for each parameter");
        return;
    };
    let mut properties = Map::new();
    let mut required = Vec::new();
    for item in items {
        let Some(read) = read_one(item, report) else { continue };
        let ReadParameter { name, schema, parameter } = read;
        if let Some(first) = draft.places.get(&name) {
            let message = format!("duplicate parameter `{name}`, first in line {}", first.line);
            report.add(item.at, message);
            continue;
        }
        draft.places.insert(name.clone(), item.at);
        if parameter.required && parameter.filled_by == FilledBy::Model {
            required.push(Value::String(name.clone()));
        }
        let said_by_schema = Parameter { required: parameter.required, ..Parameter::default() };
        if parameter != said_by_schema {
            draft.spec.parameters.insert(name.clone(), parameter);
        }
        properties.insert(name, Value::Object(schema));
    }
    draft.spec.input = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        draft.spec.input["required"] = Value::Array(required);
    }
}

struct ReadParameter {
    name: String,
    schema: Map<String, Value>,
    parameter: Parameter,
}

fn read_one(node: &Node, report: &mut FaultReport<'_>) -> Option<ReadParameter> {
    let mut fields = MapFields::of(node, "a parameter", report)?;
    let name = fields
        .need("name", report)
        .and_then(|node| reader::text(node, "name", report))
        .filter(|name| !name.is_empty());
    let mut parameter = Parameter::default();
    let mut schema = Map::new();
    let kind = fields.need("type", report).and_then(|node| read_type(node, report));
    let json_type = match kind {
        Some("select") => {
            parameter.input = InputKind::Select;
            None
        }
        Some("secret-input") => {
            parameter.input = InputKind::SecretInput;
            parameter.filled_by = FilledBy::Secret;
            Some("string")
        }
        Some("file") => {
            parameter.input = InputKind::File;
            Some("string")
        }
        Some("any") => None,
        other => other,
    };
    schema.extend(json_type.map(|name| ("type".to_owned(), Value::from(name))));
    read_texts(&mut fields, &mut parameter, &mut schema, report);
    read_options(&mut fields, kind, &mut schema, report);
    read_limits(&mut fields, node, &mut schema, report);
    read_filling(&mut fields, &mut parameter, report);
    let schema = read_default(&mut fields, &parameter, schema, report);
    fields.finish(report);
    Some(ReadParameter { name: name?, schema, parameter })
}

fn read_type(node: &Node, report: &mut FaultReport<'_>) -> Option<&'static str> {
    let word = reader::text(node, "type", report)?;
    let known = TYPES.into_iter().find(|name| *name == word);
    if known.is_none() {
        schema::unknown_type(node.at, &word, &TYPES, report);
    }
    known
}

/// Reads descriptions: the one for the model goes into the schema, the one for
/// people into `help`.
fn read_texts(
    fields: &mut MapFields<'_>,
    parameter: &mut Parameter,
    schema: &mut Map<String, Value>,
    report: &mut FaultReport<'_>,
) {
    let mut get = |key| fields.get(key).and_then(|node| reader::i18n(node, key, report));
    parameter.label = get("label");
    let human = get("human_description");
    let model = get("llm_description").filter(|text| !text.is_empty());
    let plain = get("description");
    let described = model.as_ref().or(plain.as_ref()).or(human.as_ref());
    if let Some(text) = described.filter(|text| !text.is_empty()) {
        schema.insert("description".to_owned(), text.get(Lang::En).into());
    }
    parameter.help = human.or_else(|| plain.filter(|text| matches!(text, Text::Many(_))));
}

/// Reads `options: [a, b]` or `[{value: a, label: …}]`. Labels of options are
/// dropped: nothing shows them yet.
fn read_options(
    fields: &mut MapFields<'_>,
    kind: Option<&str>,
    schema: &mut Map<String, Value>,
    report: &mut FaultReport<'_>,
) {
    let select = kind == Some("select");
    let Some(node) = fields.get("options") else {
        if select && !has_enum(fields) {
            report.hinted(fields.at, "a `select` needs `options`", "write `options: [a, b]`");
        }
        return;
    };
    let NodeValue::List(items) = &node.data else {
        report.add(node.at, format!("`options` is a list, found {}", node.kind_name()));
        return;
    };
    if items.is_empty() && select {
        report.add(node.at, "`options` is empty: no value would be allowed");
    }
    let mut values: Vec<Value> = Vec::new();
    let mut seen = HashSet::new();
    for item in items {
        let value = match &item.data {
            NodeValue::Map(_) => read_option(item, report),
            NodeValue::List(_) | NodeValue::Null => {
                report.add(item.at, format!("an option is a value, found {}", item.kind_name()));
                None
            }
            _ => Some(item.to_json()),
        };
        let Some(value) = value else { continue };
        if !seen.insert(value.to_string()) {
            report.add(item.at, format!("the option {value} is given twice"));
        } else {
            values.push(value);
        }
    }
    if !values.is_empty() {
        if select && values.iter().all(Value::is_string) {
            schema.insert("type".to_owned(), "string".into());
        }
        schema.insert("enum".to_owned(), Value::Array(values));
    }
}

fn read_option(node: &Node, report: &mut FaultReport<'_>) -> Option<Value> {
    let mut fields = MapFields::of(node, "an option", report)?;
    let value = fields.need("value", report).map(Node::to_json);
    fields.ignore(&["icon"]);
    if let Some(label) = fields.get("label") {
        reader::i18n(label, "label", report);
    }
    fields.finish(report);
    value
}

fn has_enum(fields: &mut MapFields<'_>) -> bool {
    fields.get("validation").is_some_and(|validation| validation.has("enum"))
}

fn read_limits(
    fields: &mut MapFields<'_>,
    node: &Node,
    schema: &mut Map<String, Value>,
    report: &mut FaultReport<'_>,
) {
    let mut limits: Vec<&MapEntry> = Vec::new();
    for key in LIMITS {
        fields.get(key);
    }
    if let NodeValue::Map(entries) = &node.data {
        let written = |entry: &&MapEntry| {
            LIMITS.contains(&entry.key.as_str()) && !matches!(entry.value.data, NodeValue::Null)
        };
        limits.extend(entries.iter().filter(written));
    }
    match fields.get("validation").map(|node| (node, &node.data)) {
        Some((_, NodeValue::Map(entries))) => limits.extend(entries),
        Some((node, _)) => {
            report.add(node.at, format!("`validation` is a mapping, found {}", node.kind_name()));
        }
        None => {}
    }
    schema::keywords(&limits, Dialect::Short, schema, report);
}

fn read_filling(
    fields: &mut MapFields<'_>,
    parameter: &mut Parameter,
    report: &mut FaultReport<'_>,
) {
    if let Some(node) = fields.get("required") {
        parameter.required = reader::flag(node, "required", report).unwrap_or_default();
    }
    let Some(node) = fields.get("form") else { return };
    const FORMS: [(&str, FilledBy); 2] = [("llm", FilledBy::Model), ("form", FilledBy::Form)];
    match (reader::choice(node, "form", &FORMS, report), parameter.filled_by) {
        (Some(FilledBy::Model), FilledBy::Secret) => {
            report.hinted(node.at, "a model never fills a secret", "write `form: form`");
        }
        (Some(filled_by), FilledBy::Model) => parameter.filled_by = filled_by,
        _ => {}
    }
}

fn read_default(
    fields: &mut MapFields<'_>,
    parameter: &Parameter,
    mut schema: Map<String, Value>,
    report: &mut FaultReport<'_>,
) -> Map<String, Value> {
    let Some(default) = fields.get("default") else { return schema };
    if parameter.filled_by == FilledBy::Secret {
        report.hinted(default.at, "a secret has no default", "store it as a credential");
        return schema;
    }
    let whole = Value::Object(schema);
    check::value(&whole, default, "the default", report);
    schema = match whole {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    schema.insert("default".to_owned(), default.to_json());
    schema
}
