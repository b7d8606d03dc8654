//! Event streams: no duplicates, no gaps, nothing of other tenants.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Server, until};
use super::wire::{Answer, Client, Events, Sent, connect_narrow};

fn echo(client: &Client, conversation: &str, message: &str) -> String {
    let body = json!({
        "tool": "echo", "arguments": {"message": message}, "conversation_id": conversation,
    });
    let result = client.post("/v1/calls", &body).is(200);
    result["call_id"].as_str().unwrap().to_owned()
}

fn names(events: &[Sent]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

/// Whether nothing comes twice. Ids have no order that anybody could read.
fn all_differ(ids: &[u64]) -> bool {
    ids.iter().collect::<std::collections::HashSet<_>>().len() == ids.len()
}

#[test]
fn readers_see_their_own_tenant_conversation_or_batch() {
    let server = Server::start();
    let (ours, theirs) = (server.key("ours", "operator"), server.key("theirs", "operator"));
    let mut all = ours.follow("/v1/events", None);
    let mut one = ours.follow("/v1/events?conversation_id=c1", None);
    let mut foreign = theirs.follow("/v1/events", None);
    echo(&theirs, "c1", "theirs");
    echo(&ours, "c2", "other");
    let wanted = echo(&ours, "c1", "wanted");
    assert_eq!(
        names(&one.up_to("execution_completed")),
        ["execution_started", "execution_completed"]
    );
    let seen = all.up_to("execution_completed");
    assert_eq!(seen[0].data["conversation_id"], "c2");
    assert_eq!(all.up_to("execution_completed")[0].data["call_id"], wanted.as_str());
    // Tools of a tenant are told to it alone.
    let definition = json!({"definition": {
        "name": "ours_alone", "description": "x", "entry": {"type": "builtin", "handler": "echo"},
        "parameters": [{"name": "message", "type": "string"}],
    }});
    ours.post("/v1/tools", &definition).is(201);
    assert_eq!(all.up_to("tool_added").last().unwrap().data["tool_name"], "ours_alone");
    echo(&theirs, "end", "end");
    let theirs_seen: Vec<Sent> =
        [foreign.up_to("execution_completed"), foreign.up_to("execution_completed")].concat();
    let text = format!("{theirs_seen:?}");
    assert!(!text.contains("\"ours") && !text.contains("\"c2\""), "{text}");

    // A batch.
    let mut stream = ours.stream(
        "/v1/batches",
        &json!({"calls": [
            {"tool": "wait", "arguments": {"seconds": 0.5}},
            {"tool": "echo", "arguments": {"message": "x"}},
        ]}),
    );
    let id = stream.up_to("batch")[0].data["batch_id"].as_str().unwrap().to_owned();
    let mut batch = ours.follow(&format!("/v1/events?batch_id={id}"), Some(0));
    let seen = batch.up_to("queue_drained");
    assert_eq!(names(&seen).iter().filter(|name| **name == "execution_completed").count(), 2);
    assert_eq!(names(&seen).iter().filter(|name| **name == "tool_queued").count(), 2);
    for query in ["last_event_id=x", "conversation=c", "last_event_id=-1"] {
        ours.get(&format!("/v1/events?{query}")).problem(400, "invalid_request");
    }
    let header = [("Last-Event-ID", "newest")];
    ours.send("GET", "/v1/events", &header, b"").problem(400, "invalid_request");
}

#[test]
fn a_reader_that_comes_back_misses_nothing_and_sees_nothing_twice() {
    let server = Server::start();
    let client = server.admin();
    let mut stream = client.follow("/v1/events?conversation_id=c", None);
    let mut calls = vec![echo(&client, "c", "0")];
    let seen = stream.up_to("execution_completed");
    drop(stream);
    let mut ids: Vec<u64> = seen.iter().map(|event| event.id.unwrap()).collect();
    let mut completed: Vec<Value> = vec![seen.last().unwrap().data["call_id"].clone()];
    // While nobody reads, twice, and across a restart.
    let mut server = Some(server);
    for round in 0..3 {
        let mut running = server.take().unwrap();
        let client = running.client(client.key.as_deref().unwrap());
        calls.extend((0..5).map(|at| echo(&client, "c", &format!("{round}.{at}"))));
        if round == 1 {
            // What was seen by a reader is in the store.
            let mut live = client.follow("/v1/events?conversation_id=c", ids.last().copied());
            (0..5).for_each(|_| drop(live.up_to("execution_completed")));
            running = running.kill_and_start();
        }
        let client = running.client(client.key.as_deref().unwrap());
        let mut stream = client.follow("/v1/events?conversation_id=c", ids.last().copied());
        for _ in 0..5 {
            let mut seen = stream.up_to("execution_completed");
            // Nobody knows what died with a server that was killed.
            seen.retain(|event| event.name != "gap" || round == 0);
            assert_eq!(names(&seen), ["execution_started", "execution_completed"]);
            ids.extend(seen.iter().map(|event| event.id.unwrap()));
            completed.push(seen.last().unwrap().data["call_id"].clone());
        }
        server = Some(running);
    }
    assert!(all_differ(&ids), "{ids:?}");
    assert_eq!(completed, calls.iter().map(|id| json!(id)).collect::<Vec<_>>());
    // A position that never was is said to be a gap.
    let server = server.unwrap();
    let client = server.client(client.key.as_deref().unwrap());
    let mut ahead = client.follow("/v1/events?last_event_id=0123456789abcdef", None);
    assert_eq!(ahead.next().unwrap().name, "gap");
}

/// Of many that come at once, one writes that somebody listens.
#[test]
fn a_hundred_readers_of_a_fresh_tenant_are_all_let_in() {
    let server = Server::start();
    for round in 0..3 {
        let client = server.key(&format!("fresh-{round}"), "operator");
        let gate = std::sync::Barrier::new(100);
        let streams: Vec<Events> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..100)
                .map(|_| {
                    scope.spawn(|| {
                        gate.wait();
                        client.follow("/v1/events", None)
                    })
                })
                .collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        let call = echo(&client, "c", "to all");
        for mut stream in streams {
            let seen = stream.up_to("execution_completed");
            assert_eq!(seen.last().unwrap().data["call_id"], call.as_str());
        }
    }
}

/// What happens to the calls of a server that is killed in the middle of them.
#[test]
fn after_a_kill_every_call_that_began_has_its_end_and_readers_hear_of_a_gap() {
    let server = Server::start();
    let admin = server.admin();
    let key = admin.key.clone().unwrap();
    let mut live = admin.follow("/v1/events", None);
    let slow = json!({
        "tool": "slow_write", "arguments": {"seconds": 30}, "conversation_id": "slow",
    });
    let looks = json!({"tool": "wait", "arguments": {"seconds": 30}, "conversation_id": "slow"});
    let running: Vec<String> = [&slow, &looks]
        .map(|body| {
            let begun = admin.json("POST", "/v1/calls", &[("Prefer", "respond-async")], body);
            begun.is(202)["call_id"].as_str().unwrap().to_owned()
        })
        .into();
    let acknowledged = std::sync::Mutex::new(Vec::new());
    let mut seen: Vec<Sent> = Vec::new();
    let mut server = Some(server);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (admin, acknowledged) = (&admin, &acknowledged);
            scope.spawn(move || {
                let tool = if worker % 2 == 0 { "write_note" } else { "echo" };
                let call = json!({"tool": tool, "arguments": {"message": "x"}});
                while let Some(result) = admin.try_post("/v1/calls", &call) {
                    let id = result["call_id"].as_str().unwrap().to_owned();
                    acknowledged.lock().unwrap().push((tool, id));
                }
            });
        }
        while seen.iter().filter(|event| event.name == "execution_completed").count() < 40 {
            seen.push(live.next().unwrap());
        }
        server.as_mut().unwrap().kill();
    });
    drop(live);
    let server = server.take().unwrap().kill_and_start();
    let client = server.client(&key);
    let acknowledged = acknowledged.into_inner().unwrap();
    let last = seen.iter().filter_map(|event| event.id).next_back();
    let mut back = client.follow("/v1/events", last);
    let marker = echo(&client, "marker", "the last one");
    let mut gaps = 0;
    loop {
        let event = back.next().unwrap();
        gaps += usize::from(event.name == "gap");
        let is_last =
            event.name == "execution_completed" && event.data["call_id"] == marker.as_str();
        seen.push(event);
        if is_last {
            break;
        }
    }
    let of = |name: &str| -> Vec<String> {
        let all = seen.iter().filter(|event| event.name == name);
        all.map(|event| event.data["call_id"].as_str().unwrap().to_owned()).collect()
    };
    let ends = [of("execution_completed"), of("execution_failed")].concat();
    for begun in of("execution_started").iter().chain(&running) {
        let count = ends.iter().filter(|end| *end == begun).count();
        assert_eq!(count, 1, "the end of {begun}");
    }
    let failed = of("execution_failed");
    assert!(running.iter().all(|call| failed.contains(call)), "those that ran: {failed:?}");
    assert!(failed.len() <= running.len() + 4, "and one of each worker: {failed:?}");
    assert!(acknowledged.len() > 20);
    for (tool, call) in acknowledged {
        // What has an effect is recorded before it is acknowledged.
        assert!(ends.contains(&call) || tool == "echo", "the end of {call}");
    }
    assert_eq!(gaps, 1, "what left no trace is not known");
    // Whoever reads only a part of it is told as well.
    let mut part = client.follow("/v1/events?conversation_id=slow", last);
    assert_eq!(names(&part.up_to("gap")).last(), Some(&"gap"));
}

#[test]
fn a_reader_that_was_away_for_long_is_told_of_a_gap() {
    let server = Server::with("server: {events_linger: 500ms}\n", &[]);
    let (ours, theirs) = (server.key("ours", "operator"), server.key("theirs", "operator"));
    let mut first = ours.follow("/v1/events", None);
    echo(&ours, "c", "kept");
    let last = first.up_to("execution_completed").last().unwrap().id.unwrap();
    drop(first);
    echo(&ours, "c", "kept, too");
    std::thread::sleep(Duration::from_millis(1500));
    let lost = echo(&ours, "c", "lost");
    // Whoever else listens does not keep what is ours.
    let mut other = theirs.follow("/v1/events", None);
    echo(&theirs, "c", "theirs");
    other.up_to("execution_completed");
    let mut back = ours.follow("/v1/events", Some(last));
    let seen = back.up_to("gap");
    let kept = names(&seen);
    assert_eq!(kept, ["execution_started", "execution_completed", "gap"], "{seen:?}");
    let gap = &seen[2].data;
    let after = seen[1].id.unwrap();
    assert_eq!(gap["after"], format!("{after:016x}"), "{gap}");
    assert_ne!(gap["kept_from"], gap["after"], "{gap}");
    let now = echo(&ours, "c", "now");
    let rest = back.up_to("execution_completed");
    assert_eq!(rest.last().unwrap().data["call_id"], now.as_str());
    assert!(rest.iter().all(|event| event.data["call_id"] != lost.as_str()));
    // It has been told, and misses nothing from then on.
    let mut again = ours.follow("/v1/events", rest[0].id);
    assert_eq!(names(&again.up_to("execution_completed")), ["execution_completed"]);
    // From the very beginning there is not everything, either.
    let mut all = ours.follow("/v1/events", Some(0));
    assert!(names(&all.up_to("gap")).contains(&"gap"));
}

#[test]
fn a_noisy_tenant_deletes_only_its_own_events_and_only_its_readers_hear_of_a_gap() {
    for database in ["", "database: ':memory:'\n"] {
        let server = Server::with(&format!("{database}records: {{keep_events: 60}}\n"), &[]);
        let (quiet, noisy) = (server.key("quiet", "operator"), server.key("noisy", "operator"));
        let first = |client: &Client| {
            let mut reader = client.follow("/v1/events", None);
            echo(client, "c", "first");
            reader.up_to("execution_completed").last().unwrap().id
        };
        let (of_quiet, of_noisy) = (first(&quiet), first(&noisy));
        let missed: Vec<String> = (0..5).map(|_| echo(&quiet, "c", "missed")).collect();
        (0..100).for_each(|_| drop(echo(&noisy, "c", "noise")));
        until("its oldest are deleted", || {
            let seen = noisy.follow("/v1/events", of_noisy).next().unwrap();
            (seen.name == "gap").then_some(())
        });
        let mut back = quiet.follow("/v1/events", of_quiet);
        for call in &missed {
            let seen = back.up_to("execution_completed");
            assert_eq!(names(&seen), ["execution_started", "execution_completed"]);
            assert_eq!(seen[1].data["call_id"], call.as_str());
        }
        // Of the noisy one, the newest are left.
        let last = echo(&noisy, "c", "last");
        let mut rest = noisy.follow("/v1/events", of_noisy);
        assert_eq!(rest.next().unwrap().name, "gap");
        let mut left = 0;
        while rest.up_to("execution_completed").last().unwrap().data["call_id"] != last.as_str() {
            left += 1;
        }
        assert!((10..30).contains(&left), "{left}");
    }
}

#[test]
fn a_key_that_stops_working_stops_reading() {
    let server = Server::start();
    let make = |more: Value| {
        let mut body = json!({"name": "short", "role": "caller"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.admin().post("/v1/keys", &body).is(201)
    };
    let (revoked, expiring) = (make(json!({})), make(json!({"expires_in": "2s"})));
    let client = |key: &Value| server.client(key["secret"].as_str().unwrap());
    let wait = json!({"tool": "wait", "arguments": {"seconds": 60}});
    let mut call = client(&revoked).stream("/v1/calls", &wait);
    call.up_to("started");
    let streams = [&revoked, &expiring].map(|key| client(key).follow("/v1/events", None));
    let stays = server.admin().follow("/v1/events", None);
    let id = revoked["key"]["id"].as_str().unwrap();
    server.admin().delete(&format!("/v1/keys/{id}")).is(200);
    let start = Instant::now();
    for stream in streams.into_iter().chain([call]) {
        let rest = stream.rest();
        let last = rest.last().unwrap();
        assert_eq!(last.name, "end", "{rest:?}");
        assert_eq!(last.data["reason"], "the key was revoked or has expired");
    }
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    let mut stays = stays;
    let after = echo(&server.admin(), "c", "after");
    while stays.up_to("execution_completed").last().unwrap().data["call_id"] != after.as_str() {}
}

#[test]
fn a_reader_that_reads_nothing_holds_nobody_up() {
    let server = Server::start();
    let client = server.admin();
    let lazy: Vec<_> = (0..4).map(|_| client.begin("GET", "/v1/events", &[], b"")).collect();
    let mut eager = client.follow("/v1/events", None);
    let text = "x".repeat(60_000);
    let start = Instant::now();
    let calls: Vec<Value> =
        (0..50).map(|_| json!({"tool": "echo", "arguments": {"message": text}})).collect();
    for _ in 0..8 {
        let results = client.post("/v1/batches", &json!({"calls": calls})).is(200);
        assert_eq!(results["results"].as_array().unwrap().len(), 50);
    }
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    let mut completed = 0;
    let mut ids = Vec::new();
    while completed < 400 {
        let event = eager.next().unwrap();
        ids.push(event.id.unwrap());
        completed += usize::from(event.name == "execution_completed");
    }
    assert!(all_differ(&ids), "nothing comes twice");
    drop(lazy);
    client.get("/v1/stats").is(200);
}

#[test]
fn a_reader_that_takes_nothing_for_long_is_cut_off_and_can_come_back() {
    let server = Server::with("server: {reader_timeout: 1s}", &[]);
    let client = server.admin();
    let narrow = connect_narrow(server.address);
    let stream = client.begin_on(narrow, "GET", "/v1/events", &[], b"");
    let mut lazy = Events::new(stream, "GET", "/v1/events");
    let name = "x".repeat(200);
    let call = json!({
        "tool": "echo", "arguments": {"message": ""}, "caller_id": name, "conversation_id": name,
    });
    // More than the connection itself can hold, and no more at once than is kept.
    for _ in 0..60 {
        client.post("/v1/batches", &json!({"calls": vec![call.clone(); 50]})).is(200);
        std::thread::sleep(Duration::from_millis(40));
    }
    std::thread::sleep(Duration::from_secs(3));
    let end = echo(&client, "end", "end");
    // It still gets what was on its way, and then an end instead of the rest.
    let mut seen: Vec<Sent> = Vec::new();
    while let Some(event) = lazy.next() {
        seen.push(event);
    }
    assert!(seen.iter().all(|event| event.data["call_id"] != end.as_str()), "it was not cut");
    // When it comes back, it gets the rest, and nothing twice.
    let last = seen.iter().filter_map(|event| event.id).next_back();
    let mut again = client.follow("/v1/events", last);
    loop {
        let event = again.next().unwrap();
        let is_last = event.name == "execution_completed" && event.data["call_id"] == end.as_str();
        seen.push(event);
        if is_last {
            break;
        }
    }
    let ids: Vec<u64> = seen.iter().filter_map(|event| event.id).collect();
    assert!(all_differ(&ids));
    let completed = seen.iter().filter(|event| event.name == "execution_completed").count();
    let missed = seen.iter().any(|event| event.name == "missed");
    assert!(completed == 3001 || missed, "{completed} of 3001");
}

#[cfg(unix)]
#[test]
fn the_last_event_of_a_server_that_ends_says_so() {
    let mut server = Server::start();
    let client = server.admin();
    let mut stream = client.follow("/v1/events", None);
    echo(&client, "c", "x");
    stream.up_to("execution_completed");
    server.terminate();
    let rest = stream.rest();
    assert_eq!(rest.last().unwrap().name, "end", "{rest:?}");
}

#[test]
fn following_needs_a_key_that_is_not_in_the_address() {
    let server = Server::start();
    let key = server.admin().key.unwrap();
    let nobody = server.nobody();
    for query in [format!("key={key}"), format!("api_key={key}"), format!("access_token={key}")] {
        let mut stream = nobody.begin("GET", &format!("/v1/events?{query}"), &[], b"");
        let answer = Answer::read(&mut stream);
        assert_eq!(answer.status, 401, "{query}: {answer}");
    }
}

#[test]
fn ids_of_events_tell_nothing_of_other_tenants() {
    let server = Server::start();
    let (ours, theirs) = (server.key("ours", "operator"), server.key("theirs", "operator"));
    let (mut stream, mut other) =
        (ours.follow("/v1/events", None), theirs.follow("/v1/events", None));
    let mut ids = Vec::new();
    for round in 0..8 {
        echo(&ours, "c", "ours");
        ids.extend(stream.up_to("execution_completed").iter().map(|event| event.id.unwrap()));
        (0..round).for_each(|_| drop(echo(&theirs, "c", "theirs")));
    }
    let theirs_first = other.up_to("execution_completed")[0].id.unwrap();
    // Neither how far they are apart nor which is the larger has anything to do with
    // what happened in between.
    assert!(all_differ(&ids) && !ids.is_sorted(), "{ids:?}");
    let nearest = ids.windows(2).map(|pair| pair[0].abs_diff(pair[1])).min().unwrap();
    assert!(nearest > 1 << 20, "{ids:?}");
    // An id of another tenant leads nowhere.
    let mut lost = ours.follow("/v1/events", Some(theirs_first));
    assert_eq!(lost.next().unwrap().name, "gap");
    // A number that counts is no id.
    for wrong in ["17", "00000000000000011", "x", "-1"] {
        let path = format!("/v1/events?last_event_id={wrong}");
        ours.get(&path).problem(400, "invalid_request");
        let header = [("Last-Event-ID", wrong)];
        ours.send("GET", "/v1/events", &header, b"").problem(400, "invalid_request");
    }
}
