//! Ownership within a tenant: files, users' credentials, a user's calls; and isolation
//! between tenants.

use serde_json::{Value, json};

use super::server::{Server, until};
use super::wire::Client;
use crate::mcp::http::{body, newer};

/// A client with a new key.
fn key(server: &Server, key: &Value) -> Client {
    let made = server.admin().post("/v1/keys", key).is(201);
    server.client(made["secret"].as_str().unwrap())
}

fn upload(client: &Client, text: &str) -> String {
    let plain = [("Content-Type", "text/plain")];
    let made = client.send("POST", "/v1/files", &plain, text.as_bytes()).is(201);
    made["id"].as_str().unwrap().to_owned()
}

#[test]
fn limits_tell_a_tenant_of_its_own_calls_and_of_nobody_elses() {
    let server = Server::start();
    let asynchronous = [("Prefer", "respond-async")];
    let wait = json!({"tool": "wait", "arguments": {"seconds": 60}});
    let run = |client: &Client| {
        client.json("POST", "/v1/calls", &asynchronous, &wait).is(202);
    };
    let runs = |client: &Client, count: usize| {
        until("they run", || {
            let metrics = client.get("/v1/limits").is(200)["metrics"].clone();
            (metrics["current_concurrent"] == count).then_some(metrics)
        })
    };
    let ours = server.admin();
    run(&ours);
    run(&ours);
    assert_eq!(runs(&ours, 2)["total_acquired"], 2);
    for role in ["viewer", "caller", "operator", "admin"] {
        let metrics = runs(&server.key("theirs", role), 0);
        assert_eq!(metrics, json!({"current_concurrent": 0, "queue_length": 0}), "{role}");
    }
    let theirs = server.key("theirs", "caller");
    run(&theirs);
    let metrics = runs(&theirs, 1);
    assert_eq!(metrics, json!({"current_concurrent": 1, "queue_length": 0}));
    assert_eq!(runs(&server.key("others", "admin"), 0)["queue_length"], 0);
    assert_eq!(runs(&ours, 3)["total_acquired"], 3);
}

#[test]
fn files_are_deleted_by_whoever_uploaded_them_or_an_admin() {
    let server = Server::start();
    let of = |role: &str| server.key("ours", role);
    let (caller, other, operator, admin) =
        (of("caller"), of("caller"), of("operator"), of("admin"));
    for (owner, may_not) in [(&admin, [&caller, &operator]), (&caller, [&other, &operator])] {
        let id = upload(owner, "mine");
        let place = format!("/v1/files/{id}");
        for stranger in may_not {
            stranger.delete(&place).problem(403, "forbidden");
        }
        assert_eq!(owner.get(&place).text(), "mine");
        let listed = other.get("/v1/files").is(200);
        assert!(listed["files"][0]["owner"].as_str().unwrap().starts_with("key_"), "{listed}");
        owner.delete(&place).is(204);
    }
    let place = format!("/v1/files/{}", upload(&caller, "mine"));
    server.key("theirs", "admin").delete(&place).problem(404, "not_found");
    admin.delete(&place).is(204);
}

#[test]
fn viewers_make_no_links() {
    let server = Server::start();
    let (viewer, caller) = (server.key("ours", "viewer"), server.key("ours", "caller"));
    let link = format!("/v1/files/{}/link", upload(&caller, "mine"));
    for life in [json!({}), json!({"expires_in": "1s"}), json!({"expires_in": "720h"})] {
        viewer.post(&link, &life).problem(403, "forbidden");
    }
    caller.post(&link, &json!({})).is(200);
}

#[test]
fn a_key_with_a_view_reads_results_of_its_tools_and_no_uploads() {
    let server = Server::start();
    let admin = server.admin();
    let narrow = key(&server, &json!({"name": "n", "role": "caller", "tools": ["json_format"]}));
    let uploaded = upload(&admin, "a secret upload");
    let long = json!({"tool": "echo", "arguments": {"message": "secret ".repeat(40_000)}});
    let result = admin.post("/v1/calls", &long).is(200);
    let cut = result["truncated"]["handle"].as_str().unwrap();
    let unknown = "00000000-0000-7000-8000-00000000dead";
    let read = |client: &Client, id: &str| {
        let uri = format!("windlass://files/{id}");
        let resource = body(&newer(client, "resources/read", json!({"uri": uri})));
        let call = json!({"name": "read_output", "arguments": {"handle": id}});
        let output = body(&newer(client, "tools/call", call));
        [resource.to_string().replace(id, "ID"), output.to_string().replace(id, "ID")]
    };
    for id in [&uploaded, cut] {
        assert!(read(&admin, id).iter().all(|told| told.contains("secret")), "{id}");
        assert_eq!(read(&narrow, id), read(&narrow, unknown), "{id}");
    }
    let wide = key(&server, &json!({"name": "w", "role": "caller", "tools": ["echo"]}));
    assert!(read(&wide, cut).iter().all(|told| told.contains("secret")), "its own tool's");
    assert_eq!(read(&wide, &uploaded), read(&wide, unknown), "nobody's result");
}

/// A provider whose tool shows which credential it was given, by hiding it.
const ACME: &str = "
identity: {name: acme}
credentials_schema: {token: {type: secret-input, required: true}}
---
name: acme_echo
provider: acme
description: Says it again.
entry: {type: builtin, handler: echo}
parameters: [{name: message, type: string, required: true}]
";
const TOKENS: &str = "shared-token ada-token bob-token";

fn acme(server: &Server) {
    let admin = server.admin();
    admin.post("/v1/providers", &json!({"definition": ACME})).is(201);
    for (user, token) in
        [(json!(null), "shared-token"), (json!("ada"), "ada-token"), (json!("bob"), "bob-token")]
    {
        let stored = json!({"user_id": user, "values": {"token": token}});
        admin.post("/v1/providers/acme/credentials", &stored).is(201);
    }
}

#[test]
fn a_key_uses_the_credentials_of_its_own_person_alone() {
    let server = Server::start();
    acme(&server);
    let new = |role: &str, user: Value| {
        key(&server, &json!({"name": "k", "role": role, "user_id": user}))
    };
    let adas = new("caller", json!("ada"));
    let plain = new("caller", json!(null));
    let many = new("caller", json!("*"));
    let bound = new("operator", json!("ada"));
    let operator = new("operator", json!(null));
    let (shared, ada, bob) = (
        "[hidden] ada-token bob-token",
        "shared-token [hidden] bob-token",
        "shared-token ada-token [hidden]",
    );
    // Who calls, whom they name, and whose credential it is; none where it is refused.
    for (client, user, used) in [
        (&adas, None, Some(ada)),
        (&adas, Some("ada"), Some(ada)),
        (&adas, Some("bob"), None),
        (&adas, Some("*"), None),
        (&plain, None, Some(shared)),
        (&plain, Some("ada"), None),
        (&many, None, Some(shared)),
        (&many, Some("ada"), Some(ada)),
        (&many, Some("bob"), Some(bob)),
        (&bound, None, Some(ada)),
        (&bound, Some("bob"), None),
        (&operator, Some("bob"), Some(bob)),
    ] {
        let call = json!({"tool": "acme_echo", "arguments": {"message": TOKENS}, "user_id": user});
        let input = json!({"message": TOKENS});
        let used_block =
            json!({"type": "tool_use", "id": "t", "name": "acme_echo", "input": input});
        let message = json!({"role": "assistant", "content": [used_block]});
        let query = user.map(|user| format!("?user_id={user}")).unwrap_or_default();
        let inner = json!({"calls": [call]});
        let outer = json!({"calls": [{"tool": "acme_echo", "arguments": input}], "user_id": user});
        let answers = [
            client.post("/v1/calls", &call),
            client.post("/v1/batches", &inner),
            client.post("/v1/batches", &outer),
            client.post(&format!("/v1/turns{query}"), &message),
        ];
        for answer in answers {
            match used {
                Some(used) => {
                    answer.is(200);
                    assert!(answer.text().contains(used), "{user:?}: {answer}");
                }
                None => drop(answer.problem(403, "forbidden")),
            }
        }
    }
    // Over the protocol nobody is named: it is the key's person.
    let call = json!({"name": "acme_echo", "arguments": {"message": TOKENS}});
    for (client, used) in [(&adas, ada), (&plain, shared), (&many, shared)] {
        let said = body(&newer(client, "tools/call", call.clone())).to_string();
        assert!(said.contains(used), "{said}");
    }
    // In the background, and after the key was read again.
    let later = json!({"tool": "acme_echo", "arguments": {"message": TOKENS}});
    let begun = adas.json("POST", "/v1/calls", &[("Prefer", "respond-async")], &later).is(202);
    let place = format!("/v1/calls/{}?wait=20s", begun["call_id"].as_str().unwrap());
    let record = adas.get(&place).is(200);
    assert_eq!(record["user_id"], "ada", "{record}");
    let keys = server.admin().get("/v1/keys").is(200);
    let users: Vec<&Value> =
        keys["keys"].as_array().unwrap().iter().map(|it| &it["user"]).collect();
    assert!(users.contains(&&json!("ada")) && users.contains(&&json!("*")), "{keys}");
    for bad in ["", "a\u{0}b", &"x".repeat(300)] {
        let body = json!({"name": "k", "role": "caller", "user_id": bad});
        server.admin().post("/v1/keys", &body).problem(400, "invalid_request");
    }
    let made = server.project.json(&["keys", "create", "cli", "--user", "ada"]);
    assert_eq!(made["key"]["user"], "ada", "{made}");
}

#[test]
fn with_four_eyes_nobody_approves_what_they_asked_for() {
    let settings = "approvals: {four_eyes: true, rules: [{tool: write_note, then: ask}]}\n";
    let server = Server::with(settings, &[]);
    let new =
        |user: Value| key(&server, &json!({"name": "k", "role": "operator", "user_id": user}));
    let (asker, other) = (new(json!(null)), new(json!(null)));
    let (adas, adas_second, bobs) = (new(json!("ada")), new(json!("ada")), new(json!("bob")));
    let ask = |client: &Client| {
        let note = json!({"tool": "write_note", "arguments": {"message": "x"}});
        client.post("/v1/calls", &note).is(202)["call_id"].as_str().unwrap().to_owned()
    };
    let decide = |client: &Client, id: &str, route: &str, approved: bool| {
        let path = match route {
            "approvals" => format!("/v1/approvals/{id}"),
            _ => format!("/v1/calls/{id}/resume"),
        };
        client.post(&path, &json!({"approved": approved}))
    };
    for route in ["approvals", "resume"] {
        for (by, not, yes) in
            [(&asker, &asker, &other), (&adas, &adas, &bobs), (&adas, &adas_second, &bobs)]
        {
            let id = ask(by);
            decide(not, &id, route, true).problem(403, "four_eyes");
            assert_eq!(decide(yes, &id, route, true).is(200)["output"], "x");
        }
        // Whoever asked may think better of it.
        let refused = decide(&asker, &ask(&asker), route, false).is(200);
        assert_eq!(refused["is_success"], false, "{refused}");
    }
    // What an agent's client asks for over the protocol is asked for by its key, too.
    let call = json!({"name": "write_note", "arguments": {"message": "x"}});
    body(&newer(&asker, "tools/call", call));
    let waiting = asker.get("/v1/approvals").is(200);
    let id = waiting["approvals"][0]["call_id"].as_str().unwrap();
    decide(&asker, id, "approvals", true).problem(403, "four_eyes");
    decide(&other, id, "approvals", true).is(200);
    // It is a setting.
    let free = Server::with("approvals: {rules: [{tool: write_note, then: ask}]}\n", &[]);
    let (admin, id) = (free.admin(), ask(&free.admin()));
    decide(&admin, &id, "approvals", true).is(200);
}
