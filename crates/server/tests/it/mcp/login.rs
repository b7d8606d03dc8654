//! A remote server that requires OAuth: each user's calls carry their own tokens, and a
//! user without any is told where to log in.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::http::{Client, Server};
use crate::project::Project;
use crate::upstream::{Asked, Said, TestUpstream};

/// A server of tools with an authorization server beside it.
fn answer(asked: &Asked) -> Said {
    let (url, body) = (&asked.url, &asked.body);
    match asked.what() {
        ("POST", "/mcp") => tools(asked),
        ("GET", "/.well-known/oauth-protected-resource/mcp") => {
            let about = json!({"resource": format!("{url}/mcp"), "authorization_servers": [url]});
            Said::json("200 OK", &about)
        }
        ("GET", "/.well-known/oauth-authorization-server") => Said::json(
            "200 OK",
            &json!({"issuer": url, "authorization_endpoint": format!("{url}/agree"),
                "token_endpoint": format!("{url}/token"),
                "registration_endpoint": format!("{url}/register"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"]}),
        ),
        ("POST", "/register") => {
            let asked: Value = serde_json::from_str(body).unwrap();
            let uris = &asked["redirect_uris"];
            let made =
                json!({"client_id": "c-1", "client_secret": "hush-hush", "redirect_uris": uris});
            Said::json("201 Created", &made)
        }
        // Lives for a second, so it is refreshed for every request.
        ("POST", "/token") if body.contains("grant_type=refresh_token") => {
            Said::token("token-of-eve-again", None, 1)
        }
        ("POST", "/token") if body.contains("code=eve") => {
            Said::token("token-of-eve", Some("again"), 1)
        }
        ("POST", "/token") => {
            let code = body.split('&').find_map(|pair| pair.strip_prefix("code=")).unwrap();
            Said::token(&format!("token-of-{code}"), None, 3600)
        }
        ("GET", "/mcp") => Said::nothing("405 Method Not Allowed"),
        _ => Said::json("404 Not Found", &json!({})),
    }
}

fn tools(asked: &Asked) -> Said {
    let token = asked.header("authorization");
    let Some(owner) = token.and_then(|token| token.strip_prefix("Bearer token-of-")) else {
        let place = format!("{}/.well-known/oauth-protected-resource/mcp", asked.url);
        return Said::json("401 Unauthorized", &json!({}))
            .with("WWW-Authenticate", &format!("Bearer resource_metadata=\"{place}\""));
    };
    let message: Value = serde_json::from_str(&asked.body).unwrap();
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "service", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]}),
        "tools/call" => {
            // It repeats what it was told in secret.
            let token = token.unwrap_or_default();
            let text = format!("you are {owner}, says {token}, or {}", STANDARD.encode(token));
            json!({"content": [{"type": "text", "text": text}]})
        }
        "ping" => json!({}),
        _ if message.get("id").is_none() => return Said::nothing("202 Accepted"),
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            let refused = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
            return Said::json("200 OK", &refused);
        }
    };
    Said::json("200 OK", &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

fn call(client: &Client, tool: &str, user: Option<&str>) -> String {
    let mut request = json!({"tool": tool, "arguments": {}});
    if let Some(user) = user {
        request["user_id"] = user.into();
    }
    let text = client.post("/v1/calls", &request).text();
    // Neither as it is nor in base64.
    assert!(!text.contains("token-of-") && !text.contains("rva2VuLW9mLW"), "{text}");
    text
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
    let service = TestUpstream::start(answer);
    let project = Project::empty();
    project.write("windlass.yaml", "outbound: {allow: [127.0.0.1]}\n");
    let servers = json!({"mcpServers": {"svc": {"url": format!("{}/mcp", service.url())}}});
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
    let exchange = service.asked().into_iter().rfind(|a| a.what() == ("POST", "/token"));
    let exchange = exchange.unwrap().body;
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
    let stranger = server.key("other", "operator");
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
    service.forget();
    call_until(&client, "svc/whoami", Some("eve"), "you are eve-again");
    let refresh = service.asked().into_iter().find(|a| a.contains("grant_type=refresh_token"));
    let refresh = refresh.unwrap();
    let proof = refresh.header("authorization").unwrap();
    assert!(proof.to_ascii_lowercase().starts_with("basic "), "{refresh:?}");
    let body = refresh.body;
    assert!(body.contains("refresh_token=again") && body.contains("resource="), "{body}");
    let log = server.log();
    assert!(!log.contains("token-of-") && !log.contains("hush-hush"), "{log}");
}
