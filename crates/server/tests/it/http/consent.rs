//! OAuth 2.0 consent: from the authorization URL in a call's error to token refresh.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Server, until};
use super::several::pair;
use super::wire::Client;
use crate::postgres::Database;
use crate::upstream::{Said, TestUpstream};

const ALLOWED: &str = "outbound: {allow: [127.0.0.1]}\n";

/// What a service says to a refresh token.
#[derive(Clone, Copy, PartialEq)]
enum Refresh {
    Given,
    Refused,
}

/// A service with a token endpoint. Its first token ends at once.
fn service(refresh: Refresh) -> TestUpstream {
    TestUpstream::start(move |asked| {
        if asked.contains("grant_type=authorization_code") {
            Said::token("first-token", Some("again-1"), 1)
        } else if asked.contains("grant_type=refresh_token") {
            // Long enough for everybody else to find that the token has ended.
            thread::sleep(Duration::from_millis(300));
            match refresh {
                Refresh::Given => Said::token("second-token", Some("again-2"), 3600),
                Refresh::Refused => {
                    Said::json("400 Bad Request", &json!({"error": "invalid_grant"}))
                }
            }
        } else {
            Said::json("200 OK", &json!({"echo": format!("{}{}", asked.head, asked.body)}))
        }
    })
}

/// Imports the document of a service, with one tool, and stores the client's
/// credential.
fn offer(service: &TestUpstream, client: &Client) {
    let url = service.url();
    let document = json!({
        "openapi": "3.0.3", "info": {"title": "Me", "version": "1"}, "servers": [{"url": url}],
        "paths": {"/me": {"get": {"operationId": "me", "responses": {}}}},
        "security": [{"person": ["profile"]}],
        "components": {"securitySchemes": {"person": {"type": "oauth2", "flows": {"authorizationCode": {
            "authorizationUrl": "https://x.example/agree", "tokenUrl": format!("{url}/token"),
            "refreshUrl": format!("{url}/refresh"), "scopes": {}}}}}},
    });
    client.post("/v1/providers", &json!({"name": "svc", "document": document})).is(201);
    let values =
        json!({"values": {"person_client_id": "client-7", "person_client_secret": "hush-hush-1"}});
    client.post("/v1/providers/svc/credentials", &values).is(201);
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
fn consents_that_nobody_answers_are_counted() {
    let service = service(Refresh::Given);
    let server = Server::with(&format!("{ALLOWED}quotas: {{per_key: {{consents: 2}}}}"), &[]);
    let client = server.key("default", "operator");
    offer(&service, &client);
    way_back(&me(&client));
    let second = way_back(&me(&client));
    let refused = client.post("/v1/calls", &json!({"tool": "me", "arguments": {}}));
    let problem = refused.problem(429, "quota_exceeded");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with("consents under way of the key `key_"), "{detail}");
    assert!(detail.contains("all of 2 are used, until the first ends at 20"), "{detail}");
    let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=600).contains(&after), "{after}");
    way_back(&me(&server.key("default", "operator")));
    assert_eq!(server.nobody().get(&second).status, 200, "one that is answered makes room");
}

#[test]
fn a_person_agrees_and_one_refresh_serves_all_calls() {
    let service = service(Refresh::Given);
    let server = Server::with(ALLOWED, &[]);
    let client = server.key("default", "operator");
    offer(&service, &client);
    let told = me(&client);
    let text = told["feedback"].as_str().unwrap();
    assert!(text.starts_with("Authorization required. "), "{text}");
    // Nothing stands behind the address that could be taken for a part of it.
    let (_, address) = text.split_once("`svc` is opened at https://x.example/agree?").unwrap();
    assert!(!address.contains(' ') && !address.ends_with('.'), "{text}");
    assert!(!text.contains("授权"), "one language: {text}");
    let challenge = text.split("code_challenge=").nth(1).unwrap().split('&').next().unwrap();
    assert!(challenge.len() == 43 && text.contains("code_challenge_method=S256"));
    assert!(text.contains("client_id=%63l%69e%6Et%2D7") && !text.contains("hush-hush-1"));

    let back = way_back(&told);
    assert_eq!(server.nobody().get(&back).status, 200);
    assert_eq!(server.nobody().get(&back).status, 400, "a state is used once");
    let exchange = service.asked().pop().unwrap().body;
    assert!(exchange.contains("code=c-1") && exchange.contains("code_verifier="), "{exchange}");

    crowd(&[&client]);
    assert_eq!(service.count("grant_type=refresh_token"), 1);
    assert_eq!(service.count("POST /refresh "), 1, "where the document says");
    assert_eq!(service.count("Bearer second-token"), 8);
    // What one tenant was granted is not another's.
    let other = server.key("other", "operator");
    offer(&service, &other);
    way_back(&me(&other));
}

#[test]
fn two_servers_ask_for_the_next_token_once() {
    let service = service(Refresh::Given);
    let database = Database::new();
    let (one, two) = pair(&database, ALLOWED);
    let (here, there) = (one.admin(), two.admin());
    offer(&service, &here);
    until("the tool", || (there.get("/v1/tools/me").status == 200).then_some(()));
    // The browser comes back to the other server.
    let back = way_back(&me(&here));
    assert_eq!(two.nobody().get(&back).status, 200);
    assert_eq!(one.nobody().get(&back).status, 400, "a state is used once");
    crowd(&[&here, &there]);
    assert_eq!(service.count("grant_type=authorization_code"), 1);
    assert_eq!(service.count("grant_type=refresh_token"), 1);
    assert_eq!(service.count("Bearer second-token"), 8);
}

#[test]
fn a_grant_that_is_taken_back_is_asked_for_again() {
    let service = service(Refresh::Refused);
    let server = Server::with(&format!("lang: zh\n{ALLOWED}"), &[]);
    let client = server.key("default", "operator");
    offer(&service, &client);
    let told = me(&client);
    let text = told["feedback"].as_str().unwrap();
    assert!(text.starts_with("需要授权") && !text.contains("Authorization"), "{text}");
    assert_eq!(server.nobody().get(&way_back(&told)).status, 200);
    let refused = me(&client);
    assert_eq!(refused["is_success"], false, "{refused}");
    // Once is enough: a refresh token that is refused is not tried again.
    way_back(&me(&client));
    assert_eq!(service.count("grant_type=refresh_token"), 1);
    assert_eq!(service.count("GET /me"), 0, "nothing goes out without a token");
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
