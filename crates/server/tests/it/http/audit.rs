//! The audit log: who changed what, who was refused, and whether the log was tampered
//! with.

use serde_json::{Value, json};

use super::server::Server;
use super::wire::Client;
use crate::project::Project;

fn entries(client: &Client, query: &str) -> Vec<Value> {
    let page = client.get(&format!("/v1/audit?limit=1000{query}")).is(200);
    page["entries"].as_array().unwrap().clone()
}

fn actions(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["action"].as_str().unwrap()).collect()
}

#[test]
fn whatever_changes_something_is_in_the_log_with_who_did_it() {
    let server = Server::start();
    let admin = server.admin();
    let operator = server.key("default", "operator");
    // Rules, a call that waits, and what somebody says to it.
    let rules = json!({"rules": [{"tool": "write_note", "then": "ask"}]});
    operator.put("/v1/approvals/rules", &rules).is(200);
    let call = json!({"tool": "write_note", "arguments": {"message": "a secret text"}});
    let waiting = operator.post("/v1/calls", &call).is(202);
    let place = format!("/v1/approvals/{}", waiting["call_id"].as_str().unwrap());
    operator.post(&place, &json!({"approved": false})).is(200);
    // Tools, providers and credentials.
    let provider = "identity: {name: acme}\ncredentials_schema: {token: {type: secret-input}}\n";
    operator.post("/v1/providers", &json!({"definition": provider})).is(201);
    let secret = json!({"values": {"token": "never-in-the-log"}});
    operator.post("/v1/providers/acme/credentials", &secret).is(201);
    operator.delete("/v1/providers/acme").is(204);
    // What somebody may not do, and what is wrong.
    operator.post("/v1/keys", &json!({"name": "x", "role": "admin"})).problem(403, "forbidden");
    admin.delete("/v1/keys/key_unknown").problem(404, "not_found");
    // Looking is nobody's business.
    operator.get("/v1/credentials").is(200);
    operator.get("/v1/audit").problem(403, "forbidden");

    let log = entries(&admin, "");
    let expected = [
        "create_first_key",
        "create_key",
        "set_approval_rules",
        "decide_approval",
        "create_provider",
        "store_credential",
        "delete_provider",
        "create_key",
        "revoke_key",
    ];
    assert_eq!(actions(&log), expected, "{log:#?}");
    assert_eq!(log[1]["actor"]["key_id"], "key_first");
    assert_eq!((&log[1]["details"]["role"], &log[1]["status"]), (&json!("operator"), &json!(201)));
    assert_eq!(log[2]["actor"]["role"], "operator");
    assert_eq!(log[2]["actor"]["address"], "127.0.0.1");
    assert_eq!((&log[3]["target"], &log[3]["details"]["approved"]), (&json!(place), &json!(false)));
    assert_eq!((&log[7]["status"], &log[8]["status"]), (&json!(403), &json!(404)));
    let text = json!(log).to_string();
    assert!(!text.contains("never-in-the-log") && !text.contains("secret text"), "{text}");
    // Parts of it.
    assert_eq!(entries(&admin, "&action=create_key").len(), 2);
    assert_eq!(entries(&admin, "&key_id=key_first").len(), 2);
    let page = admin.get("/v1/audit?limit=4").is(200);
    assert_eq!(page["next"], 4, "{page}");
    let page = admin.get("/v1/audit?limit=5&after=4").is(200);
    assert_eq!((page["entries"].as_array().unwrap().len(), &page["next"]), (5, &Value::Null));
    let checked = admin.get("/v1/audit/verify").is(200);
    assert_eq!((&checked["intact"], &checked["entries"]), (&json!(true), &json!(9)), "{checked}");
}

#[test]
fn a_tenant_has_a_log_of_its_own() {
    let server = Server::start();
    let ours = server.key("ours", "admin");
    ours.post("/v1/keys", &json!({"name": "agent", "role": "caller"})).is(201);
    let own = entries(&ours, "");
    assert_eq!(actions(&own), ["create_key"]);
    assert_eq!(own[0]["number"], 1);
    ours.get("/v1/audit?tenant_id=default").problem(403, "forbidden");
    // Whoever runs the installation sees all.
    assert_eq!(entries(&server.admin(), "&tenant_id=ours"), own);
    assert_eq!(entries(&server.admin(), "").last().unwrap()["details"]["tenant"], "ours");
}

#[test]
fn keys_that_do_not_work_are_counted_limited_and_in_the_log() {
    let server = Server::start();
    let wrong = server.client("wl_0000000000_000000000000000000000000000000000000000000");
    let mut limited = None;
    for at in 0..200 {
        let answer = wrong.get("/v1/tools");
        match answer.status {
            401 => assert!(limited.is_none(), "{at}: {answer}"),
            _ => {
                answer.problem(429, "too_many_failed_keys");
                assert!(answer.header("retry-after").is_some(), "{answer}");
                limited.get_or_insert(at);
            }
        }
    }
    assert!((50..200).contains(&limited.unwrap()), "{limited:?}");
    // Others at the same address are not shut out.
    let admin = server.admin();
    admin.get("/v1/tools").is(200);
    let metrics = admin.get("/metrics").text();
    assert!(metrics.contains("windlass_failed_keys_total 200\n"), "{metrics}");
    let refused = 200 - limited.unwrap();
    assert!(metrics.contains(&format!("windlass_failed_keys_limited_total {refused}\n")));
    let failed = entries(&admin, "&action=failed_key");
    assert_eq!(failed.len(), 1, "one for all of them: {failed:?}");
    assert_eq!(failed[0]["actor"], json!({"type": "nobody", "address": "127.0.0.1"}));
}

#[test]
fn a_log_that_somebody_changed_is_found_out() {
    let server = Server::start();
    let project = std::sync::Arc::clone(&server.project);
    (0..3).for_each(|_| drop(server.key("default", "caller")));
    drop(server);
    let verify =
        |project: &Project, args: &[&str]| project.run(&[&["audit", "verify"], args].concat());
    // Commands are in it, too.
    project.ok(&["keys", "create", "by-hand", "--quiet"]);
    let listed = project.json(&["audit", "list"]);
    let last = listed.as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&last["action"], &last["actor"]["type"]),
        (&json!("create_key"), &json!("command"))
    );
    let intact = verify(&project, &[]);
    assert!(intact.code == Some(0) && intact.out.contains("intact: 5 entries"), "{intact:?}");
    // A copy.
    let copy = project.ok(&["audit", "export"]);
    assert_eq!(copy.lines().count(), 5);
    project.write("audit.jsonl", &copy);
    assert_eq!(verify(&project, &["audit.jsonl"]).code, Some(0));
    project.write("audit.jsonl", &copy.replace("\"caller\"", "\"viewer\""));
    let changed = verify(&project, &["audit.jsonl"]);
    assert!(changed.code == Some(1) && changed.out.contains("was changed"), "{changed:?}");
    // The database itself.
    let database =
        windlass_store::bare::rusqlite::Connection::open(project.path(".windlass/windlass.db"))
            .unwrap();
    let sql = "UPDATE documents SET body = replace(body, '\"caller\"', '\"viewer\"') \
               WHERE space = 'audit' AND id LIKE '%3'";
    assert_eq!(database.execute(sql, []).unwrap(), 1);
    drop(database);
    let changed = verify(&project, &[]);
    let told = "NOT intact: entry 3 was changed";
    assert!(changed.code == Some(1) && changed.out.contains(told), "{changed:?}");
}
