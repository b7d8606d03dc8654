//! Messages of clients and servers stay out of the log.

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};

use super::http::{ACCEPT, begin, message, newer, older};
use super::played::{self, CANARY};
use crate::http::{Server, until};
use crate::project::Project;

/// Messages that no client should send.
fn hostile() -> Vec<Value> {
    let uri = format!("secret://{CANARY}");
    let odd = [
        ("tools/call", json!({"name": CANARY, "arguments": {"password": CANARY}})),
        ("tools/call", json!({"name": "echo", "arguments": CANARY})),
        ("tools/call", json!({"name": 5, "arguments": [CANARY]})),
        ("tools/call", json!([CANARY])),
        ("played__noise", json!({})),
        ("resources/read", json!({"uri": uri})),
        ("resources/read", json!({"uri": [uri]})),
        ("resources/subscribe", json!({"uri": uri})),
        ("prompts/get", json!({"name": CANARY, "arguments": {"a": CANARY}})),
        ("prompts/get", json!({"name": {"a": CANARY}})),
        ("completion/complete", json!({"ref": CANARY})),
        ("logging/setLevel", json!({"level": CANARY})),
        (CANARY, json!({"a": CANARY})),
        ("initialize", json!({"protocolVersion": CANARY})),
    ];
    let mut all: Vec<Value> =
        odd.into_iter().map(|(method, params)| message(method, params)).collect();
    all.push(json!({"jsonrpc": "2.0", "method": CANARY, "params": {"a": CANARY}}));
    all.push(json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": CANARY, "reason": CANARY}}));
    all.push(json!({"jsonrpc": "2.0", "id": CANARY, "result": {"a": CANARY}}));
    all.push(json!({"jsonrpc": "2.0", "id": CANARY, "error": {"code": 1, "message": CANARY}}));
    all.push(json!({"jsonrpc": CANARY}));
    all.push(json!([CANARY]));
    all
}

#[track_caller]
fn is_silent(log: &str) {
    let told: Vec<&str> = log.lines().filter(|line| line.contains(CANARY)).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn what_hostile_clients_and_servers_say_over_http_is_not_logged() {
    let project = Project::new();
    played::add_to(&project);
    let server = Server::run(Arc::new(project), &[], &[], None);
    let client = server.key("default", "caller");
    let noise = json!({"name": "played__noise", "arguments": {}});
    until("the server", || {
        let said = newer(&client, "tools/call", noise.clone()).text();
        (!said.contains("-32602")).then_some(())
    });
    let session = begin(&client);
    older(&client, &session, "tools/call", noise);
    let stray = format!("s-{CANARY}");
    for odd in hostile() {
        for headers in [
            vec![ACCEPT],
            vec![ACCEPT, ("Mcp-Session-Id", session.as_str())],
            vec![ACCEPT, ("Mcp-Session-Id", stray.as_str())],
            vec![ACCEPT, ("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", CANARY)],
            vec![ACCEPT, ("MCP-Protocol-Version", CANARY)],
        ] {
            client.json("POST", "/mcp", &headers, &odd);
        }
    }
    client.send("POST", "/mcp", &[ACCEPT], CANARY.as_bytes());
    let headers = [
        ("Accept", "text/event-stream"),
        ("Mcp-Session-Id", session.as_str()),
        ("Last-Event-ID", CANARY),
    ];
    drop(client.begin("GET", "/mcp", &headers, b""));
    newer(&client, "resources/read", json!({"uri": format!("secret://{CANARY}")}));
    let log = server.log();
    assert!(log.contains("a server is up"), "there is a log at all: {log}");
    is_silent(&log);
}

#[test]
fn what_a_hostile_client_says_over_stdio_is_not_logged() {
    let project = Project::new();
    let mut command = project.command(&["mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": CANARY, "version": "1"}});
    writeln!(input, "{}", message("initialize", hello)).unwrap();
    for odd in hostile() {
        writeln!(input, "{odd}").unwrap();
    }
    writeln!(input, "{CANARY}\n{{\"{CANARY}\": ").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    is_silent(&String::from_utf8_lossy(&output.stderr));
}
