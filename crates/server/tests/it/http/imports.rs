//! API documents over HTTP: sent, uploaded, tried out, imported again.

use serde_json::{Value, json};

use super::server::Server;

fn document(paths: &Value) -> Value {
    json!({
        "openapi": "3.0.3", "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9/v1"}], "paths": paths,
    })
}

fn pets() -> Value {
    document(&json!({
        "/pets": {
            "get": {"operationId": "list_pets", "responses": {}},
            "post": {"operationId": "create_pet", "responses": {}, "requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": {"name": {"type": "string"}}}}}}},
        },
        "/gone": {"$ref": "#/nowhere"},
    }))
}

#[test]
fn a_document_is_tried_imported_and_imported_again() {
    let server = Server::start();
    let client = server.key("default", "operator");
    let body = |dry_run: bool| json!({"name": "pets", "document": pets(), "dry_run": dry_run});
    let dry = client.post("/v1/providers", &body(true)).is(200);
    assert_eq!(
        (dry["tools"].as_array().unwrap().len(), &dry["unsupported"][0]["operation"]),
        (2, &json!("* /gone"))
    );
    client.get("/v1/providers/pets").problem(404, "not_found");

    let made = client.post("/v1/providers", &body(false)).is(201);
    assert_eq!(made["tools"], json!(["create_pet", "list_pets"]));
    client.post("/v1/providers", &body(false)).problem(409, "conflict");
    assert_eq!(client.get("/v1/tools/list_pets").is(200)["kind"], "rest");
    let other = server.key("other", "operator");
    other.get("/v1/tools/list_pets").problem(404, "not_found");
    other.get("/v1/providers/pets").problem(404, "not_found");

    let mut next = pets();
    next["paths"]["/pets"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
        ["tag"] = json!({"type": "string"});
    next["paths"]["/toys"] = json!({"get": {"operationId": "list_toys", "responses": {}}});
    let path = "/v1/providers/pets/document";
    let update =
        |dry_run: bool| client.put(path, &json!({"document": next, "dry_run": dry_run})).is(200);
    for done in [update(true), update(false)] {
        assert_eq!(
            (&done["added"], &done["changed"][0]["name"]),
            (&json!(["list_toys"]), &json!("create_pet"))
        );
    }
    // What changed asks a person before it runs.
    client.post("/v1/calls", &json!({"tool": "create_pet", "arguments": {"name": "x"}})).is(202);
    let accepted = client.post("/v1/providers/pets/accept", &json!({})).is(200);
    assert_eq!((&accepted["accepted"], &accepted["flagged"]), (&json!(["create_pet"]), &json!([])));
    let called =
        client.post("/v1/calls", &json!({"tool": "create_pet", "arguments": {"name": "x"}}));
    assert!(called.text().contains("127.0.0.1"), "the guard refuses: {}", called.text());
    assert_ne!(called.status, 202);

    let server = server.kill_and_start();
    let client = server.key("default", "operator");
    assert_eq!(client.get("/v1/tools/list_toys").is(200)["name"], "list_toys");
    client.delete("/v1/providers/pets").is(204);
    client.get("/v1/tools/list_toys").problem(404, "not_found");
}

#[test]
fn documents_are_uploaded_and_bad_ones_refused() {
    let server = Server::start();
    let client = server.key("default", "operator");
    let yaml = b"swagger: '2.0'\ninfo: {title: x}\nhost: x.example\npaths: {/a: {get: {operationId: get_a}}}\n";
    let kind = [("Content-Type", "application/yaml")];
    let made = client.send("POST", "/v1/providers?name=up", &kind, yaml).is(201);
    assert_eq!(made["tools"], json!(["get_a"]));
    client.send("POST", "/v1/providers", &kind, yaml).problem(400, "invalid_request");
    for (body, place) in [
        (json!({"name": "x"}), "/definition"),
        (json!({"document": pets()}), "/name"),
        (json!({"document": pets(), "url": "https://x.example", "name": "x"}), "/definition"),
        (json!({"document": pets(), "name": "x", "options": {"colour": 1}}), "/options"),
    ] {
        let problem = client.post("/v1/providers", &body).problem(400, "invalid_request");
        assert_eq!(problem["errors"][0]["path"], place, "{problem}");
    }
    client
        .post("/v1/providers", &json!({"document": "a: b", "name": "x"}))
        .problem(400, "invalid_definition");
    client
        .post("/v1/providers", &json!({"document": pets(), "name": "../x"}))
        .problem(400, "invalid_arguments");
    let inside = client.post("/v1/providers", &json!({"url": "http://127.0.0.1:1/x", "name": "x"}));
    assert!((400..500).contains(&inside.status), "{}", inside.text());
    // Larger than other bodies may be, but not than a document.
    let mut large = pets();
    large["info"]["description"] = json!("x".repeat(6 * 1024 * 1024));
    client
        .post("/v1/providers", &json!({"name": "large", "document": large, "dry_run": true}))
        .is(200);
}
