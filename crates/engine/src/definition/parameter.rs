//! A list of parameters, as S0.3 and S3.3 write them, becomes a JSON Schema
//! and what a schema cannot say.
//!
//! Both documents' keys are taken in either form. `required` is false where it
//! is not written.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::check;
use super::header::Draft;
use super::located::{Data, Entry, Node};
use super::reader::{self, Fields, Report};
use super::schema::{self, Dialect};
use crate::tool::{FilledBy, InputKind, Parameter};
use crate::value::text::{Lang, Text};

/// The types of S0.4 and S3.3.
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

/// Limits that S3 writes beside the parameter instead of under `validation`.
const LIMITS: [&str; 7] =
    ["min", "max", "minimum", "maximum", "min_length", "max_length", "pattern"];

/// Reads all parameters into the tool.
pub(super) fn read_list(node: &Node, draft: &mut Draft, report: &mut Report<'_>) {
    let Data::List(items) = &node.data else {
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

fn read_one(node: &Node, report: &mut Report<'_>) -> Option<ReadParameter> {
    let mut fields = Fields::of(node, "a parameter", report)?;
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

fn read_type(node: &Node, report: &mut Report<'_>) -> Option<&'static str> {
    let word = reader::text(node, "type", report)?;
    let known = TYPES.into_iter().find(|name| *name == word);
    if known.is_none() {
        schema::unknown_type(node.at, &word, &TYPES, report);
    }
    known
}

/// What the model reads is the schema's description; what people read is help.
fn read_texts(
    fields: &mut Fields<'_>,
    parameter: &mut Parameter,
    schema: &mut Map<String, Value>,
    report: &mut Report<'_>,
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

/// `options: [a, b]` or `[{value: a, label: …}]`. Labels of options are not
/// kept: nothing shows them yet.
fn read_options(
    fields: &mut Fields<'_>,
    kind: Option<&str>,
    schema: &mut Map<String, Value>,
    report: &mut Report<'_>,
) {
    let select = kind == Some("select");
    let Some(node) = fields.get("options") else {
        if select && !has_enum(fields) {
            report.hinted(fields.at, "a `select` needs `options`", "write `options: [a, b]`");
        }
        return;
    };
    let Data::List(items) = &node.data else {
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
            Data::Map(_) => read_option(item, report),
            Data::List(_) | Data::Null => {
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

fn read_option(node: &Node, report: &mut Report<'_>) -> Option<Value> {
    let mut fields = Fields::of(node, "an option", report)?;
    let value = fields.need("value", report).map(Node::to_json);
    fields.ignore(&["icon"]);
    if let Some(label) = fields.get("label") {
        reader::i18n(label, "label", report);
    }
    fields.finish(report);
    value
}

fn has_enum(fields: &mut Fields<'_>) -> bool {
    fields.get("validation").is_some_and(|validation| validation.has("enum"))
}

fn read_limits(
    fields: &mut Fields<'_>,
    node: &Node,
    schema: &mut Map<String, Value>,
    report: &mut Report<'_>,
) {
    let mut limits: Vec<&Entry> = Vec::new();
    for key in LIMITS {
        fields.get(key);
    }
    if let Data::Map(entries) = &node.data {
        let written = |entry: &&Entry| {
            LIMITS.contains(&entry.key.as_str()) && !matches!(entry.value.data, Data::Null)
        };
        limits.extend(entries.iter().filter(written));
    }
    match fields.get("validation").map(|node| (node, &node.data)) {
        Some((_, Data::Map(entries))) => limits.extend(entries),
        Some((node, _)) => {
            report.add(node.at, format!("`validation` is a mapping, found {}", node.kind_name()));
        }
        None => {}
    }
    schema::keywords(&limits, Dialect::Short, schema, report);
}

fn read_filling(fields: &mut Fields<'_>, parameter: &mut Parameter, report: &mut Report<'_>) {
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
    fields: &mut Fields<'_>,
    parameter: &Parameter,
    mut schema: Map<String, Value>,
    report: &mut Report<'_>,
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
