//! Providers and credentials.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use super::server::Server;

/// A provider whose own check wants an argument, with a tool that only looks.
const ACME: &str = "
identity: {name: acme, author: us, label: {en_US: Acme, zh_Hans: 艾克米}}
credentials_schema:
- {name: api_key, type: secret-input, required: true, help: Ask them.}
- {name: region, type: select, options: [eu, us], default: eu}
credentials_check: {tool: acme_echo, arguments: {message: ping}}
---
name: acme_echo
provider: acme
description: Says it again.
entry: {type: builtin, handler: echo}
parameters: [{name: message, type: string, required: true}]
behaviour: {read_only: true}
";
/// One without a check; its tool needs nothing, and says what its credential is.
const PLAIN: &str = "
identity: {name: plain}
credentials_schema: {token: {type: secret-input, required: true}}
---
name: plain_status
provider: plain
description: Says how it does.
entry: {type: builtin, handler: current_time}
behaviour: {read_only: true}
";
/// One without any tool to try.
const BARE: &str = "
identity: {name: bare}
credentials_schema: {token: {type: secret-input, required: true}, user: {type: text-input}}
";

#[test]
fn providers_are_made_shown_and_deleted() {
    let server = Server::start();
    let (ours, theirs) = (server.key("ours", "operator"), server.key("theirs", "operator"));
    for definition in [ACME, PLAIN, BARE] {
        ours.post("/v1/providers", &json!({"definition": definition})).is(201);
    }
    let again = json!({"definition": ACME});
    ours.post("/v1/providers", &again).problem(409, "conflict");
    let acme = ours.get("/v1/providers/acme").is(200);
    assert_eq!(acme["tools"], json!(["acme_echo"]));
    assert_eq!(acme["credentials_schema"][0]["type"], "secret-input");
    assert_eq!(acme["credentials_schema"][1]["options"], json!(["eu", "us"]));
    assert_eq!(acme["credentials_check"], "acme_echo");
    let mut names = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = ours.get(&format!("/v1/providers?limit=2{cursor}")).is(200);
        let providers = page["providers"].as_array().unwrap();
        assert!(providers.len() <= 2);
        names.extend(providers.iter().map(|it| it["name"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert!(names.is_sorted_by(|a, b| a < b), "once each, by name: {names:?}");
    assert!(["acme", "bare", "plain"].iter().all(|own| names.iter().any(|name| name == own)));

    let unknown = theirs.get("/v1/providers/nothing").text();
    assert_eq!(theirs.get("/v1/providers/acme").text(), unknown);
    assert_eq!(theirs.delete("/v1/providers/acme").text(), unknown);
    ours.delete("/v1/providers/acme").is(204);
    ours.get("/v1/providers/acme").problem(404, "not_found");
    ours.get("/v1/tools/acme_echo").problem(404, "not_found");
    let two = json!({"definition": format!("{BARE}---{PLAIN}")});
    ours.post("/v1/providers", &two).problem(400, "invalid_request");
    ours.post("/v1/providers", &json!({"definition": "name: x"})).problem(400, "invalid_request");
}

#[test]
fn credentials_are_stored_masked_rotated_and_deleted() {
    let server = Server::start();
    let (ours, theirs) = (server.key("ours", "operator"), server.key("theirs", "operator"));
    for client in [&ours, &theirs] {
        client.post("/v1/providers", &json!({"definition": ACME})).is(201);
    }
    let path = "/v1/providers/acme/credentials";
    let body =
        json!({"name": "work", "values": {"api_key": "sk-abcdefghijklmnop", "region": "us"}});
    let stored = ours.post(path, &body);
    let made = stored.is(201);
    assert!(!stored.text().contains("sk-abcdef"), "{stored}");
    let masked = made["fields"]["api_key"].as_str().unwrap();
    assert!(masked.starts_with("••••") && masked.ends_with("mnop"), "{masked}");
    ours.post(path, &body).problem(409, "conflict");
    let of_user =
        json!({"name": "work", "user_id": "ada", "values": {"api_key": "sk-of-ada-12345"}});
    let of_user = ours.post(path, &of_user).is(201);
    let other = json!({"name": "home", "values": {"api_key": "sk-other-123456"}});
    ours.post(path, &other).is(201);
    let count = |query: &str| {
        ours.get(&format!("/v1/credentials{query}")).is(200)["credentials"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((count(""), count("?provider=acme"), count("?user_id=ada")), (3, 3, 1));
    assert_eq!((count("?provider=nothing"), count("?limit=2")), (0, 2));

    // A masked value that comes back from a form leaves the real one as it is.
    let id = made["id"].as_str().unwrap();
    let place = format!("/v1/credentials/{id}");
    let form = json!({"values": {"api_key": masked, "region": "eu"}, "name": "office"});
    let changed = ours.put(&place, &form).is(200);
    assert_eq!(changed["fields"], json!({"api_key": masked, "region": "eu"}));
    assert_eq!(changed["name"], "office");
    let rotated = ours.put(&place, &json!({"values": {"api_key": "sk-new-7777-88889999"}})).is(200);
    assert!(rotated["fields"]["api_key"].as_str().unwrap().ends_with("9999"), "{rotated}");
    let first = ours.put(&place, &json!({"default": true})).is(200);
    assert!(first["default_since"].is_string());
    for (values, place_of_fault) in [
        (json!({"values": {"region": "moon"}}), "/values/region"),
        (json!({"values": {"nothing": "x"}}), "/values/nothing"),
        (json!({"values": {"api_key": ["x"]}}), "/values/api_key"),
    ] {
        let problem = ours.put(&place, &values).problem(400, "invalid_request");
        assert_eq!(problem["errors"][0]["path"], place_of_fault, "{problem}");
    }

    // A name that is taken changes nothing else.
    let taken = json!({"values": {"api_key": "sk-must-not-stick-1"}, "name": "home"});
    ours.put(&place, &taken).problem(409, "conflict");
    let after = ours.get(&place).is(200);
    assert_eq!((&after["fields"], &after["name"]), (&rotated["fields"], &json!("office")));
    // Nor does a mask that was copied with white space, or with more.
    for copied in ["••••9999 ", " ••••9999", "•••• 9999", "••••"] {
        let kept = ours.put(&place, &json!({"values": {"api_key": copied}})).is(200);
        assert_eq!(kept["fields"], rotated["fields"], "{copied:?}");
    }
    let mangled = ours.put(&place, &json!({"values": {"api_key": "••••9999 and more"}}));
    let mangled = mangled.problem(400, "invalid_request");
    assert_eq!(mangled["errors"][0]["path"], "/values/api_key", "{mangled}");

    // Nobody else's.
    let unknown = theirs.get("/v1/credentials/cred_nothing").text();
    assert_eq!(theirs.get(&place).text(), unknown);
    assert_eq!(theirs.put(&place, &json!({"default": true})).text(), unknown);
    assert_eq!(theirs.delete(&place).text(), unknown);
    assert_eq!(theirs.send("POST", &format!("{place}/validate"), &[], b"").text(), unknown);
    let of_user = of_user["id"].as_str().unwrap();
    ours.delete(&format!("/v1/credentials/{of_user}")).is(204);
    ours.get(&format!("/v1/credentials/{of_user}")).problem(404, "not_found");
}

#[test]
fn a_call_uses_the_credential_that_it_names_and_no_other() {
    let server = Server::start();
    let client = server.admin();
    client.post("/v1/providers", &json!({"definition": ACME})).is(201);
    let store = |name: &str, user: Value, key: &str| {
        let body = json!({"name": name, "user_id": user, "values": {"api_key": key}});
        client.post("/v1/providers/acme/credentials", &body).is(201);
    };
    store("default", Value::Null, "tenants-own-key-1");
    store("second", Value::Null, "tenants-second-key");
    store("default", json!("ada"), "adas-very-own-key");
    // What a call was given is hidden in what comes out of it: that tells which.
    let all = "tenants-own-key-1 tenants-second-key adas-very-own-key";
    let call = |more: Value| {
        let mut body = json!({"tool": "acme_echo", "arguments": {"message": all}});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        client.post("/v1/calls", &body).is(200)
    };
    assert_eq!(call(json!({}))["output"], "[hidden] tenants-second-key adas-very-own-key");
    let second = call(json!({"credential": "second"}));
    assert_eq!(second["output"], "tenants-own-key-1 [hidden] adas-very-own-key");
    let adas = call(json!({"user_id": "ada"}));
    assert_eq!(adas["output"], "tenants-own-key-1 tenants-second-key [hidden]");
    let bobs = call(json!({"user_id": "bob"}));
    assert_eq!(bobs["output"], "[hidden] tenants-second-key adas-very-own-key");
    let nothing = call(json!({"credential": "nothing"}));
    assert_eq!(nothing["error_kind"], "credential_invalid");
}

#[test]
fn credentials_are_tried_and_the_answer_says_how() {
    let server = Server::start();
    let client = server.admin();
    for definition in [ACME, PLAIN, BARE] {
        client.post("/v1/providers", &json!({"definition": definition})).is(201);
    }
    let attempt = |provider: &str, values: Value| {
        let path = format!("/v1/providers/{provider}/credentials/validate");
        client.post(&path, &json!({"values": values}))
    };
    let good = attempt("acme", json!({"api_key": "sk-12345678"})).is(200);
    assert_eq!(
        (&good["valid"], &good["method"], &good["tool"]),
        (&true.into(), &"provider".into(), &"acme_echo".into())
    );
    let tool = attempt("plain", json!({"token": "t-12345678"})).is(200);
    assert_eq!((&tool["method"], &tool["tool"]), (&"tool".into(), &"plain_status".into()));
    let form = attempt("bare", json!({"token": "t-12345678"})).is(200);
    assert_eq!((&form["method"], &form["tool"]), (&"format".into(), &Value::Null));
    let bad = attempt("bare", json!({"user": "x"})).problem(400, "credential_invalid");
    assert_eq!(bad["result"]["method"], "format");
    assert_eq!(attempt("acme", json!({"api_key": "x", "region": "moon"})).status, 400);
    attempt("nothing", json!({})).problem(404, "not_found");
}

/// A service that knows one key, and is busy, broken or picky on request.
fn service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let head: Vec<String> = (reader.by_ref().lines().map_while(Result::ok))
                .take_while(|line| !line.is_empty())
                .collect();
            let says = |part: &str| head.iter().any(|line| line.contains(part));
            let status = match () {
                () if says("busy-secret") => "503 Busy",
                () if says("picky-secret") => "404 Not Found",
                () if says("good-secret") => "200 OK",
                () => "401 Unauthorized",
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Length: 2\r\n\
                Content-Type: application/json\r\nConnection: close\r\n\r\n{{}}"
            );
            let _ = reader.get_mut().write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn only_a_refusal_of_the_provider_makes_a_credential_invalid() {
    let server = Server::with("outbound: {allow: ['127.0.0.1']}\nretry: 1\n", &[]);
    let client = server.admin();
    let definition = format!(
        "identity: {{name: svc}}\ncredentials_schema: {{token: {{type: secret-input, required: true}}}}\n\
         credentials_check: {{tool: svc_me}}\n---\nname: svc_me\nprovider: svc\ndescription: Who am I?\n\
         behaviour: {{read_only: true}}\n\
         entry: {{type: rest, base_url: '{}', path: /me, method: GET, auth: bearer}}\n",
        service()
    );
    client.post("/v1/providers", &json!({"definition": definition})).is(201);
    let path = "/v1/providers/svc/credentials";
    let made = client.post(path, &json!({"values": {"token": "good-secret-1"}})).is(201);
    let place = format!("/v1/credentials/{}", made["id"].as_str().unwrap());
    let attempt = || client.send("POST", &format!("{place}/validate"), &[], b"");
    let state = || client.get(&place).is(200)["validation"]["state"].clone();
    let set = |token: &str| client.put(&place, &json!({"values": {"token": token}})).is(200);
    attempt().is(200);
    assert_eq!(state(), "valid");
    // A person who would have to be asked is not: nothing waits, nothing is known.
    let rules = |rules: Value| client.put("/v1/approvals/rules", &rules).is(200);
    rules(json!({"rules": [{"provider": "svc", "then": "ask"}]}));
    let asked = attempt().problem(424, "credential_untested");
    assert!(asked["detail"].as_str().unwrap().contains("approve"), "{asked}");
    assert_eq!(client.get("/v1/approvals").is(200)["approvals"], json!([]));
    rules(json!({}));
    assert_eq!(state(), "valid", "what was known is still known");
    // It is away, or does not understand the question.
    set("busy-secret-1");
    attempt().problem(503, "credential_untested");
    set("picky-secret-1");
    attempt().problem(424, "credential_untested");
    assert_eq!(state(), "unknown");
    set("wrong-secret-1");
    let refused = attempt();
    let problem = refused.problem(400, "credential_invalid");
    assert_eq!(
        (&problem["result"]["method"], &problem["result"]["tool"]),
        (&json!("provider"), &json!("svc_me"))
    );
    assert!(!refused.text().contains("wrong-secret"), "{refused}");
    assert_eq!(state(), "invalid");
    set("good-secret-2");
    assert_eq!(state(), "unknown");
    // The same for values that are not stored.
    let path = "/v1/providers/svc/credentials/validate";
    let values = |token: &str| client.post(path, &json!({"values": {"token": token}}));
    values("good-secret-3").is(200);
    values("busy-secret-3").problem(503, "credential_untested");
    values("wrong-secret-3").problem(400, "credential_invalid");
}

#[test]
fn what_is_wrong_with_a_credential_is_told_without_repeating_it() {
    let server = Server::start();
    let client = server.admin();
    client.post("/v1/providers", &json!({"definition": ACME})).is(201);
    let path = "/v1/providers/acme/credentials";
    let made = client.post(path, &json!({"values": {"api_key": "sk-abcdefghijklmnop"}})).is(201);
    let place = format!("/v1/credentials/{}", made["id"].as_str().unwrap());
    let bodies = [
        json!({"values": "sk-CANARY-1234567"}),
        json!({"values": ["sk-CANARY-1234567"]}),
        json!({"values": {"api_key": ["sk-CANARY-1234567"]}}),
        json!({"values": {"api_key": "x", "region": "sk-CANARY-1234567"}}),
        json!({"sk-CANARY-1234567": 1, "values": {}}),
        json!("sk-CANARY-1234567"),
        json!({"values": {}, "name": ["sk-CANARY-1234567"]}),
    ];
    for body in &bodies {
        let validate = format!("{path}/validate");
        let sent =
            [client.post(path, body), client.put(&place, body), client.post(&validate, body)];
        for answer in sent {
            assert_eq!(answer.status, 400, "{body}: {answer}");
            assert!(!answer.text().contains("CANARY"), "{body}: {answer}");
        }
    }
    let problem = client.post(path, &bodies[0]).problem(400, "invalid_request");
    assert_eq!(problem["errors"][0]["path"], "/values");
    assert!(problem["errors"][0]["message"].as_str().unwrap().starts_with("expected a map"));
}
