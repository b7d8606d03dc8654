//! Traces, sent to a receiver that keeps them.

mod conventions;

use std::time::Duration;

use serde_json::{Value, json};

use super::server::start;
use crate::http::until;
use crate::upstream::{Said, TestUpstream};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn collector(status: &'static str) -> TestUpstream {
    TestUpstream::start(move |_| Said::json(status, &json!({})))
}

fn spans(collector: &TestUpstream) -> Vec<Value> {
    let bodies: Vec<Value> =
        collector.asked().iter().map(|asked| serde_json::from_str(&asked.body).unwrap()).collect();
    let all = bodies.iter().flat_map(|body| body["resourceSpans"].as_array().unwrap());
    let all = all.flat_map(|resource| resource["scopeSpans"].as_array().unwrap());
    all.flat_map(|scope| scope["spans"].as_array().unwrap().clone()).collect()
}

fn settings(collector: &TestUpstream) -> String {
    format!(
        "telemetry:\n  endpoint: {}\n  service_name: tester\n  headers: [x-canary=hunter2]\n",
        collector.url()
    )
}

fn attribute(span: &Value, name: &str) -> Option<String> {
    let found = span["attributes"].as_array()?.iter().find(|one| one["key"] == name)?;
    let value = &found["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str()).map(str::to_owned)
}

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

fn time(span: &Value, name: &str) -> u128 {
    span[name].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_call_is_a_span_within_the_callers_trace() {
    let collector = collector("200 OK");
    let mut server = start(&settings(&collector), &[]);
    let parent = format!("traceparent: 00-{TRACE}-{PARENT}-01");
    let body = r#"{"tool": "slow", "arguments": {"seconds": 0.05, "x": "canary-argument"},
                   "conversation_id": "c-1"}"#;
    let answer = server.call(&[&parent, "tracestate: vendor=1"], body);
    assert_eq!(answer.json()["is_success"], true, "{answer:?}");
    let id = answer.json()["call_id"].as_str().unwrap().to_owned();
    let failed = server.call(&[&parent], r#"{"tool": "slow", "arguments": {"seconds": "canary"}}"#);
    assert_eq!(failed.json()["is_success"], false);
    server.signal("-TERM");
    assert_eq!(server.ended().code(), Some(0));
    // What was left is sent before the server ends.
    let spans = spans(&collector);
    let mine: Vec<Value> = spans.iter().filter(|span| span["traceId"] == TRACE).cloned().collect();
    let requests = named(&mine, "POST /v1/calls");
    assert_eq!(requests.len(), 2, "{spans:#?}");
    assert_eq!((&requests[0]["parentSpanId"], &requests[0]["kind"]), (&json!(PARENT), &json!(2)));
    assert_eq!(attribute(requests[0], "http.response.status_code").as_deref(), Some("200"));
    let calls = named(&mine, "execute_tool slow");
    let call = calls.iter().find(|call| attribute(call, "windlass.call.id").as_ref() == Some(&id));
    let call = call.unwrap();
    assert!(requests.iter().any(|request| request["spanId"] == call["parentSpanId"]));
    for (name, wanted) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "slow"),
        ("gen_ai.tool.type", "function"),
        ("gen_ai.conversation.id", "c-1"),
        ("windlass.kind", "builtin"),
        ("windlass.tenant", "default"),
        ("windlass.status", "succeeded"),
        ("windlass.attempts", "1"),
    ] {
        assert_eq!(attribute(call, name).as_deref(), Some(wanted), "{name}: {call:#}");
    }
    let child = |name| {
        let found = named(&mine, name);
        found.into_iter().find(|span| span["parentSpanId"] == call["spanId"]).unwrap()
    };
    let (queue, run) = (child("windlass.queue"), child("windlass.run"));
    assert_eq!(time(queue, "startTimeUnixNano"), time(call, "startTimeUnixNano"));
    assert_eq!(time(queue, "endTimeUnixNano"), time(run, "startTimeUnixNano"));
    assert_eq!(time(run, "endTimeUnixNano"), time(call, "endTimeUnixNano"));
    let ran = time(run, "endTimeUnixNano") - time(run, "startTimeUnixNano");
    assert!(ran >= Duration::from_millis(45).as_nanos(), "{ran}");
    let refused = calls.iter().find(|call| attribute(call, "error.type").is_some()).unwrap();
    assert_eq!(refused["status"]["code"], 2);
    assert_eq!(attribute(refused, "error.type").as_deref(), Some("invalid_arguments"));
    assert!(calls.iter().all(|call| call["kind"] == 1), "they are internal: {calls:#?}");
    let got = collector.asked();
    assert!(got[0].head.starts_with("POST /v1/traces HTTP/1.1"), "{got:?}");
    assert!(got[0].head.contains("x-canary: hunter2"), "{got:?}");
    assert!(got[0].head.contains("content-type: application/json"), "{got:?}");
    for one in &got {
        assert!(!one.body.contains("canary") && !one.body.contains(&server.admin), "{}", one.body);
        assert!(one.body.contains("\"tester\""), "{}", one.body);
    }
    let record = server.project.json(&["calls", &id]);
    assert!(record.to_string().contains(&format!("00-{TRACE}-")), "{record}");
}

#[test]
fn a_batch_is_one_trace_and_what_is_not_sampled_is_not_sent() {
    let collector = collector("200 OK");
    let mut server = start(&settings(&collector), &[]);
    let calls = r#"{"calls": [{"tool": "echo", "arguments": {"message": "a"}},
                              {"tool": "echo", "arguments": {"message": "b"}}]}"#;
    let answer = server.send("POST", "/v1/batches", &[], calls);
    assert_eq!(answer.status, 200, "{answer:?}");
    let quiet = format!("traceparent: 00-{TRACE}-{PARENT}-00");
    assert_eq!(
        server.call(&[&quiet], r#"{"tool": "echo", "arguments": {"message": "c"}}"#).status,
        200
    );
    let wrong = "traceparent: 00-nonsense-01";
    assert_eq!(
        server.call(&[wrong], r#"{"tool": "echo", "arguments": {"message": "d"}}"#).status,
        200
    );
    server.signal("-TERM");
    server.ended();
    let spans = spans(&collector);
    let batch = named(&spans, "POST /v1/batches")[0];
    let calls = named(&spans, "execute_tool echo");
    let own = calls.iter().filter(|call| call["traceId"] == batch["traceId"]);
    assert_eq!(own.filter(|call| call["parentSpanId"] == batch["spanId"]).count(), 2);
    assert_eq!(calls.len(), 3, "a wrong header begins a trace of its own: {calls:#?}");
    assert!(spans.iter().all(|span| span["traceId"] != TRACE), "{spans:#?}");
}

#[test]
fn what_cannot_be_sent_is_counted_and_calls_go_on() {
    let collector = collector("400 Bad Request");
    let server = start(&settings(&collector), &[]);
    let echo = r#"{"tool": "echo", "arguments": {"message": "a"}}"#;
    assert_eq!(server.call(&[], echo).json()["is_success"], true);
    until("it is counted", || {
        let text = server.send("GET", "/metrics", &[], "").body;
        let line = text.lines().find(|line| line.starts_with("windlass_traces_dropped_total "))?;
        (line.rsplit(' ').next()? != "0").then_some(())
    });
    assert_eq!(server.call(&[], echo).json()["is_success"], true);
    let log = server.log();
    assert!(log.contains("traces cannot be sent") && !log.contains("hunter2"), "{log}");
}

#[test]
fn a_trace_is_passed_on_to_what_a_call_asks_of_others() {
    let (collector, upstream) = (collector("200 OK"), collector("200 OK"));
    let allow = "outbound: {allow: [127.0.0.1]}\n";
    let body = json!({
        "tool": "http_request",
        "arguments": {"url": format!("{}/", upstream.url())},
    })
    .to_string();
    let parent = format!("traceparent: 00-{TRACE}-{PARENT}-01");
    // Where nobody hears of our spans, the caller's is the parent.
    let server = start(allow, &[]);
    let answer = server.call(&[&parent, "tracestate: vendor=1"], &body);
    assert_eq!(answer.json()["is_success"], true, "{answer:?}");
    let head = upstream.asked()[0].head.clone();
    assert!(head.contains(&format!("{parent}\r\n")), "{head}");
    assert!(head.contains("tracestate: vendor=1\r\n"), "{head}");
    let mut server = start(&(settings(&collector) + allow), &[]);
    assert_eq!(server.call(&[&parent], &body).json()["is_success"], true);
    let head = upstream.asked()[1].head.clone();
    server.signal("-TERM");
    server.ended();
    let spans = spans(&collector);
    let own = named(&spans, "execute_tool http_request")[0]["spanId"].as_str().unwrap();
    assert!(head.contains(&format!("traceparent: 00-{TRACE}-{own}-01\r\n")), "{head}");
}
