//! SIGKILL under load: acknowledged results are kept, running calls become `interrupted`.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::server::start;
use crate::http::until;

#[test]
fn after_a_kill_every_call_that_ran_is_interrupted_once() {
    let server = start("", &[]);
    let slow = r#"{"tool": "slow", "arguments": {"seconds": 20}}"#;
    let begun: Vec<String> = (0..4)
        .map(|_| {
            let answer = server.call(&["Prefer: respond-async"], slow);
            answer.json()["call_id"].as_str().unwrap().to_owned()
        })
        .collect();
    until("calls run", || {
        let text = server.send("GET", "/metrics", &[], "").body;
        text.contains("windlass_limits_running 4\n").then_some(())
    });
    let quick = r#"{"tool": "slow", "arguments": {"seconds": 0.001}}"#;
    let answered: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let mut connection = server.connect();
                scope.spawn(move || {
                    let mut answered = Vec::new();
                    for _ in 0..40 {
                        match connection.send("POST", "/v1/calls", &[], quick) {
                            Ok(answer) if answer.status == 200 => {
                                let id = answer.json()["call_id"].as_str().unwrap().to_owned();
                                answered.push(id);
                            }
                            _ => break,
                        }
                    }
                    answered
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(200));
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let server = server.kill_and_start();
    for id in &begun {
        let path = format!("/v1/calls/{id}");
        let record = until("it is closed", || {
            let record = server.send("GET", &path, &[], "").json();
            (record["status"] == "interrupted").then_some(record)
        });
        assert_eq!(record["error"]["kind"], json!("interrupted"), "{record}");
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut cursor = String::new();
    loop {
        let page = server.send("GET", &format!("/v1/calls?limit=500{cursor}"), &[], "").json();
        for record in page["records"].as_array().unwrap() {
            *seen.entry(record["record_id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    for id in answered.iter().chain(&begun) {
        assert_eq!(seen.get(id), Some(&1), "{id}: of {} answered", answered.len());
    }
    assert!(!answered.is_empty());
}

#[test]
fn after_a_kill_a_call_in_the_background_is_interrupted_even_if_it_only_looked_or_had_no_slot() {
    let server = start("", &[]);
    let limits = r#"{"max_concurrent": 1}"#;
    assert_eq!(server.send("PUT", "/v1/limits", &[], limits).status, 200);
    let wait = r#"{"tool": "wait", "arguments": {"seconds": 60}, "conversation_id": "c"}"#;
    let begun: Vec<String> = (0..3)
        .map(|_| {
            let answer = server.call(&["Prefer: respond-async"], wait);
            answer.json()["call_id"].as_str().unwrap().to_owned()
        })
        .collect();
    until("one runs", || {
        let text = server.send("GET", "/metrics", &[], "").body;
        text.contains("windlass_limits_running 1\n").then_some(())
    });
    let server = server.kill_and_start();
    for id in &begun {
        let path = format!("/v1/calls/{id}");
        let record = server.send("GET", &path, &[], "").json();
        assert_eq!(record["status"], "interrupted", "{record}");
        assert_eq!(record["params"], json!({"seconds": 60}), "{record}");
        assert_eq!(
            (&record["conversation_id"], &record["tool_name"]),
            (&json!("c"), &json!("wait"))
        );
        let cancelled = server.send("POST", &format!("{path}/cancel"), &[], "").json();
        assert_eq!(cancelled["cancelled"], 0, "there is nothing to cancel");
    }
    let page = server.send("GET", "/v1/calls?conversation_id=c", &[], "").json();
    assert_eq!(page["records"].as_array().unwrap().len(), 3, "one record each: {page}");
}
