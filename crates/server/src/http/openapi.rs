//! The OpenAPI document, made from the table of routes, and a page to read it.

use std::fmt::Write;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::operation::{Answer, Operation};
use super::problem::{self, Problem};

/// What every route may answer besides its own.
const PROBLEMS: [(u16, &str); 10] = [
    (400, "The request is not what this route takes"),
    (401, "The API key is missing, unknown, expired or revoked"),
    (403, "The role of the key may not do this, or the page may not"),
    (404, "There is no such thing for this tenant"),
    (409, "Somebody was quicker, or it is there already"),
    (413, "The body is too large"),
    (415, "The body is not JSON"),
    (421, "The server does not answer for this name"),
    (429, "Too many calls"),
    (503, "The server ends, is full, or cannot use its database"),
];

/// The document of these rows.
pub(crate) fn document(rows: &[Operation]) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<Problem>().to_value();
    let mut paths = Map::new();
    for row in rows {
        let item = paths.entry(row.path).or_insert_with(|| json!({}));
        item[row.method.as_str().to_lowercase()] = operation(row, &mut generator, &problem);
    }
    let schemas: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Runs the tool calls of AI agents: one result for every call.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {"header": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    })
}

fn operation(row: &Operation, generator: &mut SchemaGenerator, problem: &Value) -> Value {
    let mut operation = json!({
        "operationId": row.name,
        "tags": [row.tag],
        "summary": row.summary,
        "responses": responses(row, generator, problem),
    });
    if let Some(details) = row.details {
        operation["description"] = details.into();
    }
    let parameters = parameters(row, generator);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some((media, describe)) = row.body {
        let schema = describe(generator).to_value();
        operation["requestBody"] =
            json!({"required": true, "content": {media: {"schema": schema}}});
    }
    if row.action.is_none() {
        operation["security"] = json!([]);
    }
    operation
}

fn parameters(row: &Operation, generator: &mut SchemaGenerator) -> Vec<Value> {
    let in_path = row.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        let schema = json!({"type": "string", "minLength": 1});
        Some(json!({"name": name, "in": "path", "required": true, "schema": schema}))
    });
    let mut parameters: Vec<Value> = in_path.collect();
    if let Some(describe) = row.query {
        let schema = resolve(describe(generator).to_value(), generator);
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let mut schema = schema.clone();
            let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            parameters.push(json!({
                "name": name,
                "in": "query",
                "required": required.contains(&json!(name)),
                "description": about.unwrap_or_default(),
                "schema": plain(schema),
            }));
        }
    }
    parameters.extend(row.headers.iter().map(|header| {
        json!({
            "name": header.name, "in": "header", "description": header.about,
            "schema": {"type": "string"},
        })
    }));
    parameters
}

/// A parameter that is not there is simply left out, and never null.
fn plain(mut schema: Value) -> Value {
    if let Some(types) = schema["type"].as_array()
        && let Some(own) = types.iter().find(|own| **own != json!("null")).cloned()
    {
        schema["type"] = own;
    }
    schema
}

/// The schema that a reference stands for.
fn resolve(schema: Value, generator: &SchemaGenerator) -> Value {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    match name.and_then(|name| generator.definitions().get(name)) {
        Some(found) => found.clone(),
        None => schema,
    }
}

fn responses(row: &Operation, generator: &mut SchemaGenerator, problem: &Value) -> Value {
    let mut responses = Map::new();
    for Answer { status, about, media, describe } in &row.answers {
        let answer = responses.entry(status.to_string()).or_insert_with(|| json!({}));
        answer["description"] = (*about).into();
        if media.is_empty() {
            continue;
        }
        answer["content"][*media] = match describe {
            Some(describe) => json!({"schema": describe(generator).to_value()}),
            None => json!({"schema": {"type": "string"}}),
        };
    }
    if row.has_problems {
        for (status, about) in PROBLEMS {
            responses.entry(status.to_string()).or_insert_with(
                || json!({"description": about, "content": {problem::MEDIA: {"schema": problem}}}),
            );
        }
    }
    Value::Object(responses)
}

/// The document as a page for people.
pub(crate) fn page(rows: &[Operation]) -> String {
    let mut page = String::from(HEAD);
    let mut tag = "";
    for row in rows {
        if row.tag != tag {
            tag = row.tag;
            let _ = write!(page, "<h2>{}</h2>", escape(tag));
        }
        let role = row.action.map_or("open to all".to_owned(), |action| format!("{action:?}"));
        let _ = write!(
            page,
            "<section><h3><code class={m}>{m}</code> <code>{}</code></h3><p>{} <small>({})</small></p>",
            escape(row.path),
            escape(row.summary),
            escape(&role.to_lowercase()),
            m = row.method,
        );
        if let Some(details) = row.details {
            let _ = write!(page, "<p>{}</p>", escape(details));
        }
        page.push_str("</section>");
    }
    page.push_str("</main></body></html>");
    page
}

const HEAD: &str = "<!doctype html><html lang=en><head><meta charset=utf-8>\
<meta name=viewport content='width=device-width,initial-scale=1'><title>Windlass API</title><style>\
body{font:16px/1.5 system-ui,sans-serif;margin:0;background:#fff;color:#1c1e21}\
main{max-width:52rem;margin:auto;padding:2rem 1rem}section{border-top:1px solid #ddd;padding:.5rem 0}\
code{font:14px ui-monospace,monospace;background:#f2f3f5;padding:.1rem .35rem;border-radius:4px}\
.GET{color:#0a6}.POST{color:#06c}.PUT{color:#a60}.DELETE{color:#c22}small{color:#667}\
@media(prefers-color-scheme:dark){body{background:#16181c;color:#e6e6e6}code{background:#24272d}\
section{border-color:#333}}</style></head><body><main><h1>Windlass API</h1>\
<p>The machine-readable form is <a href=/openapi.json>/openapi.json</a>. Every route but health \
needs an API key: <code>Authorization: Bearer KEY</code>.</p>";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
