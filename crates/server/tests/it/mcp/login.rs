//! A remote server that wants a login: each person's calls go with their own
//! tokens, and who has none is told where to log in.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{Client, Server};
use crate::project::Project;

/// A server of tools with an authorization server beside it, and what they were
/// asked.
struct Service {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let (own, kept) = (url.clone(), Arc::clone(&seen));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (own, kept) = (own.clone(), Arc::clone(&kept));
                thread::spawn(move || serve(&own, BufReader::new(stream.unwrap()), &kept));
            }
        });
        Self { url, seen }
    }

    fn count(&self, what: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|asked| asked.contains(what)).count()
    }
}

fn serve(url: &str, mut stream: BufReader<TcpStream>, seen: &Mutex<Vec<String>>) -> Option<()> {
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
        let body = String::from_utf8_lossy(&body).into_owned();
        seen.lock().unwrap().push(format!("{head}{body}"));
        let (status, answer) = answer(url, &head, &body);
        let text = if answer.is_null() { String::new() } else { answer.to_string() };
        let challenge = format!(
            "WWW-Authenticate: Bearer resource_metadata=\"{url}/.well-known/oauth-protected-resource/mcp\"\r\n"
        );
        let challenge = if status.starts_with("401") { challenge.as_str() } else { "" };
        let head = format!("HTTP/1.1 {status}\r\n{challenge}Content-Type: application/json");
        write!(stream.get_mut(), "{head}\r\nContent-Length: {}\r\n\r\n{text}", text.len()).ok()?;
    }
}

fn answer(url: &str, head: &str, body: &str) -> (&'static str, Value) {
    let mut words = head.split(' ');
    match (words.next(), words.next()) {
        (Some("POST"), Some("/mcp")) => tools(head, body),
        (Some("GET"), Some("/.well-known/oauth-protected-resource/mcp")) => {
            ("200 OK", json!({"resource": format!("{url}/mcp"), "authorization_servers": [url]}))
        }
        (Some("GET"), Some("/.well-known/oauth-authorization-server")) => (
            "200 OK",
            json!({"issuer": url, "authorization_endpoint": format!("{url}/agree"),
                "token_endpoint": format!("{url}/token"),
                "registration_endpoint": format!("{url}/register"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"]}),
        ),
        (Some("POST"), Some("/register")) => {
            let asked: Value = serde_json::from_str(body).unwrap();
            let uris = &asked["redirect_uris"];
            let made =
                json!({"client_id": "c-1", "client_secret": "hush-hush", "redirect_uris": uris});
            ("201 Created", made)
        }
        // Lives for a second, so it is refreshed for every request.
        (Some("POST"), Some("/token")) if body.contains("grant_type=refresh_token") => (
            "200 OK",
            json!({"access_token": "token-of-eve-again", "token_type": "bearer", "expires_in": 1}),
        ),
        (Some("POST"), Some("/token")) if body.contains("code=eve") => (
            "200 OK",
            json!({"access_token": "token-of-eve", "token_type": "bearer", "expires_in": 1,
                "refresh_token": "again"}),
        ),
        (Some("POST"), Some("/token")) => {
            let code = body.split('&').find_map(|pair| pair.strip_prefix("code=")).unwrap();
            let token = format!("token-of-{code}");
            ("200 OK", json!({"access_token": token, "token_type": "bearer", "expires_in": 3600}))
        }
        (Some("GET"), Some("/mcp")) => ("405 Method Not Allowed", Value::Null),
        _ => ("404 Not Found", json!({})),
    }
}

fn tools(head: &str, body: &str) -> (&'static str, Value) {
    let token = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("authorization").then(|| value.to_owned())
    });
    let Some(owner) = token.as_deref().and_then(|token| token.strip_prefix("Bearer token-of-"))
    else {
        return ("401 Unauthorized", json!({}));
    };
    let message: Value = serde_json::from_str(body).unwrap();
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "service", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": format!("you are {owner}")}]}),
        "ping" => json!({}),
        _ if message.get("id").is_none() => return ("202 Accepted", Value::Null),
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return ("200 OK", json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
        }
    };
    ("200 OK", json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

fn call(client: &Client, tool: &str, user: Option<&str>) -> String {
    let mut request = json!({"tool": tool, "arguments": {}});
    if let Some(user) = user {
        request["user_id"] = user.into();
    }
    client.post("/v1/calls", &request).text()
}

/// Calls until the answer has what it should.
fn call_until(client: &Client, tool: &str, user: Option<&str>, wanted: &str) -> String {
    let start = Instant::now();
    loop {
        let said = call(client, tool, user);
        if said.contains(wanted) {
            return said;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{tool} {user:?}: {said}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn parameter<'t>(text: &'t str, name: &str) -> &'t str {
    let rest = text.split(&format!("{name}=")).nth(1).unwrap_or_else(|| panic!("{name}: {text}"));
    rest.split(['&', ' ', '"']).next().unwrap()
}

#[test]
fn each_person_logs_in_and_calls_with_their_own_tokens() {
    const WANTED: &str = "Authorization required";
    let service = Service::start();
    let project = Project::empty();
    project.write("windlass.yaml", "outbound: {allow: [127.0.0.1]}\n");
    let servers = json!({"mcpServers": {"svc": {"url": format!("{}/mcp", service.url)}}});
    project.write("tools/servers.json", &servers.to_string());
    let server = Server::run(Arc::new(project), &[], &[], None);
    let client = server.admin();

    // Nobody has logged in, so nobody knows its tools: there is one to log in.
    let told = call_until(&client, "svc/log_in", Some("ann"), WANTED);
    let state = parameter(&told, "state").to_owned();
    assert_eq!(parameter(&told, "code_challenge_method"), "S256");
    assert!(told.contains("resource=http%3A%2F%2F127.0.0.1"), "{told}");
    assert!(!told.contains("需要授权"), "one language is enough: {told}");
    let again = call(&client, "svc/log_in", Some("ann"));
    assert_eq!(parameter(&again, "state"), state, "one login at a time");
    assert_eq!(service.count("POST /register"), 1);

    let back = format!("/v1/oauth/callback?code=ann&state={state}");
    assert_eq!(server.nobody().get(&back).status, 200, "{}", server.log());
    assert_eq!(server.nobody().get(&back).status, 400, "a state is used once");
    let exchange =
        service.seen.lock().unwrap().iter().rfind(|a| a.contains("POST /token")).cloned();
    let exchange = exchange.unwrap();
    assert!(exchange.contains("code_verifier=") && exchange.contains("resource="), "{exchange}");
    call_until(&client, "svc/whoami", Some("ann"), "you are ann");

    // Somebody else, and the tenant itself, have not logged in by that.
    for other in [Some("bob"), None] {
        let told = call_until(&client, "svc/whoami", other, WANTED);
        assert_ne!(parameter(&told, "state"), state);
    }
    let told = call(&client, "svc/whoami", Some("bob"));
    let back = format!("/v1/oauth/callback?code=bob&state={}", parameter(&told, "state"));
    assert_eq!(server.nobody().get(&back).status, 200, "{}", server.log());
    call_until(&client, "svc/whoami", Some("bob"), "you are bob");
    assert!(call(&client, "svc/whoami", Some("ann")).contains("you are ann"));
    let stranger = server.key("other", "caller");
    let told = call(&stranger, "svc/whoami", Some("ann"));
    assert!(told.contains(WANTED), "another tenant's ann is somebody else: {told}");

    let told = call(&client, "svc/whoami", Some("eve"));
    let back = format!("/v1/oauth/callback?code=eve&state={}", parameter(&told, "state"));
    assert_eq!(server.nobody().get(&back).status, 200, "{}", server.log());
    call_until(&client, "svc/whoami", Some("eve"), "you are eve-again");

    // Tokens are in the vault, and nowhere else; so is what proves who we are.
    let server = server.kill_and_start();
    let client = server.admin();
    call_until(&client, "svc/whoami", Some("ann"), "you are ann");
    service.seen.lock().unwrap().clear();
    call_until(&client, "svc/whoami", Some("eve"), "you are eve-again");
    let seen = service.seen.lock().unwrap().clone();
    let refresh = seen.iter().find(|asked| asked.contains("grant_type=refresh_token")).unwrap();
    assert!(refresh.to_ascii_lowercase().contains("authorization: basic "), "{refresh}");
    assert!(refresh.contains("refresh_token=again") && refresh.contains("resource="), "{refresh}");
    let log = server.log();
    assert!(!log.contains("token-of-") && !log.contains("hush-hush"), "{log}");
}
