//! Credentials and API keys, managed by the real program while a server runs.

use std::fs;
use std::sync::Arc;

use serde_json::json;

use super::server::weather;
use crate::http::{Server, until};
use crate::project::Project;

const CALL: &str = r#"{"tool": "forecast", "arguments": {"message": "rain"}}"#;

fn start() -> Server {
    let project = Project::empty();
    project.write("windlass.yaml", "");
    weather(&project);
    Server::run(Arc::new(project), &[], &[], None)
}

#[track_caller]
fn works(server: &Server) {
    let result = server.call(&[], CALL).json();
    assert_eq!(result["is_success"], true, "{result}");
}

#[test]
fn a_master_key_is_replaced_while_a_server_runs() {
    let server = start();
    let refused = server.call(&[], CALL).json();
    assert_eq!(refused["is_success"], false, "nothing is stored yet: {refused}");
    let project = &server.project;
    let set = project.pipe("canary-one", &["credentials", "set", "skies", "--stdin"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    works(&server);
    let key = project.path(".windlass/windlass.key");
    let before = fs::read_to_string(&key).unwrap();
    let rotated = project.json(&["credentials", "rotate-master-key", "--quiet"]);
    assert_eq!(rotated["tenants"], 1, "{rotated}");
    works(&server);
    let pruned = project.json(&["credentials", "rotate-master-key", "--prune"]);
    assert_eq!(pruned["dropped"], 1, "{pruned}");
    let after = fs::read_to_string(&key).unwrap();
    assert!(!after.contains(before.trim()) && after.lines().count() == 1);
    works(&server);
    // A server that starts later knows the new key only.
    let server = server.kill_and_start();
    works(&server);
    let rotated = server.project.pipe("canary-two", &["credentials", "rotate", "skies", "--stdin"]);
    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    works(&server);
    let files = fs::read(server.project.path(".windlass/windlass.db")).unwrap();
    assert!(!files.windows(6).any(|part| part == b"canary"), "nothing is in the clear");
}

#[test]
fn a_secret_is_never_an_argument_and_a_masked_one_changes_nothing() {
    let server = start();
    let project = &server.project;
    let refused = project.run(&["credentials", "set", "skies", "--field", "token=canary"]);
    refused.fails(2, &["token"]);
    assert!(!refused.err.contains("canary") && !refused.out.contains("canary"), "{refused:?}");
    // Nobody is there to be asked.
    assert_ne!(project.run(&["credentials", "set", "skies"]).code, Some(0));
    let set = project.pipe(
        r#"{"token": "canary-value-1234", "region": "eu"}"#,
        &["credentials", "set", "skies", "--stdin", "--json"],
    );
    assert_eq!(set.code, Some(0), "{set:?}");
    assert!(!set.out.contains("canary-value"), "{set:?}");
    let id = server.send("GET", "/v1/credentials", &[], "").json()["credentials"][0]["id"].clone();
    let path = format!("/v1/credentials/{}", id.as_str().unwrap());
    let shown = server.send("GET", &path, &[], "").json();
    let masked = shown["fields"]["token"].as_str().unwrap().to_owned();
    assert!(!masked.contains("canary-value"), "{masked}");
    let back = json!({"values": {"token": masked, "region": "us"}}).to_string();
    let changed = server.send("PUT", &path, &[], &back);
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(changed.json()["fields"], json!({"token": masked, "region": "us"}));
    works(&server);
    let piped = project.pipe(&masked, &["credentials", "rotate", "skies", "--stdin"]);
    assert_eq!(piped.code, Some(0), "{piped:?}");
    assert_eq!(server.send("GET", &path, &[], "").json()["fields"]["token"], masked.as_str());
}

#[test]
fn keys_made_and_revoked_by_the_program_count_at_once_in_a_server() {
    let server = start();
    let key = server.project.run(&["keys", "create", "agent", "--role", "viewer", "--quiet"]);
    assert_eq!((key.code, key.err.as_str()), (Some(0), ""), "{key:?}");
    let text = key.out.trim().to_owned();
    let ask = || {
        let mut connection = super::server::Connection::open(server.address, &text);
        connection.send("GET", "/v1/tools", &[], "").unwrap().status
    };
    assert_eq!(ask(), 200);
    let listed = server.project.ok(&["keys", "list"]);
    assert!(listed.contains("agent") && !listed.contains(&text), "{listed}");
    let keys = server.project.json(&["keys", "list"]);
    let own = keys.as_array().unwrap().iter().find(|key| key["name"] == "agent").unwrap();
    server.project.ok(&["keys", "revoke", own["id"].as_str().unwrap()]);
    until("it is refused", || (ask() == 401).then_some(()));
}
