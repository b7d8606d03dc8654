//! Turns that are still being streamed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use windlass::{Context, Engine, ErrorKind, Lang, OpenTurn, ToolBuilder};

/// When each call began and ended.
type Spans = Arc<Mutex<Vec<(String, Duration, Duration)>>>;

fn timed(spans: &Spans) -> Engine {
    let start = Instant::now();
    let tool = |name: &'static str| {
        let spans = Arc::clone(spans);
        ToolBuilder::from_fn(name, move |arguments: Value| {
            let spans = Arc::clone(&spans);
            async move {
                let began = start.elapsed();
                sleep(Duration::from_millis(300)).await;
                let who = arguments["who"].as_str().unwrap_or_default().to_owned();
                spans.lock().push((who, began, start.elapsed()));
                "done"
            }
        })
    };
    Engine::builder().tool(tool("get_it")).tool(tool("save_it")).build().unwrap()
}

fn open(engine: &Engine) -> OpenTurn {
    engine.open_turn(None, Context::default(), Lang::En)
}

fn say(turn: &mut OpenTurn, event: &Value) {
    turn.feed(format!("data: {event}\n\n").as_bytes()).unwrap();
}

/// The events of an Anthropic stream for one call.
fn block(at: u64, id: &str, name: &str, arguments: &str) -> Vec<Value> {
    let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let (first, second) = arguments.split_at(arguments.len() / 2);
    vec![
        json!({"type": "content_block_start", "index": at, "content_block": start}),
        json!({"type": "content_block_delta", "index": at, "delta": {"partial_json": first}}),
        json!({"type": "content_block_delta", "index": at, "delta": {"partial_json": second}}),
        json!({"type": "content_block_stop", "index": at}),
    ]
}

#[tokio::test(start_paused = true)]
async fn calls_begin_while_the_model_is_still_writing() {
    let spans = Spans::default();
    let engine = timed(&spans);
    let mut turn = open(&engine);
    let start = Instant::now();
    say(&mut turn, &json!({"type": "message_start", "message": {}}));
    for (at, who) in ["a", "b", "c"].iter().enumerate() {
        sleep(Duration::from_millis(300)).await;
        let arguments = json!({"who": who}).to_string();
        for event in block(at as u64, who, "get_it", &arguments) {
            say(&mut turn, &event);
        }
    }
    sleep(Duration::from_millis(100)).await;
    say(&mut turn, &json!({"type": "message_stop"}));
    let answer = turn.finish().await;
    // The last block came after 0.9 s, and its call takes 0.3 s.
    let took = start.elapsed();
    assert!((1200..1210).contains(&took.as_millis()), "{took:?}");
    assert!(answer.is_whole && answer.results.iter().all(windlass::CallResult::is_success));
    let began: Vec<u128> = spans.lock().iter().map(|span| span.1.as_millis() / 100).collect();
    assert_eq!(began, [3, 6, 9]);
}

#[tokio::test(start_paused = true)]
async fn the_order_of_the_plan_holds() {
    let spans = Spans::default();
    let engine = timed(&spans);
    let mut turn = open(&engine);
    let calls = [("a", "get_it"), ("b", "save_it"), ("c", "get_it"), ("d", "get_it")];
    for (at, (who, tool)) in calls.iter().enumerate() {
        for event in block(at as u64, who, tool, &json!({"who": who}).to_string()) {
            say(&mut turn, &event);
        }
        sleep(Duration::from_millis(50)).await;
    }
    let answer = turn.finish().await;
    assert!(!answer.is_whole, "nobody said that this was the end");
    let spans = spans.lock();
    let span = |who: &str| spans.iter().find(|span| span.0 == who).unwrap().clone();
    assert!(span("a").2 <= span("b").1, "{spans:?}");
    assert!(span("b").2 <= span("c").1 && span("b").2 <= span("d").1, "{spans:?}");
    assert!(span("d").1 < span("c").2, "{spans:?}");
    let ids: Vec<&str> =
        answer.results.iter().map(|result| result.call_ref.as_deref().unwrap()).collect();
    assert_eq!(ids, ["a", "b", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_off_answers_every_call() {
    let spans = Spans::default();
    let engine = timed(&spans);
    let mut turn = open(&engine);
    for event in block(0, "a", "get_it", "{\"who\": \"a\"}") {
        say(&mut turn, &event);
    }
    // Cut in the middle of the arguments, where a repair could change them.
    for event in &block(1, "b", "save_it", "{\"who\": \"b\", \"x\": 1}")[..2] {
        say(&mut turn, event);
    }
    turn.feed(b"data: {\"type\": \"content_bl").unwrap();
    let answer = turn.finish().await;
    assert!(!answer.is_whole);
    assert_eq!(answer.results.len(), 2);
    assert!(answer.results[0].is_success());
    let error = answer.results[1].error().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArguments);
    assert!(error.message().contains("broke off"), "{error:?}");
    let told = &answer.messages[0]["content"];
    assert_eq!((&told[0]["tool_use_id"], &told[1]["is_error"]), (&json!("a"), &json!(true)));
    assert_eq!(answer.assistant.unwrap()["content"][1]["id"], "b");
    assert_eq!(spans.lock().len(), 1, "the broken call did not run");
}

#[tokio::test(start_paused = true)]
async fn interleaved_deltas_of_openai_keep_the_order() {
    let spans = Spans::default();
    let engine = timed(&spans);
    let mut turn = open(&engine);
    let delta = |at: u64, id: Option<&str>, more: &str| {
        let mut call = json!({"index": at, "function": {"arguments": more}});
        if let Some(id) = id {
            call["id"] = json!(id);
            call["function"]["name"] = json!("save_it");
        }
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]})
    };
    say(&mut turn, &delta(0, Some("a"), ""));
    say(&mut turn, &delta(1, Some("b"), ""));
    say(&mut turn, &delta(1, None, "{\"who\": \"b\"}"));
    sleep(Duration::from_millis(500)).await;
    assert!(spans.lock().is_empty(), "b waits for a, which is not complete");
    say(&mut turn, &delta(0, None, "{\"who\":"));
    say(&mut turn, &delta(0, None, " \"a\"}"));
    sleep(Duration::from_millis(10)).await;
    assert_eq!(turn.calls().len(), 2, "both have been taken before the end");
    say(&mut turn, &json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}));
    turn.feed(b"data: [DONE]\n\n").unwrap();
    let answer = turn.finish().await;
    assert!(answer.is_whole);
    let order: Vec<String> = spans.lock().iter().map(|span| span.0.clone()).collect();
    assert_eq!(order, ["a", "b"]);
    assert_eq!(answer.messages.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failing_api_is_told_and_what_began_is_answered() {
    let engine = timed(&Spans::default());
    let mut turn = open(&engine);
    for event in block(0, "a", "get_it", "{}") {
        say(&mut turn, &event);
    }
    let failed = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    let error = turn.feed(format!("data: {failed}\n\n").as_bytes()).unwrap_err();
    assert!(error.message().contains("busy"), "{error:?}");
    let answer = turn.finish().await;
    assert_eq!((answer.results.len(), answer.is_whole), (1, false));
    assert!(open(&engine).feed(b"data: {\"x\": 1}\n\n").is_err());
    assert!(open(&engine).feed(b"data: nonsense\n\n").is_err());
    assert!(open(&engine).finish().await.messages.is_empty());
}

/// JSON that is made of the words of all formats, put together at random.
fn nonsense() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let words = [
        "type",
        "content",
        "tool_use",
        "id",
        "name",
        "input",
        "choices",
        "message",
        "tool_calls",
        "function",
        "arguments",
        "index",
        "delta",
        "output",
        "function_call",
        "call_id",
        "item",
        "output_index",
        "candidates",
        "parts",
        "functionCall",
        "args",
        "partialArgs",
        "willContinue",
        "jsonPath",
        "$.a",
        "stringValue",
        "custom",
        "custom_tool_call",
        "shell_call",
        "apply_patch_call",
        "content_block",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "partial_json",
        "text",
        "response.output_item.done",
        "response.output_item.added",
        "finish_reason",
        "{",
        "{}",
    ];
    let word = prop::sample::select(words.to_vec());
    let leaf = prop_oneof![
        word.clone().prop_map(|word| json!(word)),
        (0..3u64).prop_map(|n| json!(n)),
        Just(json!(null)),
        Just(json!(true)),
        Just(json!({})),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|list| json!(list)),
            prop::collection::hash_map(word.clone(), inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(500))]

    /// However odd a message or a stream is, it is refused or every call in it
    /// gets one answer.
    #[test]
    fn nonsense_is_refused_or_answered(events in proptest::collection::vec(nonsense(), 1..5)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let engine = super::engine(&super::Log::default());
            for format in windlass::TurnFormat::ALL {
                if let Ok(turn) = windlass::Turn::read_as(format, events[0].clone()) {
                    let calls = turn.calls().len();
                    let answer = engine.turn(turn, Context::default(), Lang::En).await;
                    assert_eq!(answer.results.len(), calls);
                }
                let mut turn = engine.open_turn(Some(format), Context::default(), Lang::En);
                for event in &events {
                    let _ = turn.feed_event(event.clone());
                }
                let answer = turn.finish().await;
                if let Some(kept) = answer.assistant {
                    let again = windlass::Turn::read_as(format, kept).unwrap();
                    assert_eq!(again.calls().len(), answer.results.len());
                }
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_dropped_gives_its_calls_up() {
    let spans = Spans::default();
    let engine = timed(&spans);
    let mut turn = open(&engine);
    for event in block(0, "a", "get_it", "{\"who\": \"a\"}") {
        say(&mut turn, &event);
    }
    sleep(Duration::from_millis(100)).await;
    drop(turn);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(engine.calls_under_way(), 0);
}
