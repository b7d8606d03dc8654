//! Providers and credentials.

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
    let page = ours.get("/v1/providers?limit=2").is(200);
    let names = |page: &Value| -> Vec<String> {
        let all = page["providers"].as_array().unwrap().iter();
        all.map(|provider| provider["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&page), ["acme", "bare"]);
    let next =
        ours.get(&format!("/v1/providers?cursor={}", page["next"].as_str().unwrap())).is(200);
    assert_eq!(names(&next), ["plain"]);

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
        (json!({"values": {"region": "moon"}}), "/region"),
        (json!({"values": {"nothing": "x"}}), "/nothing"),
        (json!({"values": {"api_key": ["x"]}}), "/values/api_key"),
    ] {
        let problem = ours.put(&place, &values).is(400);
        assert_eq!(problem["errors"][0]["path"], place_of_fault, "{problem}");
    }

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

    // A check that fails is told, noted, and told without the secret.
    let failing = ACME
        .replace("name: acme", "name: broken")
        .replace("provider: acme", "provider: broken")
        .replace("acme_echo", "broken_echo")
        .replace("message: ping", "other: ping");
    client.post("/v1/providers", &json!({"definition": failing})).is(201);
    let refused = attempt("broken", json!({"api_key": "sk-very-secret-1"}));
    let problem = refused.problem(400, "credential_invalid");
    assert_eq!(problem["result"]["method"], "provider", "{problem}");
    assert!(!refused.text().contains("very-secret"));
    let body = json!({"values": {"api_key": "sk-very-secret-1"}});
    let kept = client.post("/v1/providers/broken/credentials", &body).is(201);
    let place = format!("/v1/credentials/{}", kept["id"].as_str().unwrap());
    client.send("POST", &format!("{place}/validate"), &[], b"").problem(400, "credential_invalid");
    assert_eq!(client.get(&place).is(200)["validation"]["state"], "invalid");
    client.put(&place, &json!({"values": {"api_key": "sk-another-secret"}})).is(200);
    assert_eq!(client.get(&place).is(200)["validation"]["state"], "unknown");
}
