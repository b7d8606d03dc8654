//! Turns: a model's message goes in, the next message for it comes out.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::Server;
use super::wire::{Client, Events, Sent, connect};

fn use_tool(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

/// What a model's API sends for a message with these calls, an event for each
/// item.
fn written(calls: &[(&str, &str, Value)]) -> Vec<String> {
    let event =
        |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    let mut events = vec![event(json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }}))];
    for (at, (id, name, input)) in calls.iter().enumerate() {
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        let start = json!({"type": "content_block_start", "index": at, "content_block": block});
        let part = json!({"type": "input_json_delta", "partial_json": input.to_string()});
        let delta = json!({"type": "content_block_delta", "index": at, "delta": part});
        let stop = json!({"type": "content_block_stop", "index": at});
        events.push([start, delta, stop].map(event).concat());
    }
    let delta = json!({"stop_reason": "tool_use"});
    let end = json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}});
    events.push([end, json!({"type": "message_stop"})].map(event).concat());
    events
}

/// A body that is written piece by piece.
struct Writing(TcpStream);

impl Writing {
    fn begin(client: &Client, path: &str) -> Self {
        let mut stream = connect(client.address);
        let key = client.key.as_deref().unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: text/event-stream\r\nConnection: close\r\n\
             Transfer-Encoding: chunked\r\n\r\n",
            client.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        Self(stream)
    }

    fn send(&mut self, text: &str) {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.0.write_all(chunk.as_bytes()).unwrap();
    }

    fn end(&mut self) {
        self.0.write_all(b"0\r\n\r\n").unwrap();
    }

    fn events(&self) -> Events {
        let stream = BufReader::new(self.0.try_clone().unwrap());
        Events::new(stream, "POST", "/v1/turns/stream")
    }
}

fn answer(events: &[Sent]) -> &Value {
    let last = events.last().unwrap();
    assert_eq!(last.name, "turn", "{events:?}");
    &last.data
}

#[test]
fn every_format_gets_its_next_message() {
    let server = Server::start();
    let client = server.key("ours", "caller");
    let anthropic = json!({"role": "assistant", "content": [
        {"type": "text", "text": "I look."},
        use_tool("a", "echo", &json!({"message": "one"})),
        use_tool("b", "nothing_like_it", &json!({})),
    ]});
    let answer = client.post("/v1/turns?conversation_id=c", &anthropic).is(200);
    let content = answer["messages"][0]["content"].as_array().unwrap();
    assert_eq!(answer["messages"][0]["role"], "user");
    assert_eq!(
        (&content[0]["tool_use_id"], &content[1]["tool_use_id"]),
        (&json!("a"), &json!("b"))
    );
    assert_eq!((&content[0]["is_error"], &content[1]["is_error"]), (&Value::Null, &json!(true)));
    assert_eq!(
        (answer["results"].as_array().unwrap().len(), &answer["is_whole"]),
        (2, &json!(true))
    );

    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "echo", "arguments": arguments}});
    let openai = json!({"role": "assistant", "content": null, "tool_calls": [
        call("c1", r#"{"message":"one"}"#), call("c2", r#"{"message":"#),
    ]});
    let answer = client.post("/v1/turns?format=openai", &openai).is(200);
    let messages = answer["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2, "broken JSON is answered as well");
    assert_eq!(
        (&messages[0]["role"], &messages[0]["tool_call_id"]),
        (&json!("tool"), &json!("c1"))
    );
    assert_eq!(messages[0]["content"], "one");

    let responses = json!({"output": [
        {"type": "function_call", "call_id": "f1", "name": "echo", "arguments": "{\"message\":\"r\"}"},
    ]});
    let answer = client.post("/v1/turns", &responses).is(200);
    assert_eq!(answer["messages"][0]["type"], "function_call_output");
    assert_eq!(answer["messages"][0]["call_id"], "f1");

    let gemini = json!({"candidates": [{"content": {"role": "model", "parts": [
        {"functionCall": {"name": "echo", "args": {"message": "g"}}},
    ]}}]});
    let answer = client.post("/v1/turns", &gemini).is(200);
    assert_eq!(answer["messages"][0]["parts"][0]["functionResponse"]["name"], "echo");
}

#[test]
fn a_message_that_is_none_is_refused() {
    let server = Server::start();
    let client = server.admin();
    for body in [json!({}), json!([1]), json!({"role": "tool"})] {
        let problem = client.post("/v1/turns", &body).problem(400, "invalid_request");
        assert!(problem["detail"].as_str().unwrap().contains("message"), "{problem}");
    }
    let message = json!({"role": "assistant", "content": []});
    client.post("/v1/turns?format=smoke", &message).problem(400, "invalid_request");
    client.post("/v1/turns?colour=red", &message).problem(400, "invalid_request");
    server.key("ours", "viewer").post("/v1/turns", &message).problem(403, "forbidden");
    assert_eq!(client.post("/v1/turns", &message).is(200)["messages"], json!([]));
}

#[test]
fn a_followed_turn_tells_its_events_and_then_the_answer() {
    let server = Server::start();
    let content = [use_tool("a", "echo", &json!({"message": "one"}))];
    let body = json!({"role": "assistant", "content": content});
    let events = server.admin().stream("/v1/turns", &body).rest();
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names.first(), Some(&"batch"));
    assert!(names.contains(&"tool_queued") && names.contains(&"queue_drained"), "{names:?}");
    assert_eq!(answer(&events)["messages"][0]["content"][0]["tool_use_id"], "a");
}

#[test]
fn a_call_begins_while_the_model_still_writes() {
    let server = Server::start();
    let client = server.admin();
    let wait = |seconds: f64| json!({"seconds": seconds});
    let calls = [("a", "wait", wait(0.2)), ("b", "echo", json!({"message": "late"}))];
    let pieces = written(&calls);
    let mut writing = Writing::begin(&client, "/v1/turns/stream?format=anthropic");
    writing.send(&pieces[0]);
    writing.send(&pieces[1]);
    // Nothing more is written until the first call has ended.
    let mut events = writing.events();
    let seen = events.up_to("tool_completed");
    assert_eq!(seen[0].name, "batch");
    writing.send(&pieces[2]);
    writing.send(&pieces[3]);
    writing.end();
    let rest = events.rest();
    let answer = answer(&rest);
    assert_eq!(answer["is_whole"], true);
    let content = answer["messages"][0]["content"].as_array().unwrap();
    assert_eq!(
        (&content[0]["tool_use_id"], &content[1]["tool_use_id"]),
        (&json!("a"), &json!("b"))
    );
    assert_eq!(answer["assistant"]["content"][1]["input"]["message"], "late");
}

#[test]
fn what_came_in_one_piece_with_a_broken_event_counts() {
    let server = Server::start();
    let pieces = written(&[("a", "echo", json!({"message": "whole"}))]);
    let mut writing = Writing::begin(&server.admin(), "/v1/turns/stream");
    writing.send(&format!("{}{}data: {{oh\n\n", pieces[0], pieces[1]));
    writing.end();
    let events = writing.events().rest();
    assert!(events.iter().any(|event| event.name == "broken"), "{events:?}");
    let answer = answer(&events);
    assert_eq!(answer["results"][0]["output"], "whole", "{answer}");
    assert_eq!(answer["messages"][0]["content"][0]["tool_use_id"], "a", "{answer}");
}

#[test]
fn a_call_that_the_message_was_cut_at_does_not_run() {
    let server = Server::start();
    let client = server.admin();
    let block = use_tool("a", "slow_write", &json!({}));
    let message = json!({"role": "assistant", "stop_reason": "max_tokens", "content": [block]});
    let answer = client.post("/v1/turns", &message).is(200);
    let told = answer["messages"][0]["content"][0]["content"][0]["text"].as_str().unwrap();
    assert!(told.contains("broke off"), "{answer}");
    assert_eq!(answer["results"][0]["error_kind"], "invalid_arguments");
}

#[test]
fn a_stream_that_breaks_off_is_answered_as_far_as_it_came() {
    let server = Server::start();
    let client = server.admin();
    let calls =
        [("a", "echo", json!({"message": "whole"})), ("b", "echo", json!({"message": "half"}))];
    let pieces = written(&calls);
    let half = &pieces[2][..pieces[2].find("content_block_stop").unwrap()];
    // The body ends before the message does.
    let mut writing = Writing::begin(&client, "/v1/turns/stream");
    writing.send(&format!("{}{}{half}", pieces[0], pieces[1]));
    writing.end();
    let events = writing.events().rest();
    let answer = answer(&events);
    assert_eq!(answer["is_whole"], false);
    let content = answer["messages"][0]["content"].as_array().unwrap();
    assert_eq!(content.len(), 2, "{answer}");
    assert_eq!((&content[0]["is_error"], &content[1]["is_error"]), (&Value::Null, &json!(true)));

    // What is no stream of a model's is told, and answered.
    for (odd, why) in [
        ("data: {\n\n", Some("not JSON")),
        ("{\"role\": \"assistant\", \"content\": []}", Some("/v1/turns")),
        ("event: error\ndata: {}\n\n", None),
    ] {
        let mut writing = Writing::begin(&client, "/v1/turns/stream?format=anthropic");
        writing.send(odd);
        writing.end();
        let events = writing.events().rest();
        assert_eq!(events.last().unwrap().name, "turn", "{odd}: {events:?}");
        assert_eq!(events.last().unwrap().data["messages"], json!([]));
        let broken = events.iter().find(|event| event.name == "broken");
        let told = broken.map(|event| event.data["error"].as_str().unwrap());
        assert_eq!(told.is_some(), why.is_some(), "{odd}: {events:?}");
        assert!(told.unwrap_or_default().contains(why.unwrap_or_default()), "{odd}: {events:?}");
    }

    // Whoever hangs up gives up what only looks.
    let mut writing = Writing::begin(&client, "/v1/turns/stream?conversation_id=gone");
    let calls = [("a", "wait", json!({"seconds": 20}))];
    writing.send(&written(&calls)[..2].concat());
    writing.events().up_to("tool_started");
    drop(writing);
    let began = Instant::now();
    super::server::until("the call is given up", || {
        let page = client.get("/v1/calls?conversation_id=gone").is(200);
        let record = page["records"].as_array().unwrap().first().cloned()?;
        (record["status"] == "cancelled").then_some(())
    });
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn what_a_models_api_writes_is_taken_as_it_is() {
    let server = Server::start();
    let client = server.admin();
    let post = |body: &str| {
        client.send("POST", "/v1/turns", &[("Content-Type", "application/json")], body.as_bytes())
    };
    // Half of a surrogate pair, where a text was cut.
    let answer = post(
        r#"{"role": "assistant", "content": [{"type": "text", "text": "Hm \ud83d"},
            {"type": "tool_use", "id": "a", "name": "echo", "input": {"message": "\ude00!"}}]}"#,
    )
    .is(200);
    assert_eq!(answer["results"][0]["output"], "\u{fffd}!", "{answer}");
    // A question that Gemini refused to answer.
    let answer = post(r#"{"promptFeedback": {"blockReason": "SAFETY"}}"#).is(200);
    assert_eq!((&answer["messages"], &answer["results"]), (&json!([]), &json!([])));
    post(r#"{"role": "assistant", "content": "\ud83d" "#).problem(400, "invalid_request");
}
