//! Limits on sessions and other state of `/mcp`: no client exhausts those of others.

use serde_json::{Value, json};

use super::http::{ACCEPT, begin, body, message, newer, older};
use crate::http::{Answer, Client, Server, until};

/// Two sessions for a key, ten for a tenant.
const FEW: &str = "server: {max_mcp_sessions: 20}\n";

fn hello() -> Value {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}});
    message("initialize", params)
}

fn begin_at(client: &Client, path: &str) -> Answer {
    client.json("POST", path, &[ACCEPT], &hello())
}

fn answers(client: &Client, session: &str) -> bool {
    match older(client, session, "ping", json!({})).status {
        200 => true,
        404 => false,
        other => panic!("{other}"),
    }
}

#[test]
fn a_tenant_with_hundreds_of_providers_leaves_mcp_to_all_others() {
    let server = Server::start();
    let (greedy, other) = (server.key("a", "operator"), server.key("b", "operator"));
    let provider = |name: &str| {
        let definition = format!(
            "identity: {{name: {name}}}\n---\nname: {name}_echo\nprovider: {name}\n\
             description: x\nentry: {{type: builtin, handler: echo}}\n\
             parameters: [{{name: message, type: string}}]\n"
        );
        json!({"definition": definition})
    };
    for number in 0..260 {
        let name = format!("p{number}");
        greedy.post("/v1/providers", &provider(&name)).is(201);
        assert_eq!(begin_at(&greedy, &format!("/mcp/{name}")).status, 200, "{name}");
    }
    let session = begin(&other);
    assert!(answers(&other, &session));
    other.post("/v1/providers", &provider("own")).is(201);
    let own = begin_at(&other, "/mcp/own");
    let own = own.header("mcp-session-id").unwrap();
    let headers = [ACCEPT, ("Mcp-Session-Id", own)];
    let list = message("tools/list", json!({}));
    let listed = body(&other.json("POST", "/mcp/own", &headers, &list));
    assert_eq!(listed["result"]["tools"][0]["name"], "own_echo", "{listed}");
    // A session is of the address that it was begun at.
    assert!(!answers(&other, own));
    // It ends with its provider, and does not come back with another of the name.
    other.delete("/v1/providers/own").is(204);
    assert_eq!(other.json("POST", "/mcp/own", &headers, &list).status, 404);
    other.post("/v1/providers", &provider("own")).is(201);
    assert_eq!(other.json("POST", "/mcp/own", &headers, &list).status, 404);
}

#[test]
fn a_key_that_begins_sessions_without_end_loses_its_own_idle_ones_and_no_others() {
    let server = Server::with(FEW, &[]);
    let greedy = server.key("a", "caller");
    let victims: Vec<(Client, String)> = ["a", "b"]
        .map(|tenant| server.key(tenant, "caller"))
        .into_iter()
        .map(|client| (client.clone(), begin(&client)))
        .collect();
    let sessions: Vec<String> = (0..50).map(|_| begin(&greedy)).collect();
    let alive: Vec<bool> = sessions.iter().map(|session| answers(&greedy, session)).collect();
    assert_eq!(alive.iter().filter(|alive| **alive).count(), 2, "{alive:?}");
    assert!(alive[48] && alive[49], "the last ones are the least idle");
    for (client, session) in &victims {
        assert!(answers(client, session));
        assert_eq!(newer(client, "tools/list", json!({})).status, 200);
    }
}

#[test]
fn sessions_that_are_in_use_are_not_taken_and_a_key_without_idle_ones_is_refused() {
    let server = Server::with(FEW, &[]);
    let client = server.key("a", "caller");
    let streams: Vec<_> = (0..2)
        .map(|_| {
            let session = begin(&client);
            let headers = [("Accept", "text/event-stream"), ("Mcp-Session-Id", session.as_str())];
            let mut stream = client.begin("GET", "/mcp", &headers, b"");
            assert_eq!(Answer::head(&mut stream).status, 200);
            (session, stream)
        })
        .collect();
    let refused = begin_at(&client, "/mcp");
    refused.problem(429, "quota_exceeded");
    assert_eq!(refused.header("retry-after"), Some("5"));
    let shown = client.get("/v1/quotas").is(200);
    let shown = shown["quotas"].as_array().unwrap().iter().filter(|it| it["name"] == "sessions");
    let shown: Vec<Value> = shown.map(|it| json!([it["scope"], it["used"], it["limit"]])).collect();
    assert_eq!(shown, [json!(["tenant", 2.0, 10.0]), json!(["key", 2.0, 2.0])]);
    assert!(streams.iter().all(|(session, _)| answers(&client, session)));
    assert_eq!(begin_at(&server.key("a", "caller"), "/mcp").status, 200, "another key's");
    drop(streams);
    until("a session is idle", || (begin_at(&client, "/mcp").status == 200).then_some(()));
}

#[test]
fn a_tenant_with_many_keys_cannot_take_the_sessions_of_another() {
    let server = Server::with(FEW, &[]);
    let victim = server.key("b", "caller");
    let kept = begin(&victim);
    let keys: Vec<Client> = (0..12).map(|_| server.key("a", "caller")).collect();
    for key in keys.iter().chain(&keys) {
        assert_eq!(begin_at(key, "/mcp").status, 200);
    }
    assert!(answers(&victim, &kept));
    let second = begin(&victim);
    assert!(answers(&victim, &kept) && answers(&victim, &second));
}

#[test]
fn a_session_that_nobody_knows_is_nobodys() {
    let server = Server::with(FEW, &[]);
    let (mine, other) = (server.key("a", "caller"), server.key("a", "caller"));
    let forgotten = begin(&mine);
    for _ in 0..2 {
        begin(&mine);
    }
    for client in [&mine, &other] {
        assert!(!answers(client, &forgotten));
        let headers = [("Accept", "text/event-stream"), ("Mcp-Session-Id", forgotten.as_str())];
        assert_eq!(client.send("GET", "/mcp", &headers, b"").status, 404);
        assert_eq!(client.send("DELETE", "/mcp", &headers, b"").status, 404);
    }
    // Nor is it a conversation of the newer era.
    let live = begin(&mine);
    let headers = [
        ACCEPT,
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/list"),
        ("Mcp-Session-Id", live.as_str()),
    ];
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let list = message("tools/list", json!({"_meta": meta}));
    assert_eq!(other.json("POST", "/mcp", &headers, &list).status, 404);
}
