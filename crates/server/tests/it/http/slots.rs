//! Concurrent requests: waiting ones block nobody, and no API key or tenant takes the
//! slots of others.

use std::io::BufReader;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::server::{Server, until};
use super::wire::{Answer, Client};

/// Begins a call that goes on for long.
fn slow(client: &Client) -> BufReader<TcpStream> {
    let body = json!({"tool": "wait", "arguments": {"seconds": 60}}).to_string();
    let json = [("Content-Type", "application/json")];
    client.begin("POST", "/v1/calls", &json, body.as_bytes())
}

fn running(client: &Client) -> u64 {
    let counts = client.get("/metrics").text();
    let name = "windlass_limits_running ";
    counts.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

#[test]
fn long_polls_of_one_key_do_not_hold_up_other_tenants() {
    let server = Server::with("server: {max_requests: 12}", &[]);
    let (caller, viewer) = (server.key("one", "caller"), server.key("one", "viewer"));
    let other = server.key("two", "caller");
    let later = [("Prefer", "respond-async")];
    let call = json!({"tool": "wait", "arguments": {"seconds": 60}});
    let begun = caller.json("POST", "/v1/calls", &later, &call).is(202);
    let path = format!("/v1/calls/{}?wait=50s", begun["call_id"].as_str().unwrap());
    let poll = |_| {
        // They come one after the other, and stay.
        std::thread::sleep(Duration::from_millis(20));
        viewer.begin("GET", &path, &[], b"")
    };
    let mut polls: Vec<_> = (0..60).map(poll).collect();
    let echo = json!({"tool": "echo", "arguments": {"message": "x"}});
    for _ in 0..10 {
        assert_eq!(other.post("/v1/calls", &echo).is(200)["is_success"], true);
        viewer.get("/v1/stats").is(200);
    }
    // They do wait, and hear when the call ends.
    let one = polls.pop().unwrap();
    let path = format!("/v1/calls/{}/cancel", begun["call_id"].as_str().unwrap());
    caller.send("POST", &path, &[], b"").is(200);
    let answer = Answer::read(&mut { one });
    assert_eq!(answer.is(200)["status"], "cancelled", "{answer}");
}

#[test]
fn one_key_takes_no_more_than_its_share_of_the_slots_that_run() {
    let server = Server::with("max_concurrent: 100\nserver: {max_requests: 30}", &[]);
    let (one, second) = (server.key("one", "caller"), server.key("one", "caller"));
    let other = server.key("two", "caller");
    let mut flood: Vec<_> = (0..60).map(|_| slow(&one)).collect();
    until("its share is used", || (running(&server.admin()) == 20).then_some(()));
    // The rest of its tenant goes on, and so do others.
    flood.extend((0..60).map(|_| slow(&second)));
    until("the tenant's share is used", || (running(&server.admin()) == 24).then_some(()));
    let refused = one.get("/v1/stats");
    refused.problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let echo = json!({"tool": "echo", "arguments": {"message": "x"}});
    for _ in 0..20 {
        assert_eq!(other.post("/v1/calls", &echo).is(200)["is_success"], true);
    }
    drop(flood);
    until("there is room again", || (one.get("/v1/stats").status == 200).then_some(()));
}

#[test]
fn streams_have_shares_of_their_own() {
    let server = Server::with("server: {max_waiting: 9, max_requests: 4}", &[]);
    let (one, other) = (server.key("one", "viewer"), server.key("two", "viewer"));
    let held: Vec<_> = (0..6).map(|_| one.follow("/v1/events", None)).collect();
    one.get("/v1/events").problem(429, "too_many_requests");
    one.get("/v1/stats").is(200);
    let second = other.follow("/v1/events", None);
    drop(held);
    until("there is room again", || {
        let mut stream = one.begin("GET", "/v1/events", &[], b"");
        (Answer::head(&mut stream).status == 200).then_some(())
    });
    drop(second);
}
