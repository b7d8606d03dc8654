//! Events of a batch under the names that front ends expect (S4).

use std::sync::mpsc;
use std::time::Duration;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::{
    CallRequest, Content, Emitter, Engine, JsonSchema, Kind, QueueEvent, Subscription, ToolBuilder,
    tool,
};

/// Looks something up.
#[tool(read_only)]
async fn get_stock(ms: u64) -> u64 {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    ms
}

/// Changes something.
#[tool]
async fn save_order(ms: u64) -> &'static str {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    "saved"
}

/// Fails after a while.
#[tool(read_only)]
async fn get_broken(ms: u64) -> Result<(), &'static str> {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Err("the shelf is empty")
}

#[derive(Deserialize, JsonSchema)]
struct Mood {
    #[serde(default)]
    fail: bool,
}

/// An agent of two turns.
#[tool(read_only)]
async fn invoke_policy_expert(ms: u64, mood: Mood, emitter: Emitter) -> Result<String, String> {
    emitter.emit("thinking"); // not a turn
    for turn in 1..=2 {
        emitter.emit(Content::json(json!({"turn": turn, "maxTurns": 3})));
        tokio::time::sleep(Duration::from_millis(ms / 2)).await;
    }
    if mood.fail { Err("the model is gone".to_owned()) } else { Ok("advice".to_owned()) }
}

fn engine() -> Engine {
    Engine::builder()
        .tool(get_stock::tool())
        .tool(save_order::tool())
        .tool(get_broken::tool())
        .tool(invoke_policy_expert::tool().with(|tool| tool.kind = Kind::Agent))
        .build()
        .unwrap()
}

fn call(tool: &str, ms: u64) -> CallRequest {
    CallRequest::new(tool, json!({"ms": ms, "mood": {}}))
}

fn failing_agent(ms: u64) -> CallRequest {
    CallRequest::new("invoke_policy_expert", json!({"ms": ms, "mood": {"fail": true}}))
}

/// The events until a batch is drained. The runtime's timer rounds up, so
/// durations are given in tens of milliseconds.
async fn drained(events: &mut Subscription) -> Vec<Value> {
    let mut seen = Vec::new();
    while seen.last().is_none_or(|event: &Value| event["type"] != "queue_drained") {
        for event in events.next().await.unwrap().to_queue_events() {
            let mut event = serde_json::to_value(event).unwrap();
            if let Some(ms) = event.get("durationMs").and_then(Value::as_u64) {
                event["durationMs"] = (ms / 10 * 10).into();
            }
            seen.push(event);
        }
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_batch_as_the_document_tells_it() {
    let engine = engine();
    let mut events = engine.events();
    engine
        .call_batch([
            call("get_stock", 100).call_ref("a"),
            call("invoke_policy_expert", 200).call_ref("b"),
            call("get_nothing", 0).call_ref("c"),
            call("save_order", 50).call_ref("d"),
            failing_agent(20).call_ref("e"),
            call("get_broken", 40).call_ref("f"),
            call("get_stock", 9000).timeout(Duration::from_millis(60)).call_ref("g"),
            call("invoke_policy_expert", 9000).timeout(Duration::from_millis(80)).call_ref("h"),
            CallRequest::new("invoke_policy_expert", json!({"ms": 1})).call_ref("i"),
        ])
        .await;
    let refused = "/mood: expected a required value, got nothing";
    let seen = drained(&mut events).await;
    let expert = "policy_expert";
    let expert_tool = "invoke_policy_expert";
    let expected = json!([
        {"type": "tool_queued", "toolName": "get_stock", "toolUseId": "a", "position": 0},
        {"type": "tool_queued", "toolName": expert_tool, "toolUseId": "b", "position": 1},
        {"type": "tool_queued", "toolName": "get_nothing", "toolUseId": "c", "position": 2},
        {"type": "tool_queued", "toolName": "save_order", "toolUseId": "d", "position": 3},
        {"type": "tool_queued", "toolName": expert_tool, "toolUseId": "e", "position": 4},
        {"type": "tool_queued", "toolName": "get_broken", "toolUseId": "f", "position": 5},
        {"type": "tool_queued", "toolName": "get_stock", "toolUseId": "g", "position": 6},
        {"type": "tool_queued", "toolName": expert_tool, "toolUseId": "h", "position": 7},
        {"type": "tool_queued", "toolName": expert_tool, "toolUseId": "i", "position": 8},
        // The calls that look, together.
        {"type": "tool_started", "toolName": "get_stock", "toolUseId": "a"},
        {"type": "agent_started", "agentName": expert, "toolUseId": "b"},
        {"type": "tool_started", "toolName": expert_tool, "toolUseId": "b"},
        {"type": "agent_progress", "agentName": expert, "toolUseId": "b", "turn": 1, "maxTurns": 3},
        {"type": "tool_error", "toolName": "get_nothing", "toolUseId": "c",
         "error": "Unknown tool: get_nothing"},
        {"type": "tool_completed", "toolName": "get_stock", "toolUseId": "a",
         "durationMs": 100, "success": true},
        {"type": "agent_progress", "agentName": expert, "toolUseId": "b", "turn": 2, "maxTurns": 3},
        {"type": "tool_completed", "toolName": expert_tool, "toolUseId": "b",
         "durationMs": 200, "success": true},
        {"type": "agent_completed", "agentName": expert, "toolUseId": "b",
         "durationMs": 200, "success": true},
        // The call that changes something, alone.
        {"type": "tool_started", "toolName": "save_order", "toolUseId": "d"},
        {"type": "tool_completed", "toolName": "save_order", "toolUseId": "d",
         "durationMs": 50, "success": true},
        // And the rest, each failing in its own way.
        {"type": "agent_started", "agentName": expert, "toolUseId": "e"},
        {"type": "tool_started", "toolName": expert_tool, "toolUseId": "e"},
        {"type": "agent_progress", "agentName": expert, "toolUseId": "e", "turn": 1, "maxTurns": 3},
        {"type": "tool_started", "toolName": "get_broken", "toolUseId": "f"},
        {"type": "tool_started", "toolName": "get_stock", "toolUseId": "g"},
        {"type": "agent_started", "agentName": expert, "toolUseId": "h"},
        {"type": "tool_started", "toolName": expert_tool, "toolUseId": "h"},
        {"type": "agent_progress", "agentName": expert, "toolUseId": "h", "turn": 1, "maxTurns": 3},
        {"type": "tool_error", "toolName": expert_tool, "toolUseId": "i", "error": refused},
        {"type": "agent_progress", "agentName": expert, "toolUseId": "e", "turn": 2, "maxTurns": 3},
        {"type": "tool_completed", "toolName": expert_tool, "toolUseId": "e",
         "durationMs": 20, "success": false},
        {"type": "agent_completed", "agentName": expert, "toolUseId": "e",
         "durationMs": 20, "success": false},
        {"type": "tool_error", "toolName": "get_broken", "toolUseId": "f",
         "error": "the shelf is empty"},
        {"type": "tool_error", "toolName": "get_stock", "toolUseId": "g",
         "error": "Tool get_stock timed out after 60ms"},
        {"type": "tool_error", "toolName": expert_tool, "toolUseId": "h",
         "error": "Tool invoke_policy_expert timed out after 80ms"},
        {"type": "agent_completed", "agentName": expert, "toolUseId": "h",
         "durationMs": 80, "success": false},
        {"type": "queue_drained"},
    ]);
    let lines = |events: &[Value]| events.iter().map(Value::to_string).collect::<Vec<_>>();
    assert_eq!(lines(&seen), lines(expected.as_array().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_tells_nothing() {
    let engine = engine();
    let mut events = engine.events();
    engine.call_batch([]).await;
    engine.call_batch([call("get_stock", 1)]).await;
    assert_eq!(drained(&mut events).await[0]["type"], "tool_queued");
}

/// What runs a tool tells whether it is an agent; its name does not.
#[tokio::test(start_paused = true)]
async fn an_agent_is_known_by_its_kind() {
    let answer = |_: Value| async { "done" };
    let agent = |tool: &mut windlass::ToolSpec| tool.kind = Kind::Agent;
    let engine = Engine::builder()
        .tool(ToolBuilder::from_fn("invoke_lambda", answer))
        .tool(ToolBuilder::from_fn("strategist", answer).with(agent))
        .build()
        .unwrap();
    let mut events = engine.events();
    let calls = ["invoke_lambda", "strategist"].map(|tool| CallRequest::new(tool, json!({})));
    engine.call_batch(calls).await;
    let seen = drained(&mut events).await;
    let of_agents: Vec<(&str, &str)> = seen
        .iter()
        .filter_map(|event| Some((event["type"].as_str()?, event["agentName"].as_str()?)))
        .collect();
    assert_eq!(of_agents, [("agent_started", "strategist"), ("agent_completed", "strategist")]);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_reference_has_its_own_id() {
    let engine = engine();
    let mut events = engine.events();
    let results = engine.call_batch([call("get_stock", 1)]).await;
    for event in drained(&mut events).await.iter().take(3) {
        assert_eq!(event["toolUseId"], results[0].id.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_got_a_slot_neither_starts_nor_ends() {
    let engine = engine();
    let mut limits = engine.limits();
    limits.max_concurrent = 1;
    engine.set_limits(limits);
    let mut events = engine.events();
    let waits = call("invoke_policy_expert", 10).timeout(Duration::from_millis(50));
    engine.call_batch([call("get_stock", 100).call_ref("a"), waits.call_ref("b")]).await;
    let of_b: Vec<Value> = drained(&mut events)
        .await
        .into_iter()
        .filter(|event| event["toolUseId"] == "b")
        .map(|event| event["type"].clone())
        .collect();
    assert_eq!(of_b, ["tool_queued", "tool_error"]);
}

#[tokio::test]
async fn a_listener_that_panics_harms_neither_the_batch_nor_the_others() {
    let engine = engine();
    engine.subscribe(|event| panic!("{:?}", event.to_queue_events())).unwrap();
    let (send, receive) = mpsc::channel::<QueueEvent>();
    engine
        .subscribe(move |event| {
            event.to_queue_events().into_iter().for_each(|event| send.send(event).unwrap());
        })
        .unwrap();
    let results = engine.call_batch([call("get_stock", 1), call("save_order", 1)]).await;
    assert!(results.iter().all(windlass::CallResult::is_success));
    let heard: Vec<QueueEvent> =
        (0..7).map(|_| receive.recv_timeout(Duration::from_secs(10)).unwrap()).collect();
    assert_eq!(heard[6], QueueEvent::QueueDrained);
}

const TOOLS: [&str; 5] =
    ["get_stock", "save_order", "get_broken", "invoke_policy_expert", "no_such_tool"];

/// A call of a tool that succeeds, fails, is stopped or is refused.
fn any_call(tool: usize, ms: u64, fate: u8) -> CallRequest {
    match fate {
        0 => call(TOOLS[tool], ms),
        1 => failing_agent(ms),
        2 => call(TOOLS[tool], ms + 100).timeout(Duration::from_millis(50)),
        _ => CallRequest::new(TOOLS[tool], json!({"ms": "not a number"})),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For every call: queued; started, if it ran, its agent first; ended
    /// exactly once, its agent last. At the very end the queue is drained.
    #[test]
    fn the_order_holds_for_every_call(
        calls in prop::collection::vec((0..TOOLS.len(), 0u64..30, 0u8..4), 1..12)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let count = calls.len();
        let seen = runtime.block_on(async {
            let engine = engine();
            let mut events = engine.events();
            let calls = calls.into_iter().enumerate().map(|(at, (tool, ms, fate))| {
                any_call(tool, ms, fate).call_ref(at.to_string())
            });
            engine.call_batch(calls).await;
            drained(&mut events).await
        });
        for at in 0..count {
            let id = at.to_string();
            let of_call: Vec<&str> = seen
                .iter()
                .filter(|event| event["toolUseId"] == id.as_str())
                .filter_map(|event| event["type"].as_str())
                .filter(|name| *name != "agent_progress")
                .collect();
            prop_assert!(
                matches!(
                    of_call.as_slice(),
                    ["tool_queued", "tool_error"]
                        | ["tool_queued", "tool_started", "tool_completed" | "tool_error"]
                        | [
                            "tool_queued",
                            "agent_started",
                            "tool_started",
                            "tool_completed" | "tool_error",
                            "agent_completed",
                        ]
                ),
                "{of_call:?}"
            );
        }
        prop_assert_eq!(seen.iter().filter(|event| event["type"] == "queue_drained").count(), 1);
    }
}
