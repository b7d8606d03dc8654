//! Batches: order, events, limits, cancellation.

use std::thread;

use serde_json::{Value, json};

use super::server::{Server, until};
use super::wire::{Events, connect_narrow};

#[test]
fn results_come_in_the_order_of_the_calls_and_failures_touch_no_other() {
    let server = Server::start();
    let client = server.admin();
    let body = json!({"conversation_id": "c", "calls": [
        {"tool": "wait", "arguments": {"seconds": 0.3}, "call_ref": "a"},
        {"tool": "nothing", "call_ref": "b"},
        {"tool": "echo", "arguments": {"message": "c"}, "call_ref": "c"},
        {"tool": "calculator", "arguments": {"expression": "1/0"}, "call_ref": "d"},
        {"tool": "write_note", "arguments": {"message": "e"}, "call_ref": "e", "conversation_id": "own"},
    ]});
    let answer = client.post("/v1/batches", &body).is(200);
    let results = answer["results"].as_array().unwrap();
    let refs: Vec<&str> =
        results.iter().map(|result| result["call_ref"].as_str().unwrap()).collect();
    assert_eq!(refs, ["a", "b", "c", "d", "e"]);
    let succeeded: Vec<bool> =
        results.iter().map(|result| result["is_success"].as_bool().unwrap()).collect();
    assert_eq!(succeeded, [true, false, true, false, true]);
    let summary = |name: &str| {
        let summary = client.get(&format!("/v1/conversations/{name}/summary")).is(200);
        summary["total_calls"].as_u64().unwrap()
    };
    until("all are recorded", || (summary("c") == 4 && summary("own") == 1).then_some(()));
    // Nothing asked is nothing answered.
    assert_eq!(client.post("/v1/batches", &json!({"calls": []})).is(200)["results"], json!([]));
    let wrong = json!({"calls": [{"tool": "echo"}, {"tool": "echo", "timeout": "soon"}]});
    let problem = client.post("/v1/batches", &wrong).problem(400, "invalid_request");
    assert_eq!(problem["errors"][0]["path"], "/calls/1/timeout", "{problem}");
}

#[test]
fn the_call_beyond_the_cap_gets_an_error_result() {
    let server = Server::start();
    let client = server.admin();
    let call = |at: usize| json!({"tool": "echo", "arguments": {"message": at.to_string()}});
    let calls: Vec<Value> = (0..51).map(call).collect();
    let answer = client.post("/v1/batches", &json!({"calls": calls})).is(200);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 51);
    assert!(results[..50].iter().all(|result| result["is_success"] == true));
    assert_eq!(results[50]["is_success"], false);
    let many: Vec<Value> = (0..1001).map(call).collect();
    let problem =
        client.post("/v1/batches", &json!({"calls": many})).problem(400, "invalid_request");
    assert_eq!(problem["errors"][0]["path"], "/calls");
}

/// A reader that takes nothing for a while misses events, and is told so.
#[test]
fn a_slow_reader_is_told_what_it_missed_and_gets_all_results() {
    // The reader is slow for as long as the batch takes, which is nobody's timeout here.
    let settings = "max_batch: 1000\nstrict_validation: true\n\
                    server: {max_body_bytes: 33554432, reader_timeout: 10m}\n";
    let server = Server::with(settings, &[]);
    let client = server.admin();
    // Calls that fail with long texts, then calls that tell as much as they can.
    let long: serde_json::Map<String, Value> =
        (0..20).map(|at| (format!("{at}{}", "x".repeat(400)), json!(1))).collect();
    let call = |at: usize| match at < 600 {
        true => json!({"tool": "echo", "arguments": long}),
        false => json!({"tool": "echo", "arguments": {"message": at.to_string()}}),
    };
    let body = json!({"calls": (0..1000).map(call).collect::<Vec<_>>()}).to_string();
    let headers = [("Content-Type", "application/json"), ("Accept", "text/event-stream")];
    let narrow = connect_narrow(server.address);
    let stream = client.begin_on(narrow, "POST", "/v1/batches", &headers, body.as_bytes());
    let mut events = Events::new(stream, "POST", "/v1/batches");
    until("it has ended", || {
        let total = client.get("/v1/stats").is(200)["total"]["calls"].clone();
        (total == 1000).then_some(())
    });
    let (mut told, mut missed) = (0, 0);
    let results = loop {
        let event = events.next().unwrap();
        match event.name.as_str() {
            "batch" => {}
            "gap" => missed += event.data["missed"].as_u64().unwrap(),
            "results" => break event.data,
            _ => told += 1,
        }
    };
    assert_eq!(results["results"].as_array().unwrap().len(), 1000);
    let happened = 600 * 2 + 400 * 3 + 1;
    assert!(missed > 0, "{told} of {happened} were told");
    assert!(told + missed >= happened, "{told} told, {missed} missed, {happened} happened");
}

#[test]
fn a_followed_batch_tells_what_a_front_end_shows() {
    let server = Server::start();
    let client = server.admin();
    let body = json!({"calls": [
        {"tool": "echo", "arguments": {"message": "1"}, "call_ref": "one"},
        {"tool": "echo", "arguments": {}, "call_ref": "two"},
        {"tool": "write_note", "arguments": {"message": "3"}, "call_ref": "three"},
    ]});
    let events = client.stream("/v1/batches", &body).rest();
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names.first(), Some(&"batch"));
    assert_eq!(&names[names.len() - 2..], ["queue_drained", "results"], "{names:?}");
    let queued: Vec<_> = events.iter().filter(|event| event.name == "tool_queued").collect();
    let positions: Vec<_> = queued.iter().map(|event| event.data["position"].as_u64()).collect();
    assert_eq!(positions, [Some(0), Some(1), Some(2)]);
    let of = |id: &str| -> Vec<&str> {
        let own = events.iter().filter(|event| event.data["toolUseId"] == id);
        own.map(|event| event.name.as_str()).collect()
    };
    assert_eq!(of("one"), ["tool_queued", "tool_started", "tool_completed"]);
    assert_eq!(of("two"), ["tool_queued", "tool_error"]);
    assert_eq!(of("three"), ["tool_queued", "tool_started", "tool_completed"]);
    let place = |id: &str, name: &str| {
        events.iter().position(|event| event.name == name && event.data["toolUseId"] == id).unwrap()
    };
    assert!(place("one", "tool_completed") < place("three", "tool_started"), "a write runs alone");
    let results = &events.last().unwrap().data;
    assert_eq!(results["batch_id"], events[0].data["batch_id"]);
    assert_eq!(results["results"].as_array().unwrap().len(), 3);
}

#[test]
fn a_batch_is_cancelled_and_still_has_all_results() {
    let server = Server::start();
    let client = server.admin();
    let calls: Vec<Value> =
        (0..3).map(|_| json!({"tool": "wait", "arguments": {"seconds": 60}})).collect();
    let mut events = client.stream("/v1/batches", &json!({"calls": calls}));
    let seen = events.up_to("tool_started");
    let id = seen[0].data["batch_id"].as_str().unwrap().to_owned();
    let stranger = server.key("theirs", "caller");
    let path = format!("/v1/batches/{id}/cancel");
    assert_eq!(stranger.send("POST", &path, &[], b"").is(200)["cancelled"], 0);
    let cancelled = thread::spawn({
        let client = client.clone();
        move || client.send("POST", &path, &[], b"").is(200)["cancelled"].as_u64()
    });
    let rest = events.rest();
    assert_eq!(cancelled.join().unwrap(), Some(3));
    let results = rest.last().unwrap().data["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), 3);
    assert!(results.iter().all(|result| result["error_kind"] == "cancelled"), "{results:?}");
    client.send("POST", "/v1/batches/nothing/cancel", &[], b"").problem(404, "not_found");
}
