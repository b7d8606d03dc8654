//! Calls: synchronous, streamed, in the background; looked up, cancelled, retried.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Server, until};
use super::wire::Client;

fn wait(seconds: f64) -> Value {
    json!({"tool": "wait", "arguments": {"seconds": seconds}})
}

#[test]
fn a_call_answers_with_its_one_result_and_is_recorded() {
    let server = Server::start();
    let client = server.key("default", "operator");
    let body = json!({
        "tool": "echo", "arguments": {"message": "hello"}, "call_ref": "toolu_1",
        "caller_id": "agent", "conversation_id": "c1", "user_id": "ada", "workflow_id": "w",
    });
    let result = client.post("/v1/calls", &body).is(200);
    assert_eq!((&result["output"], &result["call_ref"]), (&"hello".into(), &"toolu_1".into()));
    let id = result["call_id"].as_str().unwrap();
    let record = until("the record", || {
        Some(client.get(&format!("/v1/calls/{id}"))).filter(|answer| answer.status == 200)
    });
    let record = record.value();
    for (key, value) in [
        ("record_id", json!(id)),
        ("status", json!("succeeded")),
        ("params", json!({"message": "hello"})),
        ("caller_id", json!("agent")),
        ("conversation_id", json!("c1")),
        ("user_id", json!("ada")),
        ("workflow_id", json!("w")),
        ("caller_type", json!("conversation_agent")),
    ] {
        assert_eq!(record[key], value, "{key}");
    }
    // What goes wrong with a tool is a result, too.
    let wrong = client.post("/v1/calls", &json!({"tool": "echo", "arguments": {}})).is(200);
    assert_eq!(
        (&wrong["is_success"], &wrong["error_type"]),
        (&false.into(), &"validation_error".into())
    );
    assert_eq!(wrong["validation_errors"][0]["path"], "/message");
    assert!(wrong["feedback"].as_str().unwrap().contains("message"));
    let unknown = client.post("/v1/calls", &json!({"tool": "ecko"})).is(200);
    assert_eq!(unknown["error_code"], "TOOL_NOT_FOUND");
    // Models write arguments as text.
    let text = json!({"tool": "echo", "arguments": "{\"message\": \"as text\"}"});
    assert_eq!(client.post("/v1/calls", &text).is(200)["output"], "as text");
    let late = json!({"tool": "wait", "arguments": {"seconds": 60}, "timeout": "150ms"});
    assert_eq!(client.post("/v1/calls", &late).is(200)["error_type"], "timeout");
}

#[test]
fn a_followed_call_tells_its_progress_and_one_result() {
    let server = Server::start();
    let client = server.admin();
    let events = client.stream("/v1/calls", &wait(1.5)).rest();
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names.first(), Some(&"started"), "{names:?}");
    assert_eq!(names.last(), Some(&"result"), "{names:?}");
    assert_eq!(names.iter().filter(|name| **name == "result").count(), 1, "{names:?}");
    assert!(names.contains(&"progress"), "{names:?}");
    let result = &events.last().unwrap().data;
    assert_eq!(result["call_id"], events[0].data["call_id"]);
    assert_eq!(result["output"]["waited_seconds"].as_f64().map(f64::floor), Some(1.0), "{result}");
    // What is refused is a problem, not a stream.
    let headers = [("Accept", "text/event-stream")];
    client.json("POST", "/v1/calls", &headers, &json!({})).problem(400, "invalid_request");
}

#[test]
fn a_background_call_is_fetched_later_or_cancelled() {
    let server = Server::start();
    let client = server.admin();
    let asynchronous = [("Prefer", "respond-async")];
    let begun = client.json("POST", "/v1/calls", &asynchronous, &wait(0.4));
    assert_eq!(begun.header("preference-applied"), Some("respond-async"));
    assert_eq!(begun.is(202)["status"], "running");
    let place = begun.header("location").unwrap();
    let early = client.get(place).is(200);
    assert_eq!(early["status"], "running");
    let start = Instant::now();
    let record = client.get(&format!("{place}?wait=10s")).is(200);
    assert_eq!(record["status"], "succeeded");
    assert!(start.elapsed() < Duration::from_secs(5), "it waits no longer than the call");

    let long = client.json("POST", "/v1/calls", &asynchronous, &wait(60.0));
    let place = long.header("location").unwrap();
    assert_eq!(client.get(&format!("{place}?wait=100ms")).is(200)["status"], "running");
    assert_eq!(client.send("POST", &format!("{place}/cancel"), &[], b"").is(200)["cancelled"], 1);
    assert_eq!(client.get(&format!("{place}?wait=10s")).is(200)["status"], "cancelled");
    assert_eq!(client.send("POST", &format!("{place}/cancel"), &[], b"").is(200)["cancelled"], 0);
    client.get(&format!("{place}?wait=never")).problem(400, "invalid_request");
    for path in ["/v1/calls/nothing", "/v1/calls/00000000-0000-7000-8000-000000000000"] {
        client.get(path).problem(404, "not_found");
        client.send("POST", &format!("{path}/cancel"), &[], b"").problem(404, "not_found");
    }
    // A whole conversation at once.
    let mut body = wait(60.0);
    body["conversation_id"] = json!("doomed");
    let place = client.json("POST", "/v1/calls", &asynchronous, &body);
    let place = place.header("location").unwrap();
    until("the conversation is cancelled", || {
        let cancel = client.send("POST", "/v1/conversations/doomed/cancel", &[], b"").is(200);
        (cancel["cancelled"] == 1).then_some(())
    });
    assert_eq!(client.get(&format!("{place}?wait=10s")).is(200)["status"], "cancelled");
}

#[test]
fn records_are_filtered_and_come_in_pages() {
    let server = Server::start();
    let client = server.admin();
    for at in 0..7 {
        let tool = if at % 2 == 0 { "echo" } else { "calculator" };
        let arguments = match tool {
            "echo" => json!({"message": at.to_string()}),
            _ => json!({"expression": if at == 3 { "1/0" } else { "1+1" }}),
        };
        let conversation = format!("c{}", at % 3);
        let body = json!({
            "tool": tool, "arguments": arguments, "conversation_id": conversation,
            "caller_id": format!("agent{}", at % 2),
        });
        client.post("/v1/calls", &body).is(200);
    }
    let count = |query: &str| {
        client.get(&format!("/v1/calls?{query}")).is(200)["records"].as_array().unwrap().len()
    };
    until("all records", || (count("limit=100") == 7).then_some(()));
    for (query, expected) in [
        ("tool=echo", 4),
        ("conversation_id=c0", 3),
        ("caller_id=agent1", 3),
        ("status=failed", 1),
        ("status=succeeded", 6),
        ("tool=echo&conversation_id=c0", 2),
        ("since=2020-01-01T00:00:00Z", 7),
        ("until=2020-01-01T00:00:00Z", 0),
        ("limit=2", 2),
    ] {
        assert_eq!(count(query), expected, "{query}");
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = client.get(&format!("/v1/calls?limit=3{cursor}")).is(200);
        let records = page["records"].as_array().unwrap();
        seen.extend(records.iter().map(|record| record["record_id"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let sorted: Vec<_> = seen.iter().rev().cloned().collect();
    assert!(seen.len() == 7 && sorted.is_sorted(), "newest first, once each: {seen:?}");
    for query in ["status=gone", "since=yesterday", "limit=0", "cursor=x", "tenant=other"] {
        client.get(&format!("/v1/calls?{query}")).problem(400, "invalid_request");
    }
}

#[test]
fn a_key_repeats_the_result_and_not_the_effect() {
    let server = Server::start();
    let client = server.admin();
    let body = json!({"tool": "write_note", "arguments": {"message": "once"}});
    let key = [("Idempotency-Key", "k1")];
    let first = client.json("POST", "/v1/calls", &key, &body).is(200);
    let again = client.json("POST", "/v1/calls", &key, &body).is(200);
    assert_eq!((&again["output"], &again["same_as"]), (&first["output"], &first["call_id"]));
    let other = json!({"tool": "write_note", "arguments": {"message": "other"}});
    let refused = client.json("POST", "/v1/calls", &key, &other).is(200);
    assert_eq!(refused["is_success"], false, "{refused}");
    // Another tenant's key is another key.
    let theirs = server.key("theirs", "caller");
    let own = theirs.json("POST", "/v1/calls", &key, &body).is(200);
    assert_eq!((&own["is_success"], &own["same_as"]), (&true.into(), &Value::Null));
    let empty = [("Idempotency-Key", "")];
    client.json("POST", "/v1/calls", &empty, &body).problem(400, "invalid_request");
}

#[test]
fn whoever_hangs_up_stops_what_only_looks_and_no_write() {
    let server = Server::start();
    let client = server.admin();
    let hang_up = |body: &Value, headers: &[(&str, &str)]| {
        let stream = client.begin("POST", "/v1/calls", headers, body.to_string().as_bytes());
        sleep(Duration::from_millis(300));
        drop(stream);
    };
    let write = json!({"tool": "slow_write", "arguments": {"seconds": 1.0}});
    for headers in [&[][..], &[("Accept", "text/event-stream")]] {
        hang_up(&wait(60.0), headers);
        hang_up(&write, headers);
    }
    let ended = |tool: &str, status: &str| {
        let path = format!("/v1/calls?tool={tool}&status={status}");
        let page = client.get(&path).is(200);
        (page["records"].as_array().unwrap().len() == 2).then_some(())
    };
    until("reads are cancelled", || ended("wait", "cancelled"));
    until("writes finish and are recorded", || ended("slow_write", "succeeded"));
}

#[test]
fn a_caller_cancels_what_its_own_key_began() {
    let server = Server::start();
    let (ada, bob) = (server.key("default", "caller"), server.key("default", "caller"));
    let operator = server.key("default", "operator");
    let cancel = |client: &Client, path: &str| client.send("POST", path, &[], b"");
    let mut body = wait(60.0);
    body["conversation_id"] = json!("shared");
    let begin = |client: &Client| {
        let begun = client.json("POST", "/v1/calls", &[("Prefer", "respond-async")], &body);
        let place = begun.header("location").unwrap().to_owned();
        until("it runs", || (client.get(&place).is(200)["status"] == "running").then_some(()));
        place
    };
    // One call.
    let (adas, second) = (begin(&ada), begin(&ada));
    let problem = cancel(&bob, &format!("{adas}/cancel")).problem(403, "forbidden");
    assert!(problem["hint"].as_str().unwrap().contains("operator, admin"), "{problem}");
    assert_eq!(ada.get(&adas).is(200)["status"], "running");
    assert_eq!(cancel(&ada, &format!("{adas}/cancel")).is(200)["cancelled"], 1);
    assert_eq!(cancel(&operator, &format!("{second}/cancel")).is(200)["cancelled"], 1);
    // A conversation, and a batch: each their own.
    let (adas, bobs) = (begin(&ada), begin(&bob));
    until("both are under way", || {
        (server.admin().get("/v1/limits").is(200)["metrics"]["current_concurrent"] == 2)
            .then_some(())
    });
    assert_eq!(cancel(&bob, "/v1/conversations/shared/cancel").is(200)["cancelled"], 1);
    assert_eq!(bob.get(&format!("{bobs}?wait=10s")).is(200)["status"], "cancelled");
    assert_eq!(ada.get(&adas).is(200)["status"], "running");
    assert_eq!(cancel(&operator, "/v1/conversations/shared/cancel").is(200)["cancelled"], 1);
    let mut events = ada.stream("/v1/batches", &json!({"calls": [wait(60.0)]}));
    let id = events.up_to("tool_started")[0].data["batch_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/batches/{id}/cancel");
    assert_eq!(cancel(&bob, &path).is(200)["cancelled"], 0);
    assert_eq!(cancel(&ada, &path).is(200)["cancelled"], 1);
    assert_eq!(events.rest().last().unwrap().data["results"][0]["error_kind"], "cancelled");
    // What waits for a person.
    let rules = json!({"rules": [{"tool": "write_note", "then": "ask"}]});
    operator.put("/v1/approvals/rules", &rules).is(200);
    let note = json!({"tool": "write_note", "arguments": {"message": "x"}, "conversation_id": "n"});
    let waits = ada.post("/v1/calls", &note).is(202);
    let path = format!("/v1/calls/{}", waits["call_id"].as_str().unwrap());
    cancel(&bob, &format!("{path}/cancel")).problem(403, "forbidden");
    assert_eq!(cancel(&bob, "/v1/conversations/n/cancel").is(200)["cancelled"], 0);
    assert_eq!(ada.get(&path).is(200)["status"], "waiting");
    assert_eq!(cancel(&ada, &format!("{path}/cancel")).is(200)["cancelled"], 1);
}
