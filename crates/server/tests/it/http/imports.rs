//! API documents over HTTP: sent, uploaded, tried out, imported again; and
//! people who agree.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

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

#[test]
fn the_callback_of_a_consent_tells_strangers_nothing() {
    let server = Server::start();
    let nobody = server.nobody();
    for query in [
        "",
        "?error=denied&state=x",
        "?code=a",
        "?state=%00&code=b",
        "?state=guess&code=%3Cscript%3E",
    ] {
        let answer = nobody.get(&format!("/v1/oauth/callback{query}"));
        assert_eq!(answer.status, 400, "{query}");
        assert!(!answer.text().contains("script") && !answer.text().contains("guess"));
    }
}

/// A service with a token endpoint, and what it was asked.
fn service() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let kept = Arc::clone(&kept);
            thread::spawn(move || serve(BufReader::new(stream.unwrap()), &kept));
        }
    });
    (url, seen)
}

fn serve(mut stream: BufReader<std::net::TcpStream>, seen: &Mutex<Vec<String>>) -> Option<()> {
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = said.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        let asked = format!("{head}{}", String::from_utf8_lossy(&body));
        let answer = if asked.contains("grant_type=authorization_code") {
            json!({"access_token": "first-token", "refresh_token": "again-1", "expires_in": 1})
        } else if asked.contains("grant_type=refresh_token") {
            json!({"access_token": "second-token", "refresh_token": "again-2", "expires_in": 3600})
        } else {
            json!({"echo": asked})
        };
        seen.lock().unwrap().push(asked);
        let text = answer.to_string();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length";
        write!(stream.get_mut(), "{head}: {}\r\n\r\n{text}", text.len()).ok()?;
    }
}

#[test]
fn a_person_agrees_and_one_refresh_serves_all_calls() {
    let (url, seen) = service();
    let server = Server::with("outbound: {allow: [127.0.0.1]}\n", &[]);
    let client = server.key("default", "operator");
    let mut document = document(&json!({"/me": {"get": {"operationId": "me", "responses": {}}}}));
    document["servers"] = json!([{"url": url}]);
    document["security"] = json!([{"person": ["profile"]}]);
    document["components"] = json!({"securitySchemes": {"person": {"type": "oauth2", "flows": {
        "authorizationCode": {"authorizationUrl": "https://x.example/agree", "tokenUrl": format!("{url}/token"), "scopes": {}}}}}});
    client.post("/v1/providers", &json!({"name": "svc", "document": document})).is(201);
    let values =
        json!({"values": {"person_client_id": "client-7", "person_client_secret": "hush-hush-1"}});
    client.post("/v1/providers/svc/credentials", &values).is(201);

    let me = || client.post("/v1/calls", &json!({"tool": "me", "arguments": {}})).text();
    let told = me();
    let told: Value = serde_json::from_str(&told).unwrap();
    let text = told.to_string();
    assert!(text.contains("Authorization required"), "{text}");
    let state = text.split("state=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    let challenge = text.split("code_challenge=").nth(1).unwrap().split('&').next().unwrap();
    assert!(challenge.len() == 43 && text.contains("code_challenge_method=S256"));
    assert!(text.contains("client_id=%63%6C%69%65%6E%74%2D%37") && !text.contains("hush-hush-1"));

    let back = format!("/v1/oauth/callback?code=c-1&state={state}");
    assert_eq!(server.nobody().get(&back).status, 200);
    assert_eq!(server.nobody().get(&back).status, 400, "a state is used once");
    let exchange = seen.lock().unwrap().last().unwrap().clone();
    assert!(exchange.contains("code=c-1") && exchange.contains("code_verifier="), "{exchange}");

    // The first token ends at once: many calls, one refresh.
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || {
                client.post("/v1/calls", &json!({"tool": "me", "arguments": {}})).text()
            })
        })
        .collect();
    for call in calls {
        let text = call.join().unwrap();
        assert!(text.contains("echo") && !text.contains("second-token"), "{text}");
    }
    let seen = seen.lock().unwrap();
    let refreshes = seen.iter().filter(|asked| asked.contains("grant_type=refresh_token")).count();
    assert_eq!(refreshes, 1, "{seen:?}");
    let signed = seen.iter().filter(|asked| asked.contains("Bearer second-token")).count();
    assert_eq!(signed, 8, "{seen:?}");
}
