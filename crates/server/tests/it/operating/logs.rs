//! Access logs: a line for each request, and never a secret.

use std::sync::Arc;

use serde_json::Value;

use super::server::{start, weather};
use crate::http::{Server, until};
use crate::project::Project;

#[test]
fn every_request_is_one_line_of_json() {
    let server = start("", &[("WINDLASS_LOG", "debug")]);
    let answer = server
        .call(&["X-Request-Id: mine-1"], r#"{"tool": "echo", "arguments": {"message": "hi"}}"#);
    assert_eq!(answer.headers["x-request-id"], "mine-1");
    let id = answer.json()["call_id"].as_str().unwrap().to_owned();
    server.send("GET", &format!("/v1/calls/{id}?wait=1s"), &[], "");
    server.send("GET", "/nowhere/secret-path", &[], "");
    let lines = until("three lines", || {
        let log = server.log();
        let lines: Vec<Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let lines: Vec<Value> =
            lines.into_iter().filter(|line| line["message"] == "request").collect();
        (lines.len() == 3).then_some(lines)
    });
    let first = &lines[0];
    assert_eq!((&first["method"], &first["route"]), (&"POST".into(), &"/v1/calls".into()));
    assert_eq!((&first["status"], &first["tenant"]), (&200.into(), &"default".into()));
    assert_eq!((&first["request_id"], &first["key"]), (&"mine-1".into(), &"key_first".into()));
    assert!(first["ms"].as_f64().unwrap() > 0.0);
    assert_eq!(lines[1]["route"], "/v1/calls/{call_id}");
    assert_eq!((&lines[2]["route"], &lines[2]["status"]), (&"(no route)".into(), &404.into()));
    assert!(!server.log().contains("secret-path"));
}

#[test]
fn people_may_have_it_plain() {
    let server = start("log: {level: debug, format: human}\n", &[]);
    server.send("GET", "/healthz", &[], "");
    until("a line", || server.log().contains("DEBUG").then_some(()));
    assert!(!server.log().contains("{\"timestamp\""), "{}", server.log());
}

#[test]
fn nothing_secret_is_logged_however_much_is_logged() {
    let project = Project::empty();
    project.write("windlass.yaml", "");
    weather(&project);
    let variables = [("WINDLASS_LOG", "trace")];
    let mut server = Server::run(Arc::new(project), &[], &variables, None);
    let credential = r#"{"values": {"token": "canary-credential"}}"#;
    let stored = server.send("POST", "/v1/providers/skies/credentials", &[], credential);
    assert_eq!(stored.status, 201, "{stored:?}");
    let called = server.call(&[], r#"{"tool": "forecast", "arguments": {"message": "a"}}"#);
    assert_eq!(called.json()["is_success"], true, "{called:?}");
    server.send("GET", "/v1/tools?text=canary-query", &["X-Api-Key: wl_canary-header"], "");
    server.send("GET", "/v1/tools", &["Cookie: canary-cookie"], "");
    server.send("POST", "/v1/calls", &["Idempotency-Key: canary-idempotency"], "{\"canary-body");
    let made = server.send("POST", "/v1/keys", &[], r#"{"name": "x", "role": "viewer"}"#);
    assert_eq!(made.status, 201, "{made:?}");
    server.signal("-TERM");
    server.ended();
    let log = server.log();
    assert!(log.contains("\"level\":\"TRACE\"") || log.contains("\"level\":\"DEBUG\""), "{log}");
    assert!(!log.contains("canary"), "{log}");
    assert!(!log.contains(&server.admin), "the admin key");
    let secret = made.json()["secret"].as_str().unwrap().to_owned();
    assert!(!log.contains(&secret) && secret.len() > 20);
}
