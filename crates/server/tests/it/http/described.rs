//! Validates responses against the OpenAPI document. Nothing may occur that it does not
//! describe: clients are generated from it alone.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::server::Server;
use super::wire::{Answer, Client, Sent};

/// The one document of this program.
static DOCUMENT: Mutex<Option<&'static Value>> = Mutex::new(None);
static VALIDATORS: LazyLock<Mutex<HashMap<String, &'static Validator>>> =
    LazyLock::new(Mutex::default);

/// Any key that may read it, of whichever server.
pub(crate) fn learn(client: &Client) -> &'static Value {
    let mut known = DOCUMENT.lock().unwrap();
    known.get_or_insert_with(|| {
        let document = client.send_unchecked("GET", "/openapi.json", &[], b"").is(200);
        Box::leak(Box::new(document))
    })
}

fn document(address: SocketAddr) -> &'static Value {
    let known = *DOCUMENT.lock().unwrap();
    known.unwrap_or_else(|| {
        // A server of its own, whose first key may read it.
        let _ = address;
        learn(&Server::start().admin())
    })
}

/// The operation that a request is for.
fn operation<'a>(document: &'a Value, method: &str, path: &str) -> Option<(&'a str, &'a Value)> {
    let path = path.split('?').next().unwrap();
    let fits = |template: &str| {
        let (own, asked): (Vec<_>, Vec<_>) =
            (template.split('/').collect(), path.split('/').collect());
        own.len() == asked.len()
            && own.iter().zip(&asked).all(|(own, asked)| own.starts_with('{') || own == asked)
    };
    let paths = document["paths"].as_object().unwrap();
    // The one with the fewest parameters is the one that answers.
    let found = paths.iter().filter(|(template, _)| fits(template));
    let (template, item) = found.min_by_key(|(template, _)| template.matches('{').count())?;
    Some((template, item.get(method.to_lowercase())?))
}

/// Fails where the document does not have this answer.
#[track_caller]
pub(crate) fn check(address: SocketAddr, method: &str, path: &str, answer: &Answer) {
    assert!(answer.header("x-request-id").is_some(), "{answer}");
    let document = document(address);
    let Some((template, operation)) = operation(document, method, path) else {
        assert!(matches!(answer.status, 404 | 405 | 421), "{method} {path}: {answer}");
        return;
    };
    let described = &operation["responses"][answer.status.to_string()];
    assert!(
        described.is_object(),
        "{method} {path} answers {} on its own: {answer}",
        answer.status
    );
    if answer.body.is_empty() || method == "HEAD" {
        return;
    }
    let media = answer.header("content-type").unwrap_or_default();
    let media = media.split(';').next().unwrap();
    let Some(content) = described["content"].get(media) else {
        // Files have the media type that they came with.
        assert!(template.starts_with("/v1/files"), "{method} {path} answers with {media}");
        return;
    };
    if media.ends_with("json") && answer.header("content-encoding").is_none() {
        let name = format!("{method} {template} {} {media}", answer.status);
        hold(document, &name, &content["schema"], &answer.value());
    }
}

/// Fails where the document does not have this event.
#[track_caller]
pub(crate) fn check_event(address: SocketAddr, method: &str, path: &str, sent: &Sent) {
    let document = document(address);
    let (template, operation) = operation(document, method, path).unwrap();
    let schema = &operation["responses"]["200"]["content"]["text/event-stream"]["schema"];
    let place = schema["$ref"].as_str().unwrap().strip_prefix('#').unwrap();
    let events = document.pointer(place).unwrap()["oneOf"].as_array().unwrap();
    let own = |event: &&Value| event["properties"]["event"]["const"] == sent.name.as_str();
    let event = events.iter().find(own);
    let event = event.unwrap_or_else(|| panic!("{template} sends {sent:?}"));
    let data = &event["properties"]["data"]["contentSchema"];
    hold(document, &format!("{template} {}", sent.name), data, &sent.data);
}

#[track_caller]
fn hold(document: &Value, name: &str, schema: &Value, value: &Value) {
    let mut validators = VALIDATORS.lock().unwrap();
    let validator = *validators.entry(name.to_owned()).or_insert_with(|| {
        let mut whole = json!({"allOf": [schema], "components": document["components"]});
        // What is put together of parts has no part that knows all of it.
        if schema.get("allOf").is_none() {
            close(&mut whole);
        }
        Box::leak(Box::new(jsonschema::validator_for(&whole).unwrap()))
    });
    drop(validators);
    let faults: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{name} is not as described: {faults:#?} in {value:#}");
}

/// What is not named may not be there.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.iter_mut().filter(|(name, _)| *name != "example").for_each(|it| close(it.1));
            let named = members.get("properties").is_some_and(Value::is_object);
            if named && !members.contains_key("additionalProperties") {
                members.insert("unevaluatedProperties".to_owned(), false.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

#[test]
fn the_document_describes_every_route_in_full() {
    let server = Server::start();
    let document = learn(&server.admin());
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let place = format!("{method} {path}");
            ids.push(operation["operationId"].as_str().unwrap());
            assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{place}");
            if let Some(content) = operation["requestBody"]["content"].get("application/json") {
                let example = &content["example"];
                assert!(example.is_object(), "{place} has no example");
                hold(document, &format!("{place} body"), &content["schema"], example);
            }
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let about = answer["description"].as_str().unwrap();
                assert!(!about.is_empty(), "{place} {status}");
                assert!(status == "204" || answer["content"].is_object(), "{place} {status}");
            }
            let open = operation["security"].as_array().is_some_and(Vec::is_empty);
            let free = ["/healthz", "/readyz", "/v1/files/{file_id}/content", "/v1/oauth/callback"];
            assert_eq!(open, free.contains(&path.as_str()), "{place}");
        }
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "every operation has a name of its own");
    // No schema says nothing at all.
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let says = ["properties", "oneOf", "anyOf", "enum", "type"];
        assert!(says.iter().any(|key| schema.get(key).is_some()), "{name}: {schema}");
    }
}

#[test]
fn the_page_for_people_shows_every_route_and_runs_nothing() {
    let server = Server::start();
    let admin = server.admin();
    let document = learn(&admin);
    let page = admin.get("/docs");
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    let text = page.text();
    for (path, item) in document["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(text.contains(&format!("<section id=\"{id}\"")), "{id}");
        }
        assert!(text.contains(&format!("<code>{path}</code>")), "{path}");
    }
    assert!(!text.contains("<script") && !text.contains("src=") && !text.contains("http://"));
    assert_eq!(text.matches("<pre>curl").count(), text.matches("<section").count());
    // A browser can only send a key as a password.
    let mut browser = server.nobody();
    let basic = "Basic dXNlcjo=";
    assert_eq!(browser.send("GET", "/docs", &[("Authorization", basic)], b"").status, 401);
    browser.key = None;
    assert_eq!(browser.get("/docs").status, 401);
}
