//! Two servers on one PostgreSQL database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::approvals::{SEVERAL, runs_once};
use super::server::{SLOW_WRITE, Server, WRITE, until};
use super::wire::Client;
use crate::postgres::Database;
use crate::project::Project;

const MASTER: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// Two servers with this windlass.yaml, and the same admin on both.
pub(super) fn pair(database: &Database, settings: &str) -> (Server, Server) {
    let one = server(database, settings, None);
    let admin = one.admin().key.unwrap();
    let two = server(database, settings, Some(&admin));
    (one, two)
}

fn server(database: &Database, settings: &str, admin: Option<&str>) -> Server {
    let url = database.url();
    let variables = [("WINDLASS_DATABASE", url.as_str()), ("WINDLASS_MASTER_KEY", MASTER)];
    let project = Project::empty();
    project.write("windlass.yaml", settings).write("tools/a.yaml", SLOW_WRITE);
    project.write("tools/b.yaml", WRITE);
    Server::run(Arc::new(project), &[], &variables, admin)
}

fn seen<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    let found = until(what, look);
    assert!(start.elapsed() < Duration::from_secs(5), "{what} took {:?}", start.elapsed());
    found
}

fn echo(client: &Client, message: &str) -> String {
    let body = json!({"tool": "echo", "arguments": {"message": message}, "conversation_id": "c"});
    client.post("/v1/calls", &body).is(200)["call_id"].as_str().unwrap().to_owned()
}

#[test]
fn what_one_server_keeps_the_other_has() {
    let database = Database::new();
    let (one, two) = pair(&database, "");
    let (here, there) = (one.admin(), two.admin());
    // Keys: there at once, and gone at once.
    let key = here.post("/v1/keys", &json!({"name": "k", "role": "viewer"})).is(201);
    let viewer = two.client(key["secret"].as_str().unwrap());
    viewer.get("/v1/tools").is(200);
    here.delete(&format!("/v1/keys/{}", key["key"]["id"].as_str().unwrap())).is(200);
    seen("the key is refused", || (viewer.get("/v1/tools").status == 401).then_some(()));
    // Tools and providers.
    let tool = |description: &str| {
        json!({"definition": {
            "name": "shared", "description": description, "entry": {"type": "builtin", "handler": "echo"},
            "parameters": [{"name": "message", "type": "string"}],
        }})
    };
    here.post("/v1/tools", &tool("first")).is(201);
    seen("the tool", || (there.get("/v1/tools/shared").status == 200).then_some(()));
    there.put("/v1/tools/shared", &tool("second")).is(200);
    seen("the change", || {
        (here.get("/v1/tools/shared").is(200)["description"] == "second").then_some(())
    });
    here.delete("/v1/tools/shared").is(204);
    seen("it is gone", || (there.get("/v1/tools/shared").status == 404).then_some(()));
    let provider = "identity: {name: acme}\ncredentials_schema: {token: {type: secret-input}}\n---\n\
        name: acme_echo\nprovider: acme\ndescription: x\nbehaviour: {read_only: true}\n\
        entry: {type: builtin, handler: echo}\nparameters: [{name: message, type: string}]\n";
    here.post("/v1/providers", &json!({"definition": provider})).is(201);
    seen("the provider", || (there.get("/v1/providers/acme").status == 200).then_some(()));
    // Credentials: stored here, used there, rotated there, used here.
    let path = "/v1/providers/acme/credentials";
    let made = here.post(path, &json!({"values": {"token": "secret-number-one"}})).is(201);
    let call = json!({"tool": "acme_echo", "arguments": {"message": "secret-number-one secret-number-two"}});
    assert_eq!(there.post("/v1/calls", &call).is(200)["output"], "[hidden] secret-number-two");
    let place = format!("/v1/credentials/{}", made["id"].as_str().unwrap());
    there.put(&place, &json!({"values": {"token": "secret-number-two"}})).is(200);
    seen("the rotated one", || {
        let output = here.post("/v1/calls", &call).is(200)["output"].clone();
        (output == "secret-number-one [hidden]").then_some(())
    });
    // Records.
    let id = echo(&here, "recorded");
    let record = seen("the record", || {
        let answer = there.get(&format!("/v1/calls/{id}"));
        (answer.status == 200).then(|| answer.value())
    });
    assert_eq!(record["params"]["message"], "recorded");
    // Files and links.
    let file = here.send("POST", "/v1/files", &[("Content-Type", "text/plain")], b"shared").is(201);
    let file = format!("/v1/files/{}", file["id"].as_str().unwrap());
    assert_eq!(there.get(&file).text(), "shared");
    let link = there.post(&format!("{file}/link"), &json!({})).is(200);
    assert_eq!(one.nobody().get(link["url"].as_str().unwrap()).text(), "shared");
}

#[test]
fn approvals_are_decided_wherever_somebody_asks() {
    let database = Database::new();
    let (one, two) = pair(&database, "");
    let (here, there) = (one.admin(), two.admin());
    here.put("/v1/approvals/rules", &json!({"rules": [{"tool": "write_note", "then": "ask"}]}))
        .is(200);
    let note = json!({"tool": "write_note", "arguments": {"message": "x"}});
    let waiting = seen("the rules", || {
        let answer = there.post("/v1/calls", &note);
        (answer.status == 202).then(|| answer.value())
    });
    let id = waiting["call_id"].as_str().unwrap();
    assert_eq!(here.get(&format!("/v1/approvals/{id}")).is(200)["status"], "waiting");
    // Both say yes at once: it runs once.
    let path = format!("/v1/approvals/{id}");
    let both: Vec<_> = [&here, &there]
        .map(|client| {
            let (client, path) = (client.clone(), path.clone());
            std::thread::spawn(move || client.post(&path, &json!({"approved": true})).status)
        })
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    assert!(
        both.contains(&200) && both.iter().any(|status| matches!(status, 404 | 409)),
        "{both:?}"
    );
    // One that came before the rules were heard of may have run as well.
    let page = here.get("/v1/calls?tool=write_note").is(200);
    let records = page["records"].as_array().unwrap();
    assert_eq!(records.iter().filter(|record| record["record_id"] == id).count(), 1, "{page}");
    // A waiting call outlives the server that took it.
    let waiting = there.post("/v1/calls", &note).is(202);
    let mut two = two;
    two.kill();
    let path = format!("/v1/approvals/{}", waiting["call_id"].as_str().unwrap());
    assert_eq!(here.post(&path, &json!({"approved": true})).is(200)["output"], "x");
}

#[test]
fn an_approved_call_runs_once_while_another_server_starts() {
    let database = Database::new();
    let one = server(&database, SEVERAL, None);
    runs_once(one, |admin| server(&database, SEVERAL, Some(admin)));
}

#[test]
fn a_call_in_the_background_of_a_killed_server_is_closed_by_another() {
    let database = Database::new();
    let (one, mut two) = pair(&database, "");
    let (here, there) = (one.admin(), two.admin());
    let wait = json!({"tool": "wait", "arguments": {"seconds": 60}, "call_ref": "toolu_1"});
    let begun = there.json("POST", "/v1/calls", &[("Prefer", "respond-async")], &wait);
    let place = begun.header("location").unwrap();
    assert_eq!(here.get(place).is(200)["status"], "running");
    two.kill();
    let record = until("it is closed", || {
        let state = here.get(place).is(200);
        (state["status"] != "running").then_some(state)
    });
    assert_eq!(
        (&record["status"], &record["call_ref"]),
        (&"interrupted".into(), &"toolu_1".into())
    );
    assert_eq!(record["params"], json!({"seconds": 60}));
    assert_eq!(here.send("POST", &format!("{place}/cancel"), &[], b"").is(200)["cancelled"], 0);
}

#[test]
fn a_caller_cancels_its_own_calls_on_other_servers_and_nobody_elses() {
    let database = Database::new();
    let (one, two) = pair(&database, "");
    let here = one.key("default", "caller");
    let (own, other) = (two.client(here.key.as_deref().unwrap()), two.key("default", "caller"));
    let wait = json!({"tool": "wait", "arguments": {"seconds": 60}, "conversation_id": "c"});
    let cancel = |client: &Client, path: &str| client.send("POST", path, &[], b"");
    // In the background: every server knows who began it.
    let begun = here.json("POST", "/v1/calls", &[("Prefer", "respond-async")], &wait);
    let place = format!("{}/cancel", begun.header("location").unwrap());
    cancel(&other, &place).problem(403, "forbidden");
    assert_eq!(cancel(&own, &place).is(200)["cancelled"], 1);
    // Followed: only the server that runs it knows.
    let mut stream = here.stream("/v1/calls", &wait);
    let id = stream.up_to("started")[0].data["call_id"].as_str().unwrap().to_owned();
    let place = format!("/v1/calls/{id}/cancel");
    assert_eq!(cancel(&other, "/v1/conversations/c/cancel").is(200)["cancelled"], 0);
    cancel(&other, &place).problem(404, "not_found");
    assert_eq!(here.get(&format!("/v1/calls/{id}")).is(200)["status"], "running");
    cancel(&own, "/v1/conversations/c/cancel").is(200);
    assert_eq!(stream.rest().last().unwrap().data["error_kind"], "cancelled");
}

#[test]
fn calls_are_cancelled_wherever_they_run() {
    let database = Database::new();
    let (one, two) = pair(&database, "");
    let (here, there) = (one.admin(), two.admin());
    let wait = json!({"tool": "wait", "arguments": {"seconds": 60}, "conversation_id": "c"});
    // In the background.
    let begun = here.json("POST", "/v1/calls", &[("Prefer", "respond-async")], &wait);
    let place = begun.header("location").unwrap();
    assert_eq!(there.get(place).is(200)["status"], "running");
    assert_eq!(there.send("POST", &format!("{place}/cancel"), &[], b"").is(200)["cancelled"], 1);
    assert_eq!(there.get(&format!("{place}?wait=10s")).is(200)["status"], "cancelled");
    // Followed.
    let mut stream = here.stream("/v1/calls", &wait);
    let id = stream.up_to("started")[0].data["call_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/calls/{id}/cancel");
    assert_eq!(there.send("POST", &path, &[], b"").is(200)["cancelled"], 1);
    assert_eq!(stream.rest().last().unwrap().data["error_kind"], "cancelled");
    // A batch, and a conversation.
    let calls: Vec<Value> = vec![wait.clone(), wait.clone()];
    let mut stream = here.stream("/v1/batches", &json!({"calls": calls}));
    let id = stream.up_to("tool_started")[0].data["batch_id"].as_str().unwrap().to_owned();
    let cancelled = there.send("POST", &format!("/v1/batches/{id}/cancel"), &[], b"").is(200);
    assert_eq!(cancelled["cancelled"], 2, "those of other servers count");
    let results = stream.rest().last().unwrap().data["results"].clone();
    assert_eq!(
        (&results[0]["error_kind"], &results[1]["error_kind"]),
        (&"cancelled".into(), &"cancelled".into())
    );
    // On both servers at once.
    let mut streams = [here.stream("/v1/calls", &wait), there.stream("/v1/calls", &wait)];
    streams.iter_mut().for_each(|stream| drop(stream.up_to("started")));
    let cancelled = there.send("POST", "/v1/conversations/c/cancel", &[], b"").is(200);
    assert_eq!(cancelled["cancelled"], 2);
    for stream in streams {
        assert_eq!(stream.rest().last().unwrap().data["error_kind"], "cancelled");
    }
    let nothing = there.send("POST", "/v1/conversations/c/cancel", &[], b"").is(200);
    assert_eq!(nothing["cancelled"], 0);
    let unknown = "/v1/calls/00000000-0000-7000-8000-000000000000/cancel";
    there.send("POST", unknown, &[], b"").problem(404, "not_found");
}

#[test]
fn events_of_both_are_one_stream_on_both() {
    let database = Database::new();
    let (one, two) = pair(&database, "");
    let (here, there) = (one.admin(), two.admin());
    let path = "/v1/events?conversation_id=c";
    let (mut near, mut far) = (here.follow(path, None), there.follow(path, None));
    // The other server has to hear that somebody listens.
    until("both are heard", || {
        echo(&there, "warm up");
        (far.up_to("execution_completed").len() >= 2).then_some(())
    });
    near.up_to("execution_completed");
    let mut calls = Vec::new();
    for at in 0..10 {
        calls.push(echo(if at % 2 == 0 { &here } else { &there }, &at.to_string()));
    }
    let read = |events: &mut super::wire::Events| {
        let mut seen = Vec::new();
        while seen.iter().filter(|(_, name, _)| name == "execution_completed").count() < 10 {
            let event = events.next().unwrap();
            let call = event.data["call_id"].as_str().unwrap().to_owned();
            if calls.contains(&call) {
                seen.push((event.id.unwrap(), event.name, call));
            }
        }
        seen
    };
    let (by_near, by_far) = (read(&mut near), read(&mut far));
    assert_eq!(by_near, by_far, "the same events, in the same order, at the same positions");
    assert_eq!(by_near.len(), 20);
    // A reader of one goes on with the other, in the middle.
    drop((near, far));
    let mut moved = there.follow(path, Some(by_near[6].0));
    let rest: Vec<u64> = (0..13).map(|_| moved.next().unwrap().id.unwrap()).collect();
    assert_eq!(rest, by_near[7..].iter().map(|event| event.0).collect::<Vec<_>>());
    // Names that no database takes are refused, not a failure.
    for path in ["/v1/conversations/a%00b/summary", "/v1/calls?tool=%00", "/v1/tools/%00"] {
        here.get(path).problem(400, "invalid_request");
    }
    let nul = json!({"tool": "echo", "arguments": {"message": "a\u{0}b"}});
    assert_eq!(here.post("/v1/calls", &nul).is(200)["output"], "a\u{0}b");
}

#[test]
fn a_gap_is_told_by_whichever_server_the_reader_comes_back_to() {
    let database = Database::new();
    let (one, two) = pair(&database, "server: {events_linger: 500ms}\n");
    let (here, there) = (one.admin(), two.admin());
    let path = "/v1/events?conversation_id=c";
    let mut near = here.follow(path, None);
    echo(&here, "kept");
    let last = near.up_to("execution_completed").last().unwrap().id;
    drop(near);
    std::thread::sleep(Duration::from_millis(1500));
    let lost = echo(&here, "lost");
    let mut far = there.follow(path, last);
    assert_eq!(far.next().unwrap().name, "gap");
    let now = echo(&there, "now");
    let seen = far.up_to("execution_completed");
    assert_eq!(seen.last().unwrap().data["call_id"], now.as_str());
    assert!(seen.iter().all(|event| event.data["call_id"] != lost.as_str()), "{seen:?}");
    // On the other one, too, as long as it listens; and then no more.
    let mut near = here.follow(path, last);
    let seen = near.up_to("execution_completed");
    assert_eq!(seen[0].name, "gap", "{seen:?}");
    assert_eq!(seen.last().unwrap().data["call_id"], now.as_str());
    let mut again = here.follow(path, seen[1].id);
    assert_eq!(again.next().unwrap().name, "execution_completed");
}

/// Also on one SQLite file, where nobody notifies.
#[test]
fn two_servers_on_one_file_count_what_each_other_cancels() {
    let one = Server::start();
    let two = Server::run(Arc::clone(&one.project), &[], &[], Some(&one.admin));
    let (here, there) = (one.admin(), two.admin());
    let wait = json!({"tool": "wait", "arguments": {"seconds": 60}, "conversation_id": "c"});
    let mut stream = here.stream("/v1/calls", &wait);
    stream.up_to("started");
    let cancelled = there.send("POST", "/v1/conversations/c/cancel", &[], b"").is(200);
    assert_eq!(cancelled["cancelled"], 1);
    assert_eq!(stream.rest().last().unwrap().data["error_kind"], "cancelled");
    let mut stream = here.stream("/v1/calls", &wait);
    let id = stream.up_to("started")[0].data["call_id"].as_str().unwrap().to_owned();
    let cancelled = there.send("POST", &format!("/v1/calls/{id}/cancel"), &[], b"").is(200);
    assert_eq!(cancelled["cancelled"], 1);
    assert_eq!(stream.rest().last().unwrap().data["error_kind"], "cancelled");
}

#[test]
fn another_server_ends_the_events_of_one_that_was_killed() {
    let database = Database::new();
    let (one, mut two) = pair(&database, "");
    let (here, there) = (one.admin(), two.admin());
    let mut live = here.follow("/v1/events?conversation_id=c", None);
    // Until the other one has heard that somebody listens.
    for _ in 0..20 {
        echo(&there, "warm up");
        std::thread::sleep(Duration::from_millis(100));
    }
    live.up_to("execution_completed");
    let slow = json!({"tool": "slow_write", "arguments": {"seconds": 60}, "conversation_id": "c"});
    let begun = there.json("POST", "/v1/calls", &[("Prefer", "respond-async")], &slow).is(202);
    let mut seen = live.up_to("execution_started");
    while seen.last().unwrap().data["call_id"] != begun["call_id"] {
        seen = live.up_to("execution_started");
    }
    let last = seen.last().unwrap().id;
    assert!(seen.last().unwrap().data.get("server").is_none(), "nobody sees which server it was");
    two.kill();
    // Whoever reads hears of both, and so does whoever comes back.
    for mut events in [live, here.follow("/v1/events?conversation_id=c", last)] {
        let mut names = Vec::new();
        loop {
            let event = events.next().unwrap();
            names.push(event.name.clone());
            if event.name == "execution_failed" {
                assert_eq!(event.data["call_id"], begun["call_id"]);
                assert_eq!(event.data["status"], "interrupted");
            }
            if names.iter().any(|name| name == "gap")
                && names.iter().any(|name| name == "execution_failed")
            {
                break;
            }
        }
        assert_eq!(names.iter().filter(|name| *name == "execution_failed").count(), 1, "{names:?}");
    }
}

#[test]
fn a_day_is_counted_by_all_servers_together() {
    let database = Database::new();
    let (one, two) = pair(&database, "quotas: {calls_per_day: 5, per_key: {calls_per_day: 4}}");
    let (here, there) = (one.admin(), two.admin());
    (0..3).for_each(|_| drop(echo(&here, "x")));
    let used = |client: &Client, scope: &str| {
        let all = client.get("/v1/quotas").is(200);
        let mut found = all["quotas"].as_array().unwrap().iter();
        let own = |it: &&Value| it["name"] == "calls_per_day" && it["scope"] == scope;
        found.find(own).unwrap()["used"].clone()
    };
    until("the other server knows", || (used(&there, "tenant") == 3.0).then_some(()));
    assert_eq!(used(&there, "key"), 3.0);
    echo(&there, "x");
    let call = json!({"tool": "echo", "arguments": {"message": "x"}});
    there.post("/v1/calls", &call).problem(429, "quota_exceeded");
    until("the first one, too", || (used(&here, "key") == 4.0).then_some(()));
    here.post("/v1/calls", &call).problem(429, "quota_exceeded");
}
