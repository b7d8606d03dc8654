//! A recorded trace of a coding agent, replayed on a paused clock: 1,136 calls with their
//! real durations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use needs_shared::needs_shared;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use windlass::{Batch, Behaviour, CallRequest, Engine, ToolBuilder};

/// One recorded call.
struct Recorded {
    tool: String,
    file: Option<String>,
    took: Duration,
}

/// Messages, in order, with their calls.
fn messages() -> Vec<Vec<Recorded>> {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpora/traces/claude-code.jsonl");
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut messages: Vec<(String, Vec<Recorded>)> = Vec::new();
    for line in text.lines() {
        let call: Value = serde_json::from_str(line).unwrap();
        let at = |key: &str| call[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let took = at("t_result").duration_since(at("t_use"));
        let recorded = Recorded {
            tool: call["name"].as_str().unwrap().to_owned(),
            file: call["input"]["file_path"].as_str().map(str::to_owned),
            took: took.try_into().unwrap_or_default(),
        };
        let message = format!("{} {}", call["session"], call["msg"]);
        match messages.last_mut() {
            Some((last, calls)) if *last == message => calls.push(recorded),
            _ => messages.push((message, vec![recorded])),
        }
    }
    messages.into_iter().map(|(_, calls)| calls).collect()
}

/// What a call did: its place in its message, what it wrote, when.
type Effect = (u64, Option<String>, Instant, Instant);

fn reads() -> Behaviour {
    Behaviour { read_only: true, ..Behaviour::default() }
}

/// The tools of the trace. Looking is safe, edits write a file, the rest may do
/// anything.
fn engine(effects: &Arc<Mutex<Vec<Effect>>>) -> Engine {
    let tool = |name: &str| {
        let effects = Arc::clone(effects);
        ToolBuilder::from_fn(name, move |arguments: Value| {
            let effects = Arc::clone(&effects);
            async move {
                let began = Instant::now();
                sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap())).await;
                let place = arguments["place"].as_u64().unwrap();
                let file = arguments["file_path"].as_str().map(str::to_owned);
                effects.lock().push((place, file, began, Instant::now()));
                "done"
            }
        })
    };
    let looking = ["Read", "Glob", "Grep", "WebFetch", "WebSearch", "TaskOutput"];
    let editing = ["Edit", "Write"];
    let others = ["Bash", "Task", "AskUserQuestion", "ExitPlanMode", "EnterPlanMode", "Skill"];
    let mut builder =
        Engine::builder().settings(|settings| settings.default_timeout = windlass::duration::MAX);
    for name in looking {
        builder = builder.tool(tool(name).behaviour(reads()));
    }
    for name in editing {
        builder = builder.tool(tool(name).writes("file:{file_path}"));
    }
    for name in others {
        builder = builder.tool(tool(name));
    }
    builder.build().unwrap()
}

#[needs_shared]
#[tokio::test(start_paused = true)]
async fn a_real_trace_keeps_its_order_and_gains_time() {
    let messages = messages();
    let effects = Arc::<Mutex<Vec<Effect>>>::default();
    let engine = engine(&effects);
    let (mut calls, mut serial, mut together) = (0, Duration::ZERO, Duration::ZERO);
    let start = Instant::now();
    for message in &messages {
        calls += message.len();
        serial += message.iter().map(|call| call.took).sum::<Duration>();
        together += message.iter().map(|call| call.took).max().unwrap_or_default();
        let requests = message.iter().enumerate().map(|(place, call)| {
            let ms = call.took.as_millis() as u64;
            let arguments = json!({"ms": ms, "place": place, "file_path": call.file});
            CallRequest::new(call.tool.as_str(), arguments)
        });
        let results = engine.call_batch(Batch::new(requests)).await;
        assert_eq!(results.len(), message.len());
        assert!(results.iter().all(windlass::CallResult::is_success));
        check_order(message, &std::mem::take(&mut *effects.lock()));
    }
    let took = start.elapsed();
    assert_eq!(calls, 1136);
    println!(
        "{calls} calls in {} messages: {serial:.0?} one by one, {took:.0?} planned, \
         {together:.0?} all at once",
        messages.len()
    );
    // Most messages have one call, so there is little to gain; none is lost.
    assert!(took < serial && took >= together, "{together:?} {took:?} {serial:?}");
}

/// Whatever may change something happens in the order of the calls.
fn check_order(message: &[Recorded], effects: &[Effect]) {
    let by_place: BTreeMap<u64, &Effect> =
        effects.iter().map(|effect| (effect.0, effect)).collect();
    assert_eq!(by_place.len(), message.len());
    let looks = |call: &Recorded| {
        ["Read", "Glob", "Grep", "WebFetch", "WebSearch", "TaskOutput"]
            .contains(&call.tool.as_str())
    };
    let edits = |call: &Recorded| ["Edit", "Write"].contains(&call.tool.as_str());
    for (later, own) in message.iter().enumerate() {
        for (earlier, before) in message[..later].iter().enumerate() {
            let free = looks(own) && looks(before)
                || edits(own) && edits(before) && own.file != before.file;
            if !free {
                let (first, second) = (by_place[&(earlier as u64)], by_place[&(later as u64)]);
                assert!(first.3 <= second.2, "{} before {}", own.tool, before.tool);
            }
        }
    }
}
