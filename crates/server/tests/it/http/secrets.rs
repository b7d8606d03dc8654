//! The canary matrix for secrets: every source, every encoding, every place where one
//! could leak.
//!
//! Whoever receives a secret here echoes it in all encodings: MCP servers over both
//! transports, a webhook, an API, a model.

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::server::{Server, until};
use crate::project::Project;
use crate::upstream::{Asked, Said, TestUpstream};

/// Which variables the process repeats.
const TELL: &str = "WINDLASS_TEST_TELL";

const ENV: &str = "canary-env-7f3a9c+/x";
const VARIABLE: &str = "canary-var-51b0de";
const ARGUMENT: &str = "canary-arg-0b1c2d";
const HEADER: &str = "canary-head-9e2d44";
const PATH: &str = "c4naryPath77e1";
const QUERY: &str = "c4naryQuery42ab";
const TOKEN: &str = "canary-cred-66aa01";
const MODEL: &str = "sk-canary-model-3d9f";

const ALL: [&str; 8] = [ENV, VARIABLE, ARGUMENT, HEADER, PATH, QUERY, TOKEN, MODEL];

/// What others make of a text.
pub(super) fn shapes(text: &str) -> Vec<String> {
    let bytes = |each: fn(u8) -> String| text.bytes().map(each).collect::<String>();
    let mut shapes = vec![
        text.to_owned(),
        bytes(|byte| format!("{byte:02x}")),
        bytes(|byte| format!("{byte:02X}")),
        bytes(|byte| format!("%{byte:02X}")),
        bytes(|byte| format!("%{byte:02x}")),
        text.replace('+', "%2B").replace('/', "%2F"),
        text.replace('/', "\\/"),
        STANDARD.encode(text),
        URL_SAFE_NO_PAD.encode(text),
    ];
    // Within a longer text, without what its neighbours have a part in.
    for before in ["", "x", "xy"] {
        let encoded = STANDARD_NO_PAD.encode(format!("{before}{text}"));
        let (from, to) = ((before.len() * 8).div_ceil(6), (before.len() + text.len()) * 8 / 6);
        shapes.push(encoded[from..to].to_owned());
    }
    shapes
}

/// A text that has each secret in each shape.
pub(super) fn told(secrets: &[String]) -> String {
    let shapes: Vec<String> = secrets.iter().flat_map(|secret| shapes(secret)).collect();
    format!("told {} end", shapes.join(" | "))
}

/// What a server of MCP answers that was told these secrets.
fn played(message: &Value, secrets: &[String]) -> Option<Value> {
    let id = message.get("id")?;
    let text = told(secrets);
    let blob = STANDARD.encode(&text);
    let result = match message["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "played", "version": "1"}, "instructions": text}),
        "ping" => json!({}),
        "tools/list" => {
            let tool = |name: &str| {
                json!({"name": name, "title": text, "description": text,
                       "inputSchema": {"type": "object", "description": text}})
            };
            let tools = ["tell", "fail", "refuse"].map(tool);
            json!({"tools": tools})
        }
        "tools/call" => match message["params"]["name"].as_str()? {
            "tell" => json!({"content": [
                {"type": "text", "text": text},
                {"type": "resource", "resource": {"uri": "a://b", "blob": blob}},
                {"type": "image", "data": blob, "mimeType": "image/png"},
            ], "structuredContent": {(text.clone()): [text]}, "_meta": {"x": text}}),
            "fail" => json!({"content": [{"type": "text", "text": text}], "isError": true}),
            _ => {
                let error = json!({"code": -32000, "message": text, "data": {"more": text}});
                return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        },
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// Becomes a server over stdio, if that is wanted.
#[test]
fn plays() {
    let Ok(names) = std::env::var(TELL) else { return };
    let mut secrets: Vec<String> =
        names.split(',').filter_map(|name| std::env::var(name).ok()).collect();
    // The last argument is one, too.
    secrets.extend(std::env::args().next_back().filter(|last| last.starts_with("canary")));
    eprintln!("{}", told(&secrets));
    // A long line without an end, with a secret where it could be cut.
    eprintln!("{}{}", "x".repeat(1_990), secrets.concat());
    println!("{}", told(&secrets));
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else { continue };
        if let Some(answer) = played(&message, &secrets) {
            let mut out = std::io::stdout();
            writeln!(out, "{answer}").unwrap();
            out.flush().unwrap();
        }
    }
    std::process::exit(0);
}

/// Repeats what is secret in a request: as a server of MCP, or as an error.
fn quoting(asked: &Asked) -> Said {
    let headers = ["x-canary", "authorization", "x-api-key"];
    let headers = headers.iter().filter_map(|name| asked.header(name));
    let mut secrets: Vec<String> =
        headers.map(|value| value.trim_start_matches("Bearer ").to_owned()).collect();
    let (_, path) = asked.what();
    secrets
        .extend([PATH, QUERY].iter().filter(|it| path.contains(**it)).map(|it| (*it).to_owned()));
    let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
    if message["jsonrpc"] == "2.0" {
        return match played(&message, &secrets) {
            Some(answer) => Said::json("200 OK", &answer),
            None => Said::nothing("202 Accepted"),
        };
    }
    if asked.what().0 == "GET" && asked.header("accept") == Some("text/event-stream") {
        return Said::nothing("405 Method Not Allowed");
    }
    let error = json!({"error": {"type": "invalid_request_error", "message":
        format!("nothing at {path}: {}", told(&secrets))}});
    Said::json("400 Bad Request", &error)
}

pub(super) fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

pub(super) fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path.display().to_string(), std::fs::read(&path).unwrap())),
        }
    }
    found
}

/// The arguments of all processes of this machine that have a word in them.
fn command_lines(word: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(word)).collect()
}

#[test]
fn no_secret_of_any_source_shows_in_any_shape_anywhere() {
    let other = TestUpstream::start(quoting);
    let collector = TestUpstream::start(|_| Said::json("200 OK", &json!({})));
    let project = Project::empty();
    project.write(
        "windlass.yaml",
        &format!(
            "outbound: {{allow: ['127.0.0.1']}}\nretry: 1\ntelemetry: {{endpoint: '{}'}}\n\
             models: {{providers: {{anthropic: 'anthropic {}'}}}}\n",
            collector.url(),
            other.url()
        ),
    );
    let this = std::env::current_exe().unwrap().display().to_string();
    let process = json!({
        "command": this,
        "args": ["--exact", "http::secrets::plays", "--nocapture", "--test-threads=1",
                 "--skip", "${CANARY_ARGUMENT}"],
        "env": {TELL: "ONE,TWO", "ONE": ENV, "TWO": "${CANARY_VARIABLE}"},
    });
    project.write("tools/servers.json", &json!({"mcpServers": {"proc": process}}).to_string());
    project.write(
        "tools/helper.yaml",
        "name: helper\nkind: agent\ndescription: Helps.\nmodel: claude-sonnet-4-20250514\n\
         system: Help.\ntools: [calculator]\n",
    );
    let variables = [
        ("WINDLASS_LOG", "trace"),
        ("CANARY_VARIABLE", VARIABLE),
        ("CANARY_ARGUMENT", ARGUMENT),
        ("ANTHROPIC_API_KEY", MODEL),
    ];
    let mut server = Server::run(Arc::new(project), &[], &variables, None);
    let client = server.admin();
    let mut events = client.follow("/v1/events", None);
    let mut shown: Vec<(String, String)> = Vec::new();

    let remote = format!(
        "identity: {{name: remote}}\nmcp:\n  url: {}/mcp?key={QUERY}\n  headers:\n    \
         X-Canary: {HEADER}\n",
        other.url()
    );
    let made = client.post("/v1/providers", &json!({"definition": remote}));
    made.is(201);
    shown.push(("the provider".to_owned(), made.text()));
    let service = format!(
        "identity: {{name: svc}}\ncredentials_schema: {{token: {{type: secret-input, required: \
         true}}}}\n---\nname: svc_me\nprovider: svc\ndescription: Who am I?\nbehaviour: \
         {{read_only: true}}\nentry: {{type: rest, base_url: '{}', path: /me, method: GET, auth: \
         bearer}}\n",
        other.url()
    );
    client.post("/v1/providers", &json!({"definition": service})).is(201);
    let token = json!({"name": "default", "values": {"token": TOKEN}});
    client.post("/v1/providers/svc/credentials", &token).is(201);
    let webhook = format!("{}/services/{PATH}/in?sig={QUERY}", other.url());
    let webhook = json!({"name": "default", "values": {"webhook_url": webhook}});
    client.post("/v1/providers/notification/credentials", &webhook).is(201);

    until("the servers are there", || {
        let tools = client.get("/v1/tools?limit=500").text();
        (tools.contains("proc/tell") && tools.contains("remote/tell")).then_some(())
    });
    let mut call = |tool: &str, arguments: Value| {
        let result = client.post("/v1/calls", &json!({"tool": tool, "arguments": arguments}));
        result.is(200);
        let text = result.text();
        assert!(text.contains("[hidden]"), "{tool} was told nothing: {text}");
        shown.push((tool.to_owned(), text));
    };
    for tool in ["proc/tell", "proc/fail", "proc/refuse"] {
        call(tool, json!({}));
    }
    for tool in ["remote/tell", "remote/fail", "remote/refuse"] {
        call(tool, json!({}));
    }
    call("svc_me", json!({}));
    call("send_notification", json!({"message": "x"}));
    call("helper", json!({"message": "x"}));
    let batch = json!({"calls": [{"tool": "proc/tell", "arguments": {}},
                                 {"tool": "remote/fail", "arguments": {}}]});
    let followed = client.stream("/v1/batches", &batch).rest();
    shown.push(("a batch".to_owned(), format!("{followed:?}")));
    until("all are recorded", || {
        let page = client.get("/v1/calls?limit=100").is(200);
        (page["records"].as_array().unwrap().len() >= 11).then_some(())
    });
    for path in [
        "/v1/calls?limit=100",
        "/v1/tools?limit=500",
        "/v1/providers",
        "/v1/providers/remote",
        "/v1/credentials",
        "/v1/stats",
        "/metrics",
    ] {
        shown.push((path.to_owned(), client.get(path).text()));
    }
    shown.push(("events".to_owned(), format!("{:?}", events.up_to("queue_drained"))));
    let lines = command_lines("windlass serve");
    shown.push(("command lines".to_owned(), lines.join("\n")));
    let mut server_line = server.project.command(&["calls", "--json"]);
    let listed = server_line.output().unwrap();
    shown.push(("windlass calls".to_owned(), String::from_utf8_lossy(&listed.stdout).into_owned()));
    // What others were told arrived, so that there was something to hide.
    for secret in [HEADER, PATH, QUERY, TOKEN, MODEL] {
        assert!(other.count(secret) > 0, "{secret} was sent to nobody");
    }
    // The log is written, the spans are sent and the database is closed by now.
    server.terminate();
    let log = server.log();
    assert!(log.contains("[hidden]") && log.contains("told"), "what a process says is logged");
    for asked in collector.asked() {
        shown.push(("a trace".to_owned(), asked.body));
    }
    assert!(!collector.asked().is_empty(), "spans were sent");
    let own = ["servers.json", "windlass.yaml"];
    let kept = files(&server.project.path(""));
    let kept = kept.into_iter().filter(|(name, _)| !own.iter().any(|own| name.ends_with(own)));
    let shown = shown.into_iter().map(|(place, text)| (place, text.into_bytes()));
    for (place, bytes) in shown.chain(kept) {
        for secret in ALL {
            for shape in shapes(secret) {
                assert!(
                    !holds(&bytes, &shape),
                    "{secret} as {shape} in {place}: {}",
                    around(&bytes, &shape)
                );
            }
        }
    }
}

/// What stands around a text.
pub(super) fn around(bytes: &[u8], text: &str) -> String {
    let at = bytes.windows(text.len()).position(|part| part == text.as_bytes()).unwrap_or_default();
    let end = (at + text.len() + 80).min(bytes.len());
    String::from_utf8_lossy(&bytes[at.saturating_sub(300)..end]).into_owned()
}

#[test]
fn a_definition_with_secrets_is_sealed_and_outlives_the_server() {
    let other = TestUpstream::start(quoting);
    let server = Server::with("outbound: {allow: ['127.0.0.1']}\n", &[]);
    let client = server.admin();
    let definition = format!(
        "identity: {{name: remote}}\nmcp:\n  url: {}/mcp\n  headers: {{X-Canary: {HEADER}}}\n",
        other.url()
    );
    client.post("/v1/providers", &json!({"definition": definition})).is(201);
    let find = |server: &Server| {
        let client = server.admin();
        until("its tools are there", || {
            client.get("/v1/tools?limit=500").text().contains("remote/tell").then_some(())
        });
    };
    find(&server);
    for (name, bytes) in files(&server.project.path("")) {
        assert!(!holds(&bytes, HEADER), "{name}");
    }
    let server = server.kill_and_start();
    find(&server);
    let result = server.admin().post("/v1/calls", &json!({"tool": "remote/tell", "arguments": {}}));
    assert!(result.is(200)["is_success"] == true && !result.text().contains(HEADER), "{result}");
    let sent = other.count(HEADER);
    // A new data key does not lock it out.
    server.project.ok(&["credentials", "rotate-data-key", "--quiet"]);
    let server = server.kill_and_start();
    server.admin().post("/v1/calls", &json!({"tool": "remote/tell", "arguments": {}})).is(200);
    assert!(other.count(HEADER) > sent);
    server.admin().delete("/v1/providers/remote");
}

#[test]
fn a_secret_that_is_too_short_to_be_hidden_is_not_stored() {
    let server = Server::start();
    let client = server.admin();
    let acme = "identity: {name: acme}\n\
                credentials_schema: {token: {type: secret-input}, site: {type: text-input}}\n";
    client.post("/v1/providers", &json!({"definition": acme})).is(201);
    let path = "/v1/providers/acme/credentials";
    let store = |name: &str, token: &str| {
        client.post(path, &json!({"name": name, "values": {"token": token, "site": "eu"}}))
    };
    let refused = store("a", "5hort");
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("at least 6 characters"), "{refused}");
    assert!(!refused.text().contains("5hort"), "{refused}");
    store("b", "5horts").is(201);
    let server_of = |header: &str| {
        let definition = format!(
            "identity: {{name: remote}}\nmcp: {{url: 'https://mcp.example.com/', headers: \
             {{{header}}}}}\n"
        );
        client.post("/v1/providers", &json!({"definition": definition}))
    };
    for header in ["Authorization: Bearer 5hrt", "X-Api-Key: abc"] {
        let refused = server_of(header);
        assert_eq!(refused.status, 400, "{refused}");
        assert!(refused.text().contains("fewer than 6 characters"), "{refused}");
    }
    server_of("X-Mode: eu").is(201);
}
