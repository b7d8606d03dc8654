//! API documents over HTTP: sent inline, uploaded, previewed, imported again.

use serde_json::{Value, json};

use super::server::Server;
use crate::upstream::{Said, TestUpstream};

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

#[test]
fn large_documents_are_sent_fetched_and_sent_again() {
    // More than a body may have, and more than a model may fetch.
    let mut large = pets();
    large["info"]["x-logo"] = "a".repeat(11 * 1024 * 1024).into();
    let text = large.to_string();
    let site = TestUpstream::start(move |_| Said::text("200 OK", "application/json", text.clone()));
    let server = Server::with("outbound: {allow: [127.0.0.1]}", &[]);
    let client = server.key("default", "operator");
    client.post("/v1/providers", &json!({"name": "sent", "document": large})).is(201);
    let again = client.put("/v1/providers/sent/document", &json!({"document": large})).is(200);
    assert_eq!(again["unchanged"], 2);
    let url = format!("{}/pets", site.url());
    let fetch = json!({"name": "fetched", "url": url, "options": {"prefix": "b_"}});
    client.post("/v1/providers", &fetch).is(201);

    // What a document may not have is refused before it is read.
    let many = vec![Value::Array(Vec::new()); 2_100_000];
    let many = json!({"name": "many", "document": {"openapi": "3.0.0", "x": many}});
    client.post("/v1/providers", &many).problem(413, "too_large");
}

#[test]
fn a_tool_that_moves_or_goes_elsewhere_is_flagged() {
    let server = Server::start();
    let client = server.key("default", "operator");
    let old = document(&json!({"/acct": {"get": {"operationId": "acct", "responses": {}}}}));
    client.post("/v1/providers", &json!({"name": "bank", "document": old})).is(201);
    let next = document(&json!({
        "/acct/": {"post": {"operationId": "acct", "responses": {}}},
        "/near": {"get": {"operationId": "near", "responses": {}}},
        "/far": {"get": {"operationId": "far", "responses": {}, "servers": [{"url": "https://evil.example"}]}},
    }));
    let done = client.put("/v1/providers/bank/document", &json!({"document": next})).is(200);
    assert_eq!((&done["added"], &done["removed"]), (&json!(["near", "far"]), &json!([])));
    assert_eq!(done["changed"][0]["name"], "acct");
    assert_eq!(done["changed"][0]["operation"], "POST /acct/");
    assert_eq!(done["flagged"], json!(["acct", "far"]));
    assert!(done["warnings"][0].as_str().unwrap().contains("https://evil.example"), "{done}");
    for (tool, asks) in [("acct", true), ("far", true), ("near", false)] {
        let called = client.post("/v1/calls", &json!({"tool": tool, "arguments": {}}));
        assert_eq!(called.status == 202, asks, "{tool}: {}", called.text());
    }
    // What flagged it once stays until somebody accepts it.
    let again = client.put("/v1/providers/bank/document", &json!({"document": next})).is(200);
    assert_eq!((&again["unchanged"], &again["flagged"]), (&json!(3), &json!(["acct", "far"])));
}

#[test]
fn an_import_hides_no_tool_and_one_bad_operation_loses_no_other() {
    let server = Server::start();
    let client = server.key("default", "operator");
    let names = |answer: &Value| -> Vec<String> {
        let tools = answer["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().or(tool.as_str()).unwrap().to_owned()).collect()
    };
    let document = document(&json!({
        "/a": {"get": {"operationId": "calculator", "responses": {}}, "put": {"operationId": "tool_search", "responses": {}}},
        "/b": {"get": {"operationId": "list_users", "responses": {}}},
        "/c": {"get": {"operationId": "bad", "responses": {}, "servers": [{"url": "http://u:p4ss@127.0.0.1/"}]}},
    }));
    let mut all: Vec<String> = Vec::new();
    for name in ["one", "two"] {
        let body = |dry_run| json!({"name": name, "document": document, "dry_run": dry_run});
        let dry = client.post("/v1/providers", &body(true)).is(200);
        let made = client.post("/v1/providers", &body(false)).is(201);
        for answer in [&dry, &made] {
            assert_eq!(answer["unsupported"][0]["operation"], "GET /c", "{answer}");
            assert!(!answer.to_string().contains("p4ss"));
            let warnings = answer["warnings"].to_string();
            assert!(warnings.contains("`calculator` is another tool"), "{warnings}");
            assert_eq!(warnings.contains("`list_users` is another"), name == "two", "{warnings}");
        }
        let (mut tried, mut given) = (names(&dry), names(&made));
        tried.sort();
        given.sort();
        assert_eq!(tried, given, "a dry run says what will be");
        assert_eq!(given.len(), 3);
        all.extend(given);
    }
    assert_eq!(client.get("/v1/tools/calculator").is(200)["kind"], "builtin");
    assert!(all.contains(&"list_users".to_owned()));
    for name in &all {
        assert_eq!(client.get(&format!("/v1/tools/{name}")).is(200)["kind"], "rest");
    }
}

#[test]
fn options_that_keep_nothing_away_are_refused_and_later_told() {
    let server = Server::start();
    let client = server.key("default", "operator");
    let body = |ask: &str| json!({"name": "pets", "document": pets(), "options": {"ask": [ask]}});
    let problem = client.post("/v1/providers", &body("delete")).problem(400, "invalid_arguments");
    assert!(
        problem["detail"].to_string().contains("`delete` of `ask` selects nothing"),
        "{problem}"
    );
    client.post("/v1/providers", &body("create_pet")).is(201);
    // The operation that was asked about is called something else now.
    let mut next = pets();
    next["paths"]["/pets"]["post"]["operationId"] = json!("make_pet");
    next["paths"]["/toys"] = json!({"delete": {"operationId": "drop_toys", "responses": {}}});
    let done = client.put("/v1/providers/pets/document", &json!({"document": next})).is(200);
    assert_eq!(done["flagged"], json!(["make_pet", "drop_toys"]), "{done}");
    assert!(done["warnings"].to_string().contains("`create_pet` of `ask`"), "{done}");
}

#[test]
fn a_credential_is_not_tried_where_everybody_is_let_in() {
    let server = Server::start();
    let client = server.key("default", "operator");
    let mut document = document(&json!({
        "/status": {"get": {"operationId": "status", "security": [], "responses": {}}},
        "/maybe": {"get": {"operationId": "maybe", "security": [{"key": []}, {}], "responses": {}}},
    }));
    document["components"]["securitySchemes"]["key"] =
        json!({"type": "apiKey", "in": "header", "name": "X-Key"});
    client.post("/v1/providers", &json!({"name": "open", "document": document})).is(201);
    let path = "/v1/providers/open/credentials/validate";
    let tried = client.post(path, &json!({"values": {"key": "not-a-real-key"}})).is(200);
    assert_eq!((&tried["method"], &tried["tool"]), (&json!("format"), &Value::Null));
}

/// An API whose every operation has many patterns, each of its own and each
/// large once it is compiled.
fn of_patterns(operations: usize, patterns: usize) -> Value {
    let mut paths = serde_json::Map::new();
    for operation in 0..operations {
        let property = |n: usize| {
            let pattern = format!("^(?:p{operation}x{n}|[\\p{{L}}\\p{{N}}]{{1,2}})[^/]{{0,64}}$");
            (format!("f{n}"), json!({"type": "string", "pattern": pattern}))
        };
        let properties: serde_json::Map<String, Value> = (0..patterns).map(property).collect();
        let schema = json!({"type": "object", "properties": properties});
        paths.insert(
            format!("/o{operation}"),
            json!({"post": {"operationId": format!("o{operation}"), "responses": {},
                "requestBody": {"content": {"application/json": {"schema": schema}}}}}),
        );
    }
    document(&Value::Object(paths))
}

#[test]
fn patterns_that_a_tenant_imports_take_no_memory_until_they_are_used_and_little_then() {
    const OPERATIONS: usize = 50;
    let server = Server::start();
    let (hostile, other) = (server.key("hostile", "operator"), server.key("other", "operator"));
    let before = server.megabytes();
    let body = json!({"name": "patterns", "document": of_patterns(OPERATIONS, 30)});
    hostile.post("/v1/providers", &body).is(201);
    other.post("/v1/calls", &json!({"tool": "echo", "arguments": {"message": "hi"}})).is(200);
    let imported = server.megabytes();
    assert!(imported < before + 200, "{before} MB before, {imported} MB with 1,500 patterns");

    // All are as good as they were: what does not match is told.
    for operation in 0..10 {
        let wrong: serde_json::Map<String, Value> =
            (0..30).map(|n| (format!("f{n}"), json!("a/b"))).collect();
        let call = json!({"tool": format!("o{operation}"), "arguments": wrong});
        let told = hostile.post("/v1/calls", &call);
        assert!(told.text().contains("text that matches"), "{}", told.text());
    }
    let used = server.megabytes();
    assert!(used < before + 300, "{before} MB before, {used} MB with 300 patterns used");

    let server = server.kill_and_start();
    let again = server.megabytes();
    assert!(again < before + 200, "{before} MB before, {again} MB after a restart");
    let hostile = server.key("hostile", "operator");
    let call = json!({"tool": "o7", "arguments": {"f3": "a/b"}});
    assert!(hostile.post("/v1/calls", &call).text().contains("text that matches"));
}

#[test]
fn a_server_starts_at_once_however_much_one_tenant_imported() {
    let server = Server::start();
    let hostile = server.key("hostile", "operator");
    for n in 0..2 {
        let body = json!({"name": format!("p{n}"), "document": of_patterns(60, 30),
            "options": {"prefix": format!("p{n}_")}});
        hostile.post("/v1/providers", &body).is(201);
    }
    let start = std::time::Instant::now();
    let server = server.kill_and_start();
    let took = start.elapsed();
    server
        .key("other", "operator")
        .post("/v1/calls", &json!({"tool": "echo", "arguments": {"message": "hi"}}))
        .is(200);
    // 3,600 patterns, none of which is compiled.
    assert!(took < std::time::Duration::from_secs(10), "the start took {took:?}");
}

#[test]
fn how_to_say_who_asks_is_set_over_the_api_and_credentials_go_as_told() {
    let server = Server::start();
    let client = server.key("default", "operator");
    let body = json!({"name": "pets", "document": pets(), "options": {"auth": "header:X-Key"}});
    let made = client.post("/v1/providers", &body).is(201);
    assert_eq!(made["credentials_schema"][0]["name"], "api_key", "{made}");
    let secret = json!({"name": "mine", "values": {"api_key": "key-12345"}});
    client.post("/v1/providers/pets/credentials", &secret).is(201);
    let held = |client: &super::wire::Client| {
        client.get("/v1/credentials").is(200)["credentials"].as_array().unwrap().len()
    };
    client.delete("/v1/providers/pets?credentials=keep").is(204);
    assert_eq!(held(&client), 1);
    client.post("/v1/providers", &body).is(201);
    client.delete("/v1/providers/pets?credentials=maybe").problem(400, "invalid_request");
    client.delete("/v1/providers/pets?credentials=remove").is(204);
    assert_eq!(held(&client), 0);
    for auth in ["digest", "header:Host", "header:"] {
        let body = json!({"name": "pets", "document": pets(), "options": {"auth": auth}});
        client.post("/v1/providers", &body).problem(400, "invalid_request");
    }
}
