//! Calls that wait for approval.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Server, until};
use super::wire::Client;

fn note(message: &str) -> Value {
    json!({"tool": "write_note", "arguments": {"message": message}, "conversation_id": "c"})
}

fn rules(client: &Client, rules: &Value) {
    client.put("/v1/approvals/rules", &json!({"rules": rules})).is(200);
}

fn ask(client: &Client, message: &str) -> String {
    let waits = client.post("/v1/calls", &note(message));
    let result = waits.is(202);
    assert_eq!(result["error_kind"], "approval_required");
    assert!(result["feedback"].as_str().unwrap().contains("asked"), "{result}");
    let id = result["call_id"].as_str().unwrap().to_owned();
    assert_eq!(waits.header("location"), Some(format!("/v1/approvals/{id}").as_str()));
    id
}

#[test]
fn rules_allow_deny_and_ask_by_all_that_a_call_is() {
    let server = Server::start();
    let client = server.admin();
    client
        .post(
            "/v1/providers",
            &json!({"definition":
        "identity: {name: acme}\ncredentials_schema: []\n---\nname: acme_ping\nprovider: acme\n\
         description: x\nentry: {type: builtin, handler: echo}\n\
         parameters: [{name: message, type: string}]\n"}),
        )
        .is(201);
    rules(
        &client,
        &json!([
            {"tool": "write_*", "arguments": [{"pointer": "/message", "matches": "^safe"}], "then": "allow"},
            {"tool": "write_*", "arguments": [{"pointer": "/message", "equals": "never"}], "then": "deny", "reason": "we never do that"},
            {"behaviour": ["destructive"], "then": "ask", "reason": "it may destroy something"},
            {"provider": "ac*", "then": "deny"},
        ]),
    );
    let read = client.get("/v1/approvals/rules").is(200);
    assert_eq!(read["rules"][2]["behaviour"], json!(["destructive"]));
    assert_eq!(client.post("/v1/calls", &note("safe")).is(200)["output"], "safe");
    let denied = client.post("/v1/calls", &note("never")).is(200);
    assert_eq!(denied["error_kind"], "denied");
    assert!(denied["feedback"].as_str().unwrap().contains("we never do that"), "{denied}");
    let id = ask(&client, "anything else");
    let provider = json!({"tool": "acme_ping", "arguments": {"message": "x"}});
    assert_eq!(client.post("/v1/calls", &provider).is(200)["error_kind"], "denied");
    let plain = json!({"tool": "echo", "arguments": {"message": "x"}});
    assert_eq!(client.post("/v1/calls", &plain).is(200)["output"], "x");
    assert_eq!(client.get(&format!("/v1/calls/{id}")).is(200)["status"], "waiting");

    // Another tenant has rules of its own, and does not see what waits here.
    let theirs = server.key("theirs", "operator");
    assert_eq!(theirs.post("/v1/calls", &note("free")).is(200)["output"], "free");
    theirs.get(&format!("/v1/approvals/{id}")).problem(404, "not_found");
    let approve = json!({"approved": true});
    theirs.post(&format!("/v1/approvals/{id}"), &approve).problem(404, "not_found");
    assert_eq!(theirs.get("/v1/approvals").is(200)["approvals"], json!([]));
    for bad in [
        json!({"rules": [{"then": "maybe"}]}),
        json!({"rules": [{"tool": "", "then": "ask"}]}),
        json!({"rules": [{"then": "ask", "when": 1}]}),
        json!({"rules": [{"then": "ask", "arguments": [{"pointer": "/a", "matches": "("}]}]}),
        json!({"rules": [{"then": "ask", "arguments": [{"pointer": "/a", "matches": "(\\w{100}){100}{100}"}]}]}),
        json!([]),
    ] {
        client.put("/v1/approvals/rules", &bad).problem(400, "invalid_request");
    }
    let kept = client.get("/v1/approvals/rules").is(200);
    assert_eq!(kept, read, "what is refused changes nothing");
}

#[test]
fn the_operators_rules_come_before_those_of_every_tenant() {
    let server = Server::with(
        "approvals:\n  rules:\n    - tool: write_*\n      arguments: [{pointer: /message, matches: \"^never\"}]\n      \
         then: deny\n      reason: we never do that\n    - {tool: slow_write, then: ask}\n  \
         default: allow\n",
        &[],
    );
    let client = server.admin();
    let denied = client.post("/v1/calls", &note("never ever")).is(200);
    assert_eq!(denied["error_kind"], "denied", "{denied}");
    assert!(denied["feedback"].as_str().unwrap().contains("we never do that"), "{denied}");
    assert_eq!(client.post("/v1/calls", &note("free")).is(200)["output"], "free");
    client.post("/v1/calls", &json!({"tool": "slow_write", "arguments": {"seconds": 0}})).is(202);
    // A tenant adds to them, and does not take them away.
    rules(&client, &json!([{"tool": "write_*", "then": "ask"}, {"tool": "*", "then": "allow"}]));
    assert_eq!(client.get("/v1/approvals/rules").is(200)["rules"].as_array().unwrap().len(), 2);
    assert_eq!(client.post("/v1/calls", &note("never")).is(200)["error_kind"], "denied");
    ask(&client, "not free any more");
    let theirs = server.key("theirs", "operator");
    assert_eq!(theirs.post("/v1/calls", &note("never")).is(200)["error_kind"], "denied");

    // Commands heed them as well; nobody can be asked there.
    let project = &server.project;
    project
        .run(&["call", "write_note", "{\"message\": \"never\"}"])
        .fails(5, &["we never do that"]);
    project.run(&["call", "slow_write", "{\"seconds\": 0}"]).fails(5, &["nobody can be asked"]);
    let shown = project.json(&["config", "approvals.rules"]);
    assert!(shown.to_string().contains("we never do that"), "{shown}");
}

#[test]
fn a_waiting_call_survives_a_kill_and_runs_once_with_the_arguments_that_were_shown() {
    let server = Server::start();
    let client = server.admin();
    rules(&client, &json!([{"tool": "write_note", "then": "ask"}]));
    let id = ask(&client, "the very text");
    let refused = ask(&client, "bad idea");
    let server = server.kill_and_start();
    let client = server.admin();
    let listed = client.get("/v1/approvals?limit=1").is(200);
    assert_eq!(listed["approvals"][0]["call_id"], id.as_str());
    let next = listed["next"].as_str().unwrap();
    let rest = client.get(&format!("/v1/approvals?limit=1&cursor={next}")).is(200);
    assert_eq!((&rest["approvals"][0]["call_id"], &rest["next"]), (&json!(refused), &Value::Null));
    client.get("/v1/approvals?cursor=garbage").problem(400, "invalid_request");

    let shown = client.get(&format!("/v1/approvals/{id}")).is(200);
    assert_eq!(shown["arguments"], json!({"message": "the very text"}));
    let path = format!("/v1/approvals/{id}");
    let other = json!({"approved": true, "fingerprint": "0000"});
    client.post(&path, &other).problem(409, "conflict");
    // Somebody who may only call tools decides nothing.
    server
        .key("default", "caller")
        .post(&path, &json!({"approved": true}))
        .problem(403, "forbidden");
    let verdict = json!({"approved": true, "note": "ada", "fingerprint": shown["fingerprint"]});
    let result = client.post(&path, &verdict).is(200);
    assert_eq!((&result["output"], &result["call_id"]), (&"the very text".into(), &json!(id)));
    client.post(&path, &verdict).problem(404, "not_found");
    let record = client.get(&format!("/v1/calls/{id}")).is(200);
    // Who decided is whose key it was; what they write about themselves is a note.
    let approval = &record["approval"];
    assert_eq!((&approval["by"], &approval["note"]), (&"first admin key".into(), &"ada".into()));
    assert_eq!(approval["key_id"], "key_first", "{record}");

    // A refusal is a result that the model reads.
    let verdict = json!({"approved": false, "comment": "ask the customer first"});
    let result = client.post(&format!("/v1/calls/{refused}/resume"), &verdict).is(200);
    assert_eq!(result["error_kind"], "denied");
    assert!(result["feedback"].as_str().unwrap().contains("ask the customer first"), "{result}");
    let page = client.get("/v1/calls?tool=write_note").is(200);
    let statuses: Vec<_> =
        page["records"].as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(statuses, ["refused", "succeeded"], "each ran or was refused once");
    assert_eq!(client.get("/v1/approvals").is(200)["approvals"], json!([]));
    assert_eq!(
        client.get(&format!("/v1/calls/{refused}")).is(200)["approval"]["by"],
        "first admin key"
    );
}

#[test]
fn siblings_in_a_batch_are_never_run_again() {
    let server = Server::start();
    let client = server.admin();
    rules(
        &client,
        &json!([{"arguments": [{"pointer": "/message", "matches": "ask"}], "then": "ask"}]),
    );
    let batch = json!({"calls": [note("first"), note("please ask"), note("last")]});
    let answer = client.post("/v1/batches", &batch).is(200);
    let kinds: Vec<_> =
        answer["results"].as_array().unwrap().iter().map(|it| &it["error_kind"]).collect();
    assert_eq!(kinds, [&Value::Null, &"approval_required".into(), &Value::Null]);
    let id = answer["results"][1]["call_id"].as_str().unwrap();
    let shown = client.get(&format!("/v1/approvals/{id}")).is(200);
    assert_eq!(shown["batch_id"], answer["batch_id"]);
    let result = client.post(&format!("/v1/approvals/{id}"), &json!({"approved": true})).is(200);
    assert_eq!(result["output"], "please ask");
    let page = client.get("/v1/calls?tool=write_note").is(200);
    assert_eq!(page["records"].as_array().unwrap().len(), 3, "{page}");
}

#[test]
fn a_call_that_nobody_decides_about_is_refused() {
    let server = Server::with("server:\n  approvals_expire: 1s\n", &[]);
    let client = server.admin();
    rules(&client, &json!([{"tool": "write_note", "then": "ask"}]));
    let id = ask(&client, "late");
    let record = until("it is refused", || {
        let state = client.get(&format!("/v1/calls/{id}")).is(200);
        // Decided, and not ended yet, it runs for a moment.
        (state["status"] != "waiting" && state["status"] != "running").then_some(state)
    });
    assert_eq!(record["status"], "refused", "{record}");
    assert_eq!(record["approval"]["comment"], "nobody decided in time");
    // The record is there a moment before the question is gone.
    until("nobody is asked any more", || {
        let late = client.post(&format!("/v1/approvals/{id}"), &json!({"approved": true}));
        assert!(matches!(late.status, 404 | 409), "{late:?}");
        (late.status == 404).then_some(())
    });
}

#[test]
fn what_waits_is_cancelled_alone_or_with_its_conversation_or_batch() {
    let server = Server::start();
    let client = server.admin();
    rules(&client, &json!([{"tool": "write_note", "then": "ask"}]));
    let alone = ask(&client, "alone");
    let in_conversation = ask(&client, "of the conversation");
    let batch = json!({"calls": [note("of the batch")], "conversation_id": "c"});
    let batch = client.post("/v1/batches", &batch).is(200);
    let in_batch = batch["results"][0]["call_id"].as_str().unwrap();
    let other = json!({"tool": "write_note", "arguments": {"message": "x"}});
    let other = client.post("/v1/calls", &other).is(202)["call_id"].as_str().unwrap().to_owned();

    let cancel = |path: String| client.send("POST", &path, &[], b"").is(200)["cancelled"].clone();
    let batch = format!("/v1/batches/{}/cancel", batch["batch_id"].as_str().unwrap());
    assert_eq!(cancel(format!("/v1/calls/{alone}/cancel")), 1);
    assert_eq!(cancel(batch.clone()), 1);
    assert_eq!(cancel("/v1/conversations/c/cancel".to_owned()), 1);
    assert_eq!(
        (cancel(batch), cancel("/v1/conversations/c/cancel".to_owned())),
        (0.into(), 0.into())
    );
    for id in [alone.as_str(), in_conversation.as_str(), in_batch] {
        let record = client.get(&format!("/v1/calls/{id}")).is(200);
        assert_eq!((&record["status"], record.get("approval")), (&"cancelled".into(), None));
        client.get(&format!("/v1/approvals/{id}")).problem(404, "not_found");
        let approve = json!({"approved": true});
        client.post(&format!("/v1/approvals/{id}"), &approve).problem(404, "not_found");
    }
    let waiting = client.get("/v1/approvals").is(200);
    assert_eq!(waiting["approvals"].as_array().unwrap().len(), 1);
    assert_eq!(waiting["approvals"][0]["call_id"], other.as_str());
}

const SLOW_ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/// A web server that counts what it is asked, and takes its time to answer.
fn slow_site(seconds: u64) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let counted = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, counted) = (stream.unwrap(), Arc::clone(&counted));
            thread::spawn(move || {
                if stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                    counted.fetch_add(1, Ordering::SeqCst);
                    thread::sleep(Duration::from_secs(seconds));
                    let _ = stream.write_all(SLOW_ANSWER);
                }
            });
        }
    });
    (address, asked)
}

/// What an approved call needs that a server of these settings runs while another
/// starts.
pub(super) const SEVERAL: &str =
    "outbound: {allow: [127.0.0.1]}\nserver: {approvals_expire: 10s}\n";

/// An approved call has one effect although another server starts meanwhile, and
/// is closed by that one if the first is killed.
pub(super) fn runs_once(mut one: Server, start: impl FnOnce(&str) -> Server) {
    let (site, asked) = slow_site(3);
    let client = one.admin();
    rules(&client, &json!([{"tool": "http_request", "then": "ask"}]));
    let approve = |client: &Client| {
        let arguments = json!({"url": format!("http://{site}/"), "method": "POST"});
        let call = json!({"tool": "http_request", "arguments": arguments});
        let waits = client.post("/v1/calls", &call).is(202);
        let (client, id) = (client.clone(), waits["call_id"].as_str().unwrap().to_owned());
        let path = format!("/v1/approvals/{id}");
        let decided = thread::spawn(move || client.try_post(&path, &json!({"approved": true})));
        (id, decided)
    };
    let (id, decided) = approve(&client);
    until("it runs", || (asked.load(Ordering::SeqCst) == 1).then_some(()));
    assert_eq!(client.get(&format!("/v1/calls/{id}")).is(200)["status"], "running");
    let two = start(client.key.as_deref().unwrap());
    let there = two.admin();
    assert_eq!(there.get(&format!("/v1/calls/{id}")).is(200)["status"], "running");
    let result = decided.join().unwrap().unwrap();
    assert_eq!(result["is_success"], true, "{result}");
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(asked.load(Ordering::SeqCst), 1, "it has one effect");
    assert_eq!(there.get("/v1/approvals").is(200)["approvals"], json!([]));

    let (id, decided) = approve(&client);
    until("it runs", || (asked.load(Ordering::SeqCst) == 2).then_some(()));
    one.kill();
    decided.join().unwrap();
    let record = until("it is closed", || {
        let record = there.get(&format!("/v1/calls/{id}")).is(200);
        (record["status"] != "running").then_some(record)
    });
    assert_eq!(record["status"], "interrupted", "{record}");
    until("nothing is left", || {
        (there.get("/v1/approvals").is(200)["approvals"] == json!([])).then_some(())
    });
    assert_eq!(asked.load(Ordering::SeqCst), 2, "what may have had its effect is not repeated");
}

#[test]
fn an_approved_call_runs_once_while_a_server_starts_on_the_same_file() {
    let one = Server::with(SEVERAL, &[]);
    let project = Arc::clone(&one.project);
    runs_once(one, |admin| Server::run(project, &[], &[], Some(admin)));
}
