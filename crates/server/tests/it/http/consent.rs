//! People who agree that tools act in their name: OAuth 2.0, from the address
//! that a call answers with to the next token.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Server, until};
use super::several::pair;
use super::wire::Client;
use crate::postgres::Database;

const ALLOWED: &str = "outbound: {allow: [127.0.0.1]}\n";

/// A service with a token endpoint, and what it was asked. Its first token ends
/// at once.
struct Service {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

/// What it says to a refresh token.
#[derive(Clone, Copy, PartialEq)]
enum Refresh {
    Given,
    Refused,
}

impl Service {
    fn start(refresh: Refresh) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || serve(BufReader::new(stream.unwrap()), &kept, refresh));
            }
        });
        Self { url, seen }
    }

    /// Imports its document, with one tool, and stores the client's credential.
    fn offer(&self, client: &Client) {
        let document = json!({
            "openapi": "3.0.3", "info": {"title": "Me", "version": "1"}, "servers": [{"url": self.url}],
            "paths": {"/me": {"get": {"operationId": "me", "responses": {}}}},
            "security": [{"person": ["profile"]}],
            "components": {"securitySchemes": {"person": {"type": "oauth2", "flows": {"authorizationCode": {
                "authorizationUrl": "https://x.example/agree", "tokenUrl": format!("{}/token", self.url),
                "refreshUrl": format!("{}/refresh", self.url), "scopes": {}}}}}},
        });
        client.post("/v1/providers", &json!({"name": "svc", "document": document})).is(201);
        let values = json!({"values": {"person_client_id": "client-7", "person_client_secret": "hush-hush-1"}});
        client.post("/v1/providers/svc/credentials", &values).is(201);
    }

    fn asked(&self, what: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|asked| asked.contains(what)).count()
    }
}

fn serve(
    mut stream: BufReader<TcpStream>,
    seen: &Mutex<Vec<String>>,
    refresh: Refresh,
) -> Option<()> {
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
        seen.lock().unwrap().push(asked.clone());
        let (status, answer) = if asked.contains("grant_type=authorization_code") {
            let token =
                json!({"access_token": "first-token", "refresh_token": "again-1", "expires_in": 1});
            (200, token)
        } else if asked.contains("grant_type=refresh_token") {
            // Long enough for everybody else to find that the token has ended.
            thread::sleep(Duration::from_millis(300));
            match refresh {
                Refresh::Given => (
                    200,
                    json!({"access_token": "second-token", "refresh_token": "again-2", "expires_in": 3600}),
                ),
                Refresh::Refused => (400, json!({"error": "invalid_grant"})),
            }
        } else {
            (200, json!({"echo": asked}))
        };
        let text = answer.to_string();
        let head =
            format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length");
        write!(stream.get_mut(), "{head}: {}\r\n\r\n{text}", text.len()).ok()?;
    }
}

fn me(client: &Client) -> Value {
    client.post("/v1/calls", &json!({"tool": "me", "arguments": {}})).value()
}

/// The address of the browser's way back, from a call that asks for consent.
fn way_back(told: &Value) -> String {
    assert_eq!(told["error_kind"], "authorization_required", "{told}");
    let text = told["feedback"].as_str().unwrap();
    let state = text.split("state=").nth(1).unwrap().split('&').next().unwrap();
    format!("/v1/oauth/callback?code=c-1&state={state}")
}

/// Many calls at once, on these servers in turn; all succeed.
fn crowd(clients: &[&Client]) {
    let calls: Vec<_> = (0..8)
        .map(|at| {
            let client = clients[at % clients.len()].clone();
            thread::spawn(move || me(&client).to_string())
        })
        .collect();
    for call in calls {
        let text = call.join().unwrap();
        assert!(text.contains("echo") && !text.contains("second-token"), "{text}");
    }
}

#[test]
fn a_person_agrees_and_one_refresh_serves_all_calls() {
    let service = Service::start(Refresh::Given);
    let server = Server::with(ALLOWED, &[]);
    let client = server.key("default", "operator");
    service.offer(&client);
    let told = me(&client);
    let text = told["feedback"].as_str().unwrap();
    assert!(text.starts_with("Authorization required. "), "{text}");
    // Nothing stands behind the address that could be taken for a part of it.
    let (_, address) = text.split_once("`svc` is opened at https://x.example/agree?").unwrap();
    assert!(!address.contains(' ') && !address.ends_with('.'), "{text}");
    assert!(!text.contains("授权"), "one language: {text}");
    let challenge = text.split("code_challenge=").nth(1).unwrap().split('&').next().unwrap();
    assert!(challenge.len() == 43 && text.contains("code_challenge_method=S256"));
    assert!(text.contains("client_id=%63%6C%69%65%6E%74%2D%37") && !text.contains("hush-hush-1"));

    let back = way_back(&told);
    assert_eq!(server.nobody().get(&back).status, 200);
    assert_eq!(server.nobody().get(&back).status, 400, "a state is used once");
    let exchange = service.seen.lock().unwrap().last().unwrap().clone();
    assert!(exchange.contains("code=c-1") && exchange.contains("code_verifier="), "{exchange}");

    crowd(&[&client]);
    assert_eq!(service.asked("grant_type=refresh_token"), 1);
    assert_eq!(service.asked("POST /refresh "), 1, "where the document says");
    assert_eq!(service.asked("Bearer second-token"), 8);
    // What one tenant was granted is not another's.
    let other = server.key("other", "operator");
    service.offer(&other);
    way_back(&me(&other));
}

#[test]
fn two_servers_ask_for_the_next_token_once() {
    let service = Service::start(Refresh::Given);
    let database = Database::new();
    let (one, two) = pair(&database, ALLOWED);
    let (here, there) = (one.admin(), two.admin());
    service.offer(&here);
    until("the tool", || (there.get("/v1/tools/me").status == 200).then_some(()));
    // The browser comes back to the other server.
    let back = way_back(&me(&here));
    assert_eq!(two.nobody().get(&back).status, 200);
    assert_eq!(one.nobody().get(&back).status, 400, "a state is used once");
    crowd(&[&here, &there]);
    assert_eq!(service.asked("grant_type=authorization_code"), 1);
    assert_eq!(service.asked("grant_type=refresh_token"), 1);
    assert_eq!(service.asked("Bearer second-token"), 8);
}

#[test]
fn a_grant_that_is_taken_back_is_asked_for_again() {
    let service = Service::start(Refresh::Refused);
    let server = Server::with(&format!("lang: zh\n{ALLOWED}"), &[]);
    let client = server.key("default", "operator");
    service.offer(&client);
    let told = me(&client);
    let text = told["feedback"].as_str().unwrap();
    assert!(text.starts_with("需要授权") && !text.contains("Authorization"), "{text}");
    assert_eq!(server.nobody().get(&way_back(&told)).status, 200);
    let refused = me(&client);
    assert_eq!(refused["is_success"], false, "{refused}");
    // Once is enough: a refresh token that is refused is not tried again.
    way_back(&me(&client));
    assert_eq!(service.asked("grant_type=refresh_token"), 1);
    assert_eq!(service.asked("GET /me"), 0, "nothing goes out without a token");
}

#[test]
fn the_callback_tells_strangers_nothing() {
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
