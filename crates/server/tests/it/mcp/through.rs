//! Proxying a server: handshake, subscriptions, timeouts, elicitation and sampling.

use std::io::BufRead;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{ACCEPT, begin, body, message, newer, older};
use super::played;
use super::stdio::{StdioClient, modern};
use crate::http::{Client, Server, until};
use crate::project::Project;

fn project() -> Project {
    let project = Project::new();
    played::add_to(&project);
    project
}

#[test]
fn a_server_is_introduced_as_it_introduces_itself() {
    let project = project();
    let (session, hello) = StdioClient::greeted(&project, &["--provider", "played"], &json!({}));
    session.end();
    let mut newer = StdioClient::start(&project, &["--provider", "played"]);
    let found = newer.ask("server/discover", modern(json!({})))["result"].clone();
    newer.end();
    for said in [&hello, &found] {
        assert_eq!(said["instructions"], "Play.", "{said}");
        let can = json!({"tools": {"listChanged": true}, "prompts": {},
            "resources": {"subscribe": true}});
        assert_eq!(said["capabilities"], can, "{said}");
    }
    let name = json!({"name": "played", "title": "Played", "version": "7"});
    assert_eq!(hello["serverInfo"], name);
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"], name, "{found}");
    // One that does not start is no reason to turn a client away.
    let gone = json!({"mcpServers": {"played": {"command": "/nowhere"}}});
    project.write("tools/servers.json", &gone.to_string());
    let (session, hello) = StdioClient::greeted(&project, &["--provider", "played"], &json!({}));
    assert_eq!(hello["serverInfo"]["name"], "windlass", "{hello}");
    session.end();
}

#[test]
fn the_first_call_after_a_start_waits_for_a_server_that_nobody_knows_yet() {
    let (first, second) = (project(), project());
    let mut session = StdioClient::start(&first, &[]);
    let call = json!({"name": "played__touch", "arguments": {}});
    let done = session.ask("tools/call", modern(call));
    assert_eq!(done["result"]["content"][0]["text"], "[]", "{done}");
    session.end();
    let mut session = StdioClient::start(&second, &["--provider", "played"]);
    let call = json!({"name": "touch", "arguments": {}});
    let done = session.ask("tools/call", modern(call));
    assert_eq!(done["result"]["content"][0]["text"], "[]", "{done}");
    session.end();
}

/// Lets the server tell of changes; what it is watched for.
fn touch(client: &Client) -> String {
    let call = json!({"name": "played__touch", "arguments": {}});
    let done = body(&newer(client, "tools/call", call));
    let text = done["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{done}")).to_owned()
}

/// Reads a stream up to a message that a resource has changed.
fn hears(stream: &mut impl BufRead) {
    let mut line = String::new();
    while !(line.contains("notifications/resources/updated") && line.contains("played://a")) {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream has ended");
    }
}

#[test]
fn who_stops_watching_a_resource_stops_nobody_else() {
    let server = Server::run(Arc::new(project()), &[], &[], None);
    let client = server.admin();
    let watched = json!({"uri": "played://a"});
    until("the server's resources", || {
        let list = body(&newer(&client, "resources/list", json!({})));
        list["result"]["resources"][0].is_object().then_some(())
    });
    let [first, second] = [begin(&client), begin(&client)];
    for session in [&first, &second] {
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let headers = [ACCEPT, ("Mcp-Session-Id", session.as_str())];
        assert_eq!(client.json("POST", "/mcp", &headers, &told).status, 202);
        let done = body(&older(&client, session, "resources/subscribe", watched.clone()));
        assert_eq!(done["result"], json!({}), "{done}");
    }
    let headers = [("Accept", "text/event-stream"), ("Mcp-Session-Id", second.as_str())];
    let mut stream = client.begin("GET", "/mcp", &headers, b"");
    let done = body(&older(&client, &first, "resources/unsubscribe", watched));
    assert_eq!(done["result"], json!({}), "{done}");
    assert_eq!(touch(&client), "[\"played://a\"]");
    hears(&mut stream);
    // With a session ends what it watches.
    assert_eq!(client.send("DELETE", "/mcp", &headers, b"").status, 204);
    until("nobody watches", || (touch(&client) == "[]").then_some(()));
}

#[test]
fn who_listens_hears_of_the_resources_that_it_named() {
    let server = Server::run(Arc::new(project()), &[], &[], None);
    let client = server.admin();
    until("the server's resources", || {
        let list = body(&newer(&client, "resources/list", json!({})));
        list["result"]["resources"][0].is_object().then_some(())
    });
    let filter = json!({"notifications": {"resourceSubscriptions": ["played://a"]}});
    let listen = message("subscriptions/listen", modern(filter));
    let headers = [
        ACCEPT,
        ("Content-Type", "application/json"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "subscriptions/listen"),
    ];
    let mut stream = client.begin("POST", "/mcp", &headers, listen.to_string().as_bytes());
    until("somebody watches", || (touch(&client) != "[]").then_some(()));
    hears(&mut stream);
    drop(stream);
    until("nobody watches", || (touch(&client) == "[]").then_some(()));
}

#[test]
fn a_client_that_could_be_asked_has_the_time_of_all_others_until_it_is_asked() {
    let project = project();
    project.write("windlass.yaml", "default_timeout: 2s\n");
    let can = json!({"elicitation": {}, "roots": {}});
    let (mut session, _) = StdioClient::greeted(&project, &[], &can);
    let call = json!({"name": "played__ask", "arguments": {}});
    session.say(&json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": call}));
    let asked = loop {
        let message = session.next();
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    // A person takes longer than a tool may.
    std::thread::sleep(Duration::from_secs(3));
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    session.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}));
    let done = session.answer_to(77);
    assert_eq!(done["result"]["content"][0]["text"], "you said \"Ada\"", "{done}");
    let start = Instant::now();
    let late = session.call("played__never", json!({}));
    assert_eq!(late["result"]["isError"], true, "{late}");
    // Also what is no call ends in time.
    let late = session.ask("resources/read", json!({"uri": "played://never"}));
    assert!(late["error"]["message"].is_string(), "{late}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    session.end();
}

#[test]
fn a_call_that_waits_for_answers_is_shown_as_suspended() {
    let server = Server::run(Arc::new(project()), &[], &[], None);
    let client = server.admin();
    touch_when_known(&client);
    let mut events = client.follow("/v1/events", None);
    let params = json!({"name": "played__ask", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }});
    let headers = [
        ACCEPT,
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "played__ask"),
    ];
    let ask = |params: &Value| {
        body(&client.json("POST", "/mcp", &headers, &message("tools/call", params.clone())))
    };
    let asked = ask(&params)["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let begun = events.up_to("execution_started");
    let place = format!("/v1/calls/{}", begun.last().unwrap().data["call_id"].as_str().unwrap());
    assert_eq!(client.get(&place).is(200)["status"], "suspended");
    assert_eq!(server.key("other", "caller").get(&place).status, 404);
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let mut again = params;
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
    assert_eq!(ask(&again)["result"]["content"][0]["text"], "you said \"Ada\"");
    assert_eq!(client.get(&place).is(200)["status"], "succeeded");
    // The same for a call in the background.
    let call = json!({"tool": "played/ask", "arguments": {}});
    let begun = client.json("POST", "/v1/calls", &[("Prefer", "respond-async")], &call).is(202);
    let place = format!("/v1/calls/{}", begun["call_id"].as_str().unwrap());
    until("the call is suspended", || {
        (client.get(&place).is(200)["status"] == "suspended").then_some(())
    });
    let questions = client.get(&format!("{place}/questions")).is(200);
    let key = questions["questions"].as_object().unwrap().keys().next().unwrap();
    let answers = json!({"answers": {key: {"action": "accept", "content": {"name": "Bo"}}}});
    client.post(&format!("{place}/answers"), &answers).is(200);
    assert_eq!(client.get(&format!("{place}?wait=10s")).is(200)["status"], "succeeded");
}

fn touch_when_known(client: &Client) {
    until("the server's tools", || {
        let list = body(&newer(client, "tools/list", json!({})));
        list.to_string().contains("played__touch").then_some(())
    });
}
