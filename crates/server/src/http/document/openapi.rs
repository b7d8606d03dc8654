//! The OpenAPI document, generated from the table of routes.

mod generators;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::operation::{ResponseDoc, RouteSpec};
use super::shape;
use crate::http::front::problem;
use crate::state::identity::Permission;

/// What every route may answer besides its own.
const PROBLEMS: [(u16, &str); 11] = [
    (400, "The request is not what this route takes"),
    (401, "The API key is missing, unknown, expired or revoked"),
    (403, "The role of the key may not do this, or the page may not"),
    (404, "There is no such thing for this tenant"),
    (408, "The body did not come in time"),
    (409, "Somebody was quicker, or it is there already"),
    (413, "The body is too large"),
    (415, "The body is not JSON"),
    (421, "The server does not answer for this name"),
    (429, "Too many calls"),
    (503, "The server ends, is full, or cannot use its database"),
];

const ABOUT: &str = "Runs the tool calls of AI agents: one result for every call. Errors of \
                     requests are RFC 9457 problems with a `code`, the place in the request and \
                     what to do. Every answer has `X-Request-Id`: the request's own, or a new one. \
                     Lists come in pages: `next` of one is `cursor` of the next. Ids of another \
                     tenant are answered like unknown ids.";

/// The document of these rows.
pub(crate) fn document(rows: &[RouteSpec]) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<problem::ProblemBody>().to_value();
    let mut paths = Map::new();
    for row in rows {
        let item = paths.entry(row.path).or_insert_with(|| json!({}));
        item[row.method.as_str().to_lowercase()] = operation(row, &mut generator, &problem);
    }
    let mut schemas: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    schemas.values_mut().for_each(generators::schema);
    let mut paths = Value::Object(paths);
    generators::paths(&mut paths);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
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

fn operation(row: &RouteSpec, generator: &mut SchemaGenerator, problem: &Value) -> Value {
    let mut operation = json!({
        "operationId": row.name,
        "tags": [row.tag],
        "summary": row.summary,
        "x-roles": row.action.map_or_else(|| "open to all".to_owned(), Permission::roles),
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
        let mut content = json!({"schema": describe(generator).to_value()});
        if let Some(example) = row.example {
            content["example"] = example();
        }
        operation["requestBody"] = json!({"required": true, "content": {media: content}});
    }
    if row.action.is_none() {
        operation["security"] = json!([]);
    }
    operation
}

fn parameters(row: &RouteSpec, generator: &mut SchemaGenerator) -> Vec<Value> {
    let in_path = row.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        let schema = json!({
            "type": "string", "minLength": 1, "maxLength": 128, "pattern": shape::PLAIN,
        });
        let about = format!("the {}", name.replace('_', " "));
        Some(json!({
            "name": name, "in": "path", "required": true, "description": about, "schema": schema,
        }))
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
                "schema": without_null(schema, generator),
            }));
        }
    }
    parameters.extend(row.headers.iter().map(|header| {
        json!({
            "name": header.name, "in": "header", "description": header.about,
            "schema": header.schema(),
        })
    }));
    parameters
}

/// A parameter that is not there is simply left out, and never null.
fn without_null(mut schema: Value, generator: &SchemaGenerator) -> Value {
    let choices = schema["anyOf"].as_array();
    if let Some(own) = choices.and_then(|all| all.iter().find(|own| own["type"] != "null")) {
        return resolve(own.clone(), generator);
    }
    schema = resolve(schema, generator);
    if let Some(types) = schema["type"].as_array()
        && let Some(own) = types.iter().find(|own| **own != json!("null")).cloned()
    {
        schema["type"] = own;
    }
    let is_free = ["format", "pattern", "enum"].iter().all(|key| schema.get(key).is_none());
    if schema["type"] == "string" && is_free {
        schema["pattern"] = shape::PLAIN.into();
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

fn responses(row: &RouteSpec, generator: &mut SchemaGenerator, problem: &Value) -> Value {
    let mut responses = Map::new();
    for ResponseDoc { status, about, media, describe } in &row.answers {
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
    for (status, answer) in &mut responses {
        answer["headers"] = headers(status);
    }
    Value::Object(responses)
}

/// The headers of an answer that clients may want.
fn headers(status: &str) -> Value {
    let header = |about: &str| json!({"description": about, "schema": {"type": "string"}});
    let mut headers = json!({"X-Request-Id": header("the id of the request")});
    match status {
        "201" | "202" => headers["Location"] = header("where to find it"),
        "401" => headers["WWW-Authenticate"] = header("how to send a key"),
        "206" | "416" => headers["Content-Range"] = header("which part it is"),
        "429" | "503" => headers["Retry-After"] = header("when to try again, in seconds"),
        _ => {}
    }
    headers
}
