//! Truncated messages and malformed calls.

use serde_json::{Value, json};
use windlass::{Context, Lang, Turn, TurnAnswer, TurnFormat};

use super::{Log, answer, engine};

/// What came of a stream that is fed in one piece, and what its tools were
/// called with.
async fn streamed(events: &[Value]) -> (TurnAnswer, Vec<Value>) {
    let log = Log::default();
    let mut turn = engine(&log).open_turn(None, Context::default(), Lang::En);
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    turn.feed(text.as_bytes()).unwrap();
    let answer = turn.finish().await;
    let ran = log.lock().clone();
    (answer, ran)
}

/// An Anthropic stream of these blocks.
fn anthropic(blocks: &[(Value, Option<&str>)], stop_reason: &str) -> Vec<Value> {
    let mut events = vec![json!({"type": "message_start", "message": {}})];
    for (at, (block, written)) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": at, "content_block": block}));
        if let Some(written) = written {
            let delta = json!({"type": "input_json_delta", "partial_json": written});
            events.push(json!({"type": "content_block_delta", "index": at, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": at}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn use_tool(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "save_thing", "input": {}})
}

fn succeeded(answer: &TurnAnswer) -> Vec<bool> {
    answer.results.iter().map(windlass::CallResult::is_success).collect()
}

#[tokio::test]
async fn a_call_that_a_stream_was_cut_at_does_not_run() {
    let calls = [(use_tool("a"), Some("")), (use_tool("b"), Some(""))];
    let (answer, ran) = streamed(&anthropic(&calls, "max_tokens")).await;
    assert_eq!((succeeded(&answer), ran), (vec![true, false], vec![json!({})]));
    let told = answer.messages[0]["content"][1]["content"][0]["text"].as_str().unwrap();
    assert!(told.contains("broke off"), "{told}");
    assert!(answer.is_whole, "the API said that this is the end");

    // Where the model went on, or says that it wanted to end, nothing is in doubt.
    let (answer, _) = streamed(&anthropic(&calls, "tool_use")).await;
    assert_eq!(succeeded(&answer), [true, true]);
    let text = (json!({"type": "text", "text": "and"}), None);
    let went_on = [calls[0].clone(), text];
    assert_eq!(succeeded(&streamed(&anthropic(&went_on, "max_tokens")).await.0), [true]);
    let complete = [(use_tool("a"), Some("{\"x\": 1}"))];
    assert_eq!(succeeded(&streamed(&anthropic(&complete, "max_tokens")).await.0), [true]);
    // Without any end, nobody knows.
    let open = &anthropic(&calls, "tool_use")[..7];
    assert_eq!(succeeded(&streamed(open).await.0), [true, false]);
}

#[tokio::test]
async fn other_streams_are_cut_as_well() {
    let call = json!({"index": 0, "id": "a", "function": {"name": "save_thing", "arguments": ""}});
    let chat = |reason: &str| {
        [
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": ""}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
        ]
    };
    let item = json!({"type": "function_call", "call_id": "a", "name": "save_thing",
                      "arguments": ""});
    let responses = |end: &str| {
        [
            json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            json!({"type": end, "response": {}}),
        ]
    };
    let part = json!({"functionCall": {"name": "save_thing", "args": {}}});
    let gemini = |reason: &str| {
        [
            json!({"candidates": [{"content": {"parts": [part]}}]}),
            json!({"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": reason}]}),
        ]
    };
    for (events, runs) in [
        (chat("tool_calls").to_vec(), true),
        (chat("length").to_vec(), false),
        (responses("response.completed").to_vec(), true),
        (responses("response.incomplete").to_vec(), false),
        (gemini("STOP").to_vec(), true),
        (gemini("MAX_TOKENS").to_vec(), false),
    ] {
        let (answer, ran) = streamed(&events).await;
        assert_eq!((succeeded(&answer), ran.len()), (vec![runs], usize::from(runs)), "{events:?}");
        assert!(answer.is_whole, "{events:?}");
    }
}

#[tokio::test]
async fn a_call_that_a_whole_message_was_cut_at_does_not_run() {
    let anthropic = |reason: &str, input: Value| {
        let block = json!({"type": "tool_use", "id": "a", "name": "save_thing", "input": input});
        json!({"role": "assistant", "stop_reason": reason, "content": [block]})
    };
    let chat = |reason: &str, arguments: &str| {
        let function = json!({"name": "save_thing", "arguments": arguments});
        let call = json!({"id": "a", "type": "function", "function": function});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        json!({"choices": [{"index": 0, "finish_reason": reason, "message": message}]})
    };
    let responses = |status: &str, own: &str| {
        let item = json!({"type": "function_call", "call_id": "a", "name": "save_thing",
                          "arguments": "", "status": own});
        json!({"object": "response", "status": status, "output": [item]})
    };
    let gemini = |key: &str, reason: &str| {
        let content = json!({"parts": [{"functionCall": {"name": "save_thing"}}]});
        json!({"candidates": [{"content": content, key: reason}]})
    };
    for (message, runs) in [
        (anthropic("tool_use", json!({})), true),
        (anthropic("max_tokens", json!({})), false),
        (anthropic("max_tokens", json!({"x": 1})), true),
        (chat("tool_calls", ""), true),
        (chat("length", ""), false),
        // It could be repaired, but nobody knows what is missing.
        (chat("length", "{\"x\": [1]"), false),
        (chat("length", "{\"x\": 1}"), true),
        (responses("completed", "completed"), true),
        (responses("incomplete", "completed"), false),
        (responses("completed", "incomplete"), false),
        (gemini("finishReason", "STOP"), true),
        (gemini("finishReason", "MAX_TOKENS"), false),
        (gemini("finish_reason", "MAX_TOKENS"), false),
    ] {
        let log = Log::default();
        let turn = Turn::read(message.clone()).unwrap();
        assert_eq!(turn.calls()[0].is_broken(), !runs, "{message}");
        let answer = engine(&log).turn(turn, Context::default(), Lang::Zh).await;
        assert_eq!((succeeded(&answer), log.lock().len()), (vec![runs], usize::from(runs)));
        if !runs {
            let told = answer.results[0].to_text(Lang::Zh);
            assert!(told.contains("中断"), "{told}");
        }
    }
}

#[tokio::test]
async fn what_came_before_an_event_that_is_none_counts() {
    let log = Log::default();
    let mut turn = engine(&log).open_turn(None, Context::default(), Lang::En);
    let mut text: String = anthropic(&[(use_tool("a"), Some("{\"x\": 1}"))], "tool_use")[..4]
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    text.push_str("data: {oh\n\n");
    let error = turn.feed(text.as_bytes()).unwrap_err();
    assert!(error.message().contains("not JSON"), "{error:?}");
    let answer = turn.finish().await;
    assert_eq!((succeeded(&answer), answer.is_whole), (vec![true], false));
    assert_eq!(answer.messages[0]["content"][0]["tool_use_id"], "a");
    assert_eq!(*log.lock(), [json!({"x": 1})]);
}

#[tokio::test]
async fn a_block_that_nothing_ends_ends_with_the_message() {
    let mut events = anthropic(&[(use_tool("a"), Some("{\"x\": 1}"))], "tool_use");
    events.retain(|event| event["type"] != "content_block_stop");
    let (answer, ran) = streamed(&events).await;
    assert_eq!((succeeded(&answer), ran), (vec![true], vec![json!({"x": 1})]));
    let kept = json!({"type": "tool_use", "id": "a", "name": "save_thing", "input": {"x": 1}});
    assert_eq!(answer.assistant.unwrap()["content"], json!([kept]));
}

#[tokio::test]
async fn what_an_api_would_refuse_of_a_message_is_put_right() {
    let answer = answer(json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "a", "name": "get_thing", "input": "{\"x\": 1}"},
        {"type": "tool_use", "id": "b", "name": "get_thing", "input": null},
        {"type": "tool_use", "id": "c", "input": {}},
        {"type": "tool_use", "id": "d", "name": "no such!", "input": [1]},
    ]}))
    .await;
    assert_eq!(
        answer.assistant.unwrap()["content"],
        json!([
            {"type": "tool_use", "id": "a", "name": "get_thing", "input": {"x": 1}},
            {"type": "tool_use", "id": "b", "name": "get_thing", "input": {}},
            {"type": "tool_use", "id": "c", "name": "unknown", "input": {}},
            {"type": "tool_use", "id": "d", "name": "no_such_", "input": {}},
        ])
    );
}

#[tokio::test]
async fn calls_of_openai_that_are_none_are_put_right() {
    let answer = answer(json!({"role": "assistant", "content": null, "tool_calls": [
        null,
        "call",
        {"id": "a", "function": {"name": "get_thing", "arguments": {"x": 1}}},
        {"id": "b", "type": "function", "function": {"name": "get_thing", "arguments": "{\"x"}},
        {"id": "c", "type": "function"},
        {"id": "d", "type": "custom", "custom": {"name": "get_thing", "input": "ls"}},
    ]}))
    .await;
    assert_eq!(answer.messages.len(), 6);
    let kept = answer.assistant.unwrap()["tool_calls"].take();
    let function = |at: usize, name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        assert_eq!((&kept[at]["type"], &kept[at]["function"]), (&json!("function"), &function));
        assert_eq!(kept[at]["id"], answer.messages[at]["tool_call_id"]);
    };
    function(0, "unknown", "{}");
    function(1, "unknown", "{}");
    function(2, "get_thing", "{\"x\":1}");
    function(3, "get_thing", "{}");
    function(4, "unknown", "{}");
    assert_eq!(kept[5]["custom"], json!({"name": "get_thing", "input": "ls"}));
    let fine = json!({"role": "assistant", "content": null, "tool_calls": [kept[2]]});
    assert_eq!(super::answer(fine).await.assistant, None);
}

#[test]
fn items_and_parts_are_put_right() {
    let item = json!({"type": "function_call", "call_id": "a", "arguments": {"x": 1}});
    let turn = Turn::read_as(TurnFormat::Responses, json!([item])).unwrap();
    assert_eq!(
        turn.message()[0],
        json!({"type": "function_call", "call_id": "a", "name": "unknown",
               "arguments": "{\"x\":1}"})
    );
    let part = json!({"functionCall": {"name": "get_thing", "args": "{\"x\": 1}"}});
    let turn = Turn::read_as(TurnFormat::Gemini, json!({"parts": [part]})).unwrap();
    assert_eq!(turn.message()["parts"][0]["functionCall"]["args"], json!({"x": 1}));
}
