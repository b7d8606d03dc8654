//! Graceful shutdown on SIGTERM: no new calls, running ones finish, nothing is lost.

use std::collections::HashSet;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::server::{Connection, records, start};
use crate::http::{Server, until};

const SLOW: &str = r#"{"tool": "slow", "arguments": {"seconds": 1.5}}"#;
const ENDLESS: &str = r#"{"tool": "slow", "arguments": {"seconds": 25}}"#;

fn under_way(server: &Server, calls: usize) {
    until("calls run", || {
        let text = server.send("GET", "/metrics", &[], "").body;
        text.contains(&format!("windlass_calls_under_way {calls}\n")).then_some(())
    });
}

#[test]
fn what_runs_may_end_and_nothing_new_begins() {
    let mut server = start("", &[]);
    let mut waiting = server.connect();
    waiting.ask("POST", "/v1/calls", &[], SLOW).unwrap();
    let mut followed = server.connect();
    followed.ask("POST", "/v1/calls", &["Accept: text/event-stream"], SLOW).unwrap();
    let begun = server.call(&["Prefer: respond-async"], SLOW);
    assert_eq!(begun.status, 202, "{begun:?}");
    let mut events = server.connect();
    events.ask("GET", "/v1/events", &[], "").unwrap();
    assert_eq!(events.head().unwrap().status, 200);
    let mut idle = server.connect();
    assert_eq!(idle.send("GET", "/readyz", &[], "").unwrap().status, 200);
    under_way(&server, 3);
    server.signal("-TERM");
    // Whoever is connected is told, and when to come back.
    let refused = until("calls are refused", || {
        let answer = idle.send("POST", "/v1/calls", &[], r#"{"tool": "echo"}"#).unwrap();
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(refused.json()["code"], "draining");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    until("the door is closed", || TcpStream::connect(server.address).err());
    let mut told = String::new();
    while let Some(chunk) = events.chunk().unwrap() {
        told += &String::from_utf8(chunk).unwrap();
    }
    let last = told.rsplit("event: ").next().unwrap();
    assert!(last.starts_with("end\n"), "{told}");
    let answer = waiting.answer().unwrap();
    assert_eq!((answer.status, &answer.json()["is_success"]), (200, &true.into()));
    let followed = followed.answer().unwrap().body;
    assert!(followed.contains("event: result") && followed.contains("\"is_success\":true"));
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
    // Some of those that asked too early were let in.
    let mut records = records(&server.project);
    records.retain(|record| record["tool_name"] == "slow");
    assert_eq!(records.len(), 3, "{records:?}");
    assert!(records.iter().all(|record| record["status"] == "succeeded"), "{records:?}");
    let id = begun.json()["call_id"].clone();
    assert!(records.iter().any(|record| record["record_id"] == id), "also in the background");
}

#[test]
fn calls_that_take_too_long_are_cut_off_and_recorded() {
    let mut server = start("server: {drain: 300ms}\n", &[]);
    let mut waiting = server.connect();
    waiting.ask("POST", "/v1/calls", &[], ENDLESS).unwrap();
    server.call(&["Prefer: respond-async"], ENDLESS);
    under_way(&server, 2);
    let start = Instant::now();
    server.signal("-TERM");
    assert_eq!(waiting.answer().unwrap().json()["error_kind"], "cancelled");
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
    assert!(start.elapsed() < Duration::from_secs(10));
    let records = records(&server.project);
    let statuses: Vec<_> = records.iter().map(|record| &record["status"]).collect();
    assert_eq!(statuses, ["cancelled", "cancelled"], "{records:?}");
}

#[test]
fn a_second_signal_cuts_off() {
    let mut server = start("server: {drain: 1h}\n", &[]);
    let mut waiting = server.connect();
    waiting.ask("POST", "/v1/calls", &[], ENDLESS).unwrap();
    under_way(&server, 1);
    server.signal("-TERM");
    until("the door is closed", || TcpStream::connect(server.address).err());
    server.signal("-INT");
    assert_eq!(server.ended().code(), Some(0), "{}", server.log());
    assert_eq!(records(&server.project).len(), 1);
}

/// Calls as quickly as they are answered, until the server is gone. Returns
/// the ids of those that were answered.
fn hammer(mut connection: Connection, body: &str, stop: &AtomicBool) -> (Vec<String>, usize) {
    let (mut answered, mut refused) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        match connection.send("POST", "/v1/calls", &[], body) {
            Ok(answer) if answer.status == 200 => {
                let result = answer.json();
                assert_eq!(result["is_success"], true, "{result}");
                answered.push(result["call_id"].as_str().unwrap().to_owned());
            }
            Ok(answer) => {
                assert_eq!(answer.status, 503, "{answer:?}");
                refused += 1;
            }
            Err(_) => break,
        }
    }
    (answered, refused)
}

#[test]
fn under_load_every_answered_call_has_one_record() {
    let mut server = start("concurrency: {max_concurrent: 64}\n", &[]);
    let bodies = [
        r#"{"tool": "echo", "arguments": {"message": "a"}}"#,
        r#"{"tool": "slow", "arguments": {"seconds": 0.01}}"#,
    ];
    let stop = AtomicBool::new(false);
    let (answered, refused): (Vec<Vec<String>>, Vec<usize>) = thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|worker| {
                let connection = server.connect();
                let stop = &stop;
                scope.spawn(move || hammer(connection, bodies[worker % 2], stop))
            })
            .collect();
        thread::sleep(Duration::from_millis(700));
        server.signal("-TERM");
        let ended = server.ended();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(ended.code(), Some(0), "{}", server.log());
        workers.into_iter().map(|worker| worker.join().unwrap()).unzip()
    });
    let answered: Vec<String> = answered.concat();
    assert!(answered.len() > 20, "{}", answered.len());
    assert!(refused.iter().sum::<usize>() > 0, "open connections were told");
    let records = records(&server.project);
    let kept: HashSet<&str> =
        records.iter().map(|record| record["record_id"].as_str().unwrap()).collect();
    assert_eq!(kept.len(), records.len(), "one record each");
    let lost: Vec<&String> = answered.iter().filter(|id| !kept.contains(id.as_str())).collect();
    assert!(lost.is_empty(), "{} of {} lost", lost.len(), answered.len());
    assert_eq!(server.project.json(&["stats"])["total"]["calls"], records.len());
}
