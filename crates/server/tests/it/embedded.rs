//! The server embedded in another program.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use windlass::{Engine, Error, ErrorKind, tool};
use windlass_server::Server;

use crate::http::Client;
use crate::project::Project;

/// Adds two numbers.
#[tool(read_only, inline)]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Waits.
#[tool]
async fn nap(millis: u64) -> &'static str {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    "rested"
}

/// Fails in this way.
#[tool]
fn fail(kind: String) -> Result<(), Error> {
    Err(Error::new(ErrorKind::from_name(&kind).unwrap_or(ErrorKind::ToolError), "why"))
}

fn engine() -> windlass::EngineBuilder {
    Engine::builder()
        .tool(add::tool())
        .tool(nap::tool())
        .settings(|settings| settings.max_batch = 3)
}

async fn start(builder: windlass_server::ServerBuilder) -> (Server, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = builder.start(listener).await.unwrap();
    let key = server.admin_key().map(|key| key.expose().to_owned());
    let client = Client::new(server.address(), key.as_deref());
    (server, client)
}

/// The client blocks, the server is in this process.
async fn ask(client: &Client, path: &'static str, body: Value) -> Value {
    let client = client.clone();
    tokio::task::spawn_blocking(move || client.post(path, &body).is(200)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_serves_its_own_tools_over_http_and_mcp() {
    let (server, client) = start(Server::builder(engine())).await;
    let result = ask(&client, "/v1/calls", json!({"tool": "add", "arguments": {"a": 2, "b": 3}}));
    assert_eq!(result.await["output"], 5);
    // Its own tools and settings, and no others.
    let names: Vec<String> =
        server.engine().active_tools(None).iter().map(|tool| tool.name().to_string()).collect();
    assert_eq!(names, ["add", "nap", "read_output"]);
    let many = vec![json!({"tool": "add", "arguments": {"a": 1, "b": 1}}); 4];
    let batch = ask(&client, "/v1/batches", json!({"calls": many})).await.to_string();
    assert!(batch.contains(ErrorKind::BatchLimit.name()), "{batch}");
    // The engine is the one that the program calls, too, and records are shared.
    let own = server.engine().call(windlass::CallRequest::new("add", json!({"a": 1, "b": 1})));
    let own = own.await;
    let kept = {
        let (client, path) = (client.clone(), format!("/v1/calls/{}", own.id));
        tokio::task::spawn_blocking(move || client.get(&path).is(200)).await.unwrap()
    };
    assert_eq!(kept["tool_name"], "add", "{kept}");
    let called = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 20, "b": 22}},
    });
    let accept = [("Accept", "application/json, text/event-stream")];
    let begin = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    let said = {
        let client = client.clone();
        let talk = move || {
            let begun = client.json("POST", "/mcp", &accept, &begin);
            let session = begun.header("mcp-session-id").unwrap_or_default().to_owned();
            let session = ("Mcp-Session-Id", session.as_str());
            client.json("POST", "/mcp", &[accept[0], session], &called).text()
        };
        tokio::task::spawn_blocking(talk).await.unwrap()
    };
    assert!(said.contains("42"), "{said}");
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_stops_its_server_waits_for_calls_and_can_start_another() {
    let project = Project::empty();
    project.write("tools/more.yaml", crate::http::WRITE);
    let database = project.path("own.db").to_str().unwrap().to_owned();
    let builder = || Server::builder(engine()).database(database.clone());
    let (server, client) = start(builder().tools(project.path("tools"))).await;
    assert!(server.engine().registry().len() > 4, "the folder's tools are there");
    let running = tokio::spawn({
        let client = client.clone();
        async move {
            ask(&client, "/v1/calls", json!({"tool": "nap", "arguments": {"millis": 600}})).await
        }
    });
    let engine = server.engine().clone();
    while engine.limit_metrics().current_concurrent == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.shutdown().await.unwrap();
    assert_eq!(running.await.unwrap()["output"], "rested");
    // Keys and records are in the database, so the second server has no first key.
    let (again, _) = start(builder()).await;
    assert!(again.admin_key().is_none());
    let client = Client::new(again.address(), client.key.as_deref());
    let list = {
        let client = client.clone();
        tokio::task::spawn_blocking(move || client.get("/v1/calls").is(200)).await.unwrap()
    };
    assert!(list.to_string().contains("\"nap\""), "{list}");
    // One that is dropped takes no more connections.
    let address = again.address();
    drop(again);
    for _ in 0..200 {
        if tokio::net::TcpStream::connect(address).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it still listens");
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let listener = || async { TcpListener::bind("127.0.0.1:0").await.unwrap() };
    let told = |error: Option<windlass_server::ServerError>| error.unwrap().to_string();
    let missing = Server::builder(engine()).tools("/nowhere/at/all").start(listener().await).await;
    assert!(told(missing.err()).contains("no such folder"));
    let twice = Server::builder(engine().tool(add::tool())).start(listener().await).await;
    assert!(told(twice.err()).contains("add"));
    let tls = Server::builder(engine()).tls("no.pem", "no.key").start(listener().await).await;
    assert!(told(tls.err()).contains("no.pem"));
    let open = || async { TcpListener::bind("0.0.0.0:0").await.unwrap() };
    let plain = Server::builder(engine()).start(open().await).await;
    assert!(told(plain.err()).contains("without_tls()"));
    let on_purpose = Server::builder(engine()).without_tls().start(open().await).await;
    on_purpose.unwrap().shutdown().await.unwrap();
    let project = Server::builder(engine()).project("/nowhere").start(listener().await).await;
    assert!(told(project.err()).contains("/nowhere"));
}

#[tokio::test]
async fn an_mcp_client_is_served_over_a_pair_of_streams() {
    let engine = engine().build().unwrap();
    let (client, server) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(server);
    let serving = tokio::spawn({
        let engine = engine.clone();
        async move { windlass_server::serve_mcp(&engine, input, output).await }
    });
    let (answers, mut questions) = tokio::io::split(client);
    let mut answers = BufReader::new(answers).lines();
    let mut say = async |message: Value| {
        questions.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    };
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    say(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})).await;
    assert!(answers.next_line().await.unwrap().unwrap().contains("serverInfo"));
    say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let params = json!({"name": "add", "arguments": {"a": 40, "b": 2}});
    say(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})).await;
    let answer = loop {
        let line = answers.next_line().await.unwrap().unwrap();
        if line.contains("\"id\":2") {
            break line;
        }
    };
    assert!(answer.contains("42"), "{answer}");
    drop((answers, questions));
    tokio::time::timeout(Duration::from_secs(30), serving).await.unwrap().unwrap();
}

/// The statuses that the reference page publishes: of requests, and of calls.
fn published(kind: ErrorKind) -> (u16, u16) {
    let page = include_str!("../../../../docs/reference/errors.md");
    let mut lines = page.lines();
    let columns = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
    let head: Vec<String> =
        lines.by_ref().find(|line| line.starts_with("| kind")).map(columns).unwrap();
    let row = lines.find(|line| line.starts_with(&format!("| `{kind}` |")));
    let row: Vec<String> = row.map(columns).unwrap();
    let status = |name: &str| {
        let at = head.iter().position(|column| column == name).unwrap();
        row[at].parse().unwrap()
    };
    (status("HTTP, request"), status("HTTP, call"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_failure_has_the_published_status() {
    let engine = Engine::builder().tool(fail::tool());
    let (server, client) = start(Server::builder(engine)).await;
    for &kind in ErrorKind::ALL {
        let client = client.clone();
        let body = json!({"tool": "fail", "arguments": {"kind": kind.name()}});
        let sent = tokio::task::spawn_blocking(move || client.post("/v1/calls", &body));
        let sent = sent.await.unwrap();
        let (request, call) = published(kind);
        assert_eq!(request, kind.info().status, "{kind}");
        let told = sent.is(call);
        match call {
            200 | 202 => assert_eq!(told["error_kind"], kind.name(), "{told}"),
            // Where a call has no result, the problem is that of a refused request.
            _ => assert_eq!((&told["code"], request), (&json!(kind.name()), call), "{told}"),
        }
    }
    server.shutdown().await.unwrap();
}
