//! Settings of nodes that reach out.

use std::collections::HashSet;

use super::named_selectors;
use crate::document::fields::{Fields, selector};
use crate::document::report::Report;
use crate::document::tree::{Data, Tree};
use crate::node::reach::{
    Action, Authorization, Body, Code, CodeOutput, Document, Field, FieldValue, Http, Human,
    HumanInput, Knowledge, Scheme, Template, Tool, ToolInput,
};
use crate::value::{Kind, Object, Value};

pub(super) fn code(data: Fields<'_>, report: &mut Report<'_>) -> Code {
    let languages = [("python3", "python3"), ("python", "python3"), ("javascript", "javascript")];
    Code {
        language: data.choice_or("code_language", &languages, "python3", report).to_owned(),
        code: data.need_text("code", "write a function `main`", report),
        variables: named_selectors(data, "variables", report),
        outputs: code_outputs(data.get("outputs"), report),
    }
}

fn code_outputs(tree: Option<&Tree>, report: &mut Report<'_>) -> Vec<CodeOutput> {
    let Some(tree) = tree else { return Vec::new() };
    let mut outputs = Vec::new();
    match &tree.data {
        // Files that people wrote have a list of `{variable, type}`.
        Data::List(_) => {
            let items = match &tree.data {
                Data::List(items) => items.as_slice(),
                _ => &[],
            };
            for item in items {
                let Some(fields) = Fields::of(item, "outputs", report) else { continue };
                let name = fields.text("variable", report).or_else(|| fields.text("name", report));
                let name = name.unwrap_or_default();
                outputs.push(CodeOutput {
                    name,
                    kind: output_kind(fields, report),
                    children: None,
                });
            }
        }
        Data::Map(entries) => {
            for entry in entries {
                let Some(fields) = Fields::of(&entry.value, "outputs", report) else { continue };
                let children = fields.get("children");
                let children = children.map(|children| code_outputs(Some(children), report));
                let kind = output_kind(fields, report);
                outputs.push(CodeOutput { name: entry.key.clone(), kind, children });
            }
        }
        _ => report.wrong(tree, "outputs", "a mapping of names to `{type: …}`"),
    }
    outputs
}

fn output_kind(fields: Fields<'_>, report: &mut Report<'_>) -> Kind {
    let written = fields.text("type", report).unwrap_or_else(|| "string".to_owned());
    Kind::from_name(&written).unwrap_or_else(|| {
        let hint = "write `string`, `number`, `object`, `boolean`, or `array[…]` of them";
        report.fault(fields.at(), format!("unknown type `{written}`"), hint);
        Kind::String
    })
}

pub(super) fn template(data: Fields<'_>, report: &mut Report<'_>) -> Template {
    Template {
        text: data.need_text("template", "write the template", report),
        variables: named_selectors(data, "variables", report),
    }
}

pub(super) fn tool(data: Fields<'_>, report: &mut Report<'_>) -> Tool {
    let id = data.text_or_empty("provider_id", report);
    let name = data.text("provider_name", report).filter(|name| !name.is_empty());
    let kind = data.text("provider_type", report).unwrap_or_else(|| "builtin".to_owned());
    let all = |key: &'static str, report: &mut Report<'_>| match data.get(key) {
        Some(tree) if !matches!(&tree.data, Data::List(items) if items.is_empty()) => {
            Fields::of(tree, key, report).map_or_else(Vec::new, |fields| inputs(fields, report))
        }
        _ => Vec::new(),
    };
    // The id of an API or a workflow is a random one; its name says more.
    let by_name = matches!(kind.as_str(), "api" | "workflow" | "mcp");
    let provider = match (by_name, name) {
        (true, Some(name)) => name,
        (_, name) if id.is_empty() => name.unwrap_or_default(),
        _ => id,
    };
    Tool {
        provider_kind: kind,
        provider,
        name: data.need_text("tool_name", "write the name of the tool", report),
        label: data.text_or_empty("tool_label", report),
        parameters: all("tool_parameters", report),
        configuration: all("tool_configurations", report),
        plugin: data.text("plugin_unique_identifier", report),
    }
}

/// `{name: {type: mixed | variable | constant, value}}`; nulls are left out.
pub(super) fn inputs(fields: Fields<'_>, report: &mut Report<'_>) -> Vec<(String, ToolInput)> {
    let mut read = Vec::new();
    for entry in fields.entries() {
        let name = entry.key.clone();
        let (kind, value) = match &entry.value.data {
            Data::Null => continue,
            Data::Map(_) if entry.value.get("value").is_some() => {
                let kind = entry.value.get("type").and_then(Tree::scalar).unwrap_or_default();
                (kind, entry.value.get("value"))
            }
            _ => (String::new(), Some(&entry.value)),
        };
        let Some(value) = value.filter(|value| !value.is_null()) else { continue };
        let input = match (kind.as_str(), &value.data) {
            ("variable", _) => match selector(value, &name, report) {
                Some(selector) => ToolInput::Variable(selector),
                None => continue,
            },
            (_, Data::Text(text)) => ToolInput::Text(text.clone()),
            _ => ToolInput::Constant(Value::from_json(value.to_json())),
        };
        read.push((name, input));
    }
    read
}

pub(super) fn http(data: Fields<'_>, report: &mut Report<'_>) -> Http {
    let methods = ["get", "post", "put", "patch", "delete", "head", "options"];
    let method = data.text("method", report).unwrap_or_else(|| "get".to_owned()).to_lowercase();
    if !methods.contains(&method.as_str()) {
        let at = data.get("method").map_or(data.at(), |tree| tree.at);
        report.fault(
            at,
            format!("unknown method `{method}`"),
            format!("use one of {}", methods.join(", ")),
        );
    }
    let timeout = data.map("timeout", report);
    let timeouts = ["connect", "read", "write"].map(|key| {
        timeout.map(|timeout| timeout.count(key, 0, report)).filter(|seconds| *seconds > 0)
    });
    Http {
        method: method.to_uppercase(),
        url: data.need_text("url", "write the address", report),
        headers: lines(data, "headers", report),
        params: lines(data, "params", report),
        authorization: authorization(data, report),
        body: body(data, report),
        timeouts,
        verifies: data.flag("ssl_verify", true, report),
    }
}

/// Lines `name:value`; some files have a list of `{key, value}` instead.
fn lines(data: Fields<'_>, key: &'static str, report: &mut Report<'_>) -> String {
    match data.get(key).map(|tree| &tree.data) {
        Some(Data::List(_)) => {
            let items = data.maps(key, report).into_iter();
            let lines = items.map(|item| {
                let (name, value) =
                    (item.text_or_empty("key", report), item.text_or_empty("value", report));
                format!("{name}:{value}")
            });
            lines.collect::<Vec<_>>().join("\n")
        }
        _ => data.text_or_empty(key, report),
    }
}

fn authorization(data: Fields<'_>, report: &mut Report<'_>) -> Option<Authorization> {
    let fields = data.map("authorization", report)?;
    let kinds = [("no-auth", false), ("api-key", true), ("none", false)];
    if !fields.choice("type", &kinds, false, report) {
        return None;
    }
    fields.need("config", "write `config: {type: bearer, api_key: …}`", report)?;
    let config = fields.map("config", report)?;
    let schemes =
        [("basic", Scheme::Basic), ("bearer", Scheme::Bearer), ("custom", Scheme::Custom)];
    let header = config.text("header", report).filter(|header| !header.is_empty());
    Some(Authorization {
        scheme: config.choice("type", &schemes, Scheme::Bearer, report),
        key: config.text_or_empty("api_key", report),
        header: header.unwrap_or_else(|| "Authorization".to_owned()),
    })
}

fn body(data: Fields<'_>, report: &mut Report<'_>) -> Body {
    let Some(fields) = data.map("body", report) else { return Body::None };
    let kinds = [
        ("none", 0),
        ("raw-text", 1),
        ("json", 2),
        ("binary", 3),
        ("x-www-form-urlencoded", 4),
        ("form-data", 5),
        ("", 0),
    ];
    let kind = fields.choice("type", &kinds, 0, report);
    let old_text = fields.get("data").and_then(Tree::scalar);
    let items = if old_text.is_some() { Vec::new() } else { fields.maps("data", report) };
    let single = || {
        let first = items.first().map(|item| item.get("value").and_then(Tree::scalar));
        old_text.clone().or_else(|| first.flatten()).unwrap_or_default()
    };
    match kind {
        1 => Body::Raw(single()),
        2 => Body::Json(single()),
        3 => {
            Body::Binary(items.first().and_then(|i| i.selector("file", report)).unwrap_or_default())
        }
        4 | 5 => {
            let mut form: Vec<Field> =
                old_text.iter().flat_map(|text| text.lines()).map(old_field).collect();
            for item in &items {
                let name = item.text_or_empty("key", report);
                let is_file = item.text("type", report).as_deref() == Some("file");
                let value = match is_file {
                    true => FieldValue::Files(item.selector("file", report).unwrap_or_default()),
                    false => FieldValue::Text(item.text_or_empty("value", report)),
                };
                form.push(Field { name, value });
            }
            if kind == 4 { Body::Form(form) } else { Body::Multipart(form) }
        }
        _ => Body::None,
    }
}

/// A line `name:value` of an old form.
fn old_field(line: &str) -> Field {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    Field { name: name.trim().to_owned(), value: FieldValue::Text(value.trim().to_owned()) }
}

pub(super) fn knowledge(data: Fields<'_>, report: &mut Report<'_>) -> Knowledge {
    let many = data.map("multiple_retrieval_config", report);
    if let Some(many) = many
        && let Some(tree) = many.get("top_k")
        && many.count("top_k", 4, report) < 1
    {
        report.fault(tree.at, "`top_k` is less than 1", "write how many results are wanted");
    }
    let scored = many.filter(|many| many.flag("score_threshold_enabled", true, report));
    let settings = data
        .entries()
        .iter()
        .filter(|entry| entry.key.contains("retrieval") || entry.key.contains("metadata"));
    let settings = settings.map(|entry| (entry.key.clone(), entry.value.to_json())).collect();
    Knowledge {
        query: data.selector("query_variable_selector", report),
        datasets: data.list("dataset_ids", report).iter().filter_map(Tree::scalar).collect(),
        top_k: many.map_or(4, |many| many.count("top_k", 4, report)),
        threshold: scored.and_then(|many| many.number("score_threshold", report)),
        settings: serde_json::Value::Object(settings),
    }
}

pub(super) fn document(data: Fields<'_>, report: &mut Report<'_>) -> Document {
    Document {
        files: data.need_selector("variable_selector", report),
        is_list: data.flag("is_array_file", false, report),
    }
}

pub(super) fn human(data: Fields<'_>, report: &mut Report<'_>) -> Human {
    let (mut names, mut ids) = (HashSet::new(), HashSet::new());
    let (mut inputs, mut actions) = (Vec::new(), Vec::new());
    for fields in data.maps("inputs", report) {
        let name = fields.need_text("output_variable_name", "write a name", report);
        if !names.insert(name.clone()) {
            let message = format!("two inputs have the name `{name}`");
            report.fault(fields.at(), message, "write another `output_variable_name`");
        }
        let settings = fields.entries().iter();
        let settings: Object =
            settings.map(|e| (e.key.clone(), Value::from_json(e.value.to_json()))).collect();
        let kind = fields.text("type", report).unwrap_or_else(|| "paragraph".to_owned());
        inputs.push(HumanInput { name, kind, settings });
    }
    for fields in data.maps("user_actions", report) {
        let id = fields.need_text("id", "write an id that no other action has", report);
        if !ids.insert(id.clone()) {
            report.fault(fields.at(), format!("two actions have the id `{id}`"), "write another");
        }
        let title = fields.text("title", report).unwrap_or_else(|| id.clone());
        actions.push(Action { id, title });
    }
    let units =
        [("day", 86_400), ("days", 86_400), ("hour", 3_600), ("hours", 3_600), ("minute", 60)];
    let unit: u64 = data.choice_or("timeout_unit", &units, 3_600, report);
    Human {
        form: data.text_or_empty("form_content", report),
        inputs,
        actions,
        timeout: data.count("timeout", 36, report).saturating_mul(unit),
        delivery: data.json("delivery_methods"),
    }
}
