//! Dialects: how servers and SDKs deviate from the formats.

use serde_json::{Value, json};
use windlass::{Context, Lang, TurnAnswer, TurnFormat};

use super::{Log, answer, engine};

/// What came of these pieces of an OpenAI stream.
async fn streamed(deltas: &[Value]) -> (TurnAnswer, Vec<Value>) {
    let log = Log::default();
    let mut turn = engine(&log).open_turn(None, Context::default(), Lang::En);
    for delta in deltas {
        let event = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
        turn.feed_event(event).unwrap();
    }
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    turn.feed_event(end).unwrap();
    let answer = turn.finish().await;
    let ran = log.lock().clone();
    (answer, ran)
}

#[tokio::test]
async fn every_call_of_one_place_is_a_call() {
    let call = |id: Value, name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]})
    };
    let (answer, ran) = streamed(&[
        call(json!(""), "get_thing", "{\"n\": 1}"),
        call(json!(""), "save_thing", "{\"n\": 2}"),
        call(json!(null), "save_thing", "{\"n\": 3}"),
    ])
    .await;
    assert_eq!(ran, [json!({"n": 1}), json!({"n": 2}), json!({"n": 3})]);
    assert_eq!(answer.messages.len(), 3);
    let kept = answer.assistant.unwrap();
    for (at, message) in answer.messages.iter().enumerate() {
        assert_eq!(kept["tool_calls"][at]["id"], message["tool_call_id"]);
    }
}

#[tokio::test]
async fn what_thinking_models_want_back_is_kept() {
    let (answer, _) = streamed(&[
        json!({"role": "assistant", "content": null, "reasoning_content": "I "}),
        json!({"reasoning_content": "see.", "reasoning_details": [{"type": "a", "text": "x"}]}),
        json!({"reasoning_details": [{"type": "a", "text": "y"}], "other": null}),
        json!({"tool_calls": [{
            "index": 0, "id": "a", "type": "function",
            "function": {"name": "get_thing", "arguments": "{"},
            "extra_content": {"google": {"thought_signature": "s"}},
        }]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}),
    ])
    .await;
    assert_eq!(
        answer.assistant.unwrap(),
        json!({
            "role": "assistant", "content": null, "reasoning_content": "I see.",
            "reasoning_details": [{"type": "a", "text": "x"}, {"type": "a", "text": "y"}],
            "tool_calls": [{
                "id": "a", "type": "function",
                "function": {"name": "get_thing", "arguments": "{}"},
                "extra_content": {"google": {"thought_signature": "s"}},
            }],
        })
    );
}

#[tokio::test]
async fn the_one_call_of_the_first_api_is_streamed_too() {
    let (answer, ran) = streamed(&[
        json!({"function_call": {"name": "get_thing", "arguments": "{\"n\":"}}),
        json!({"function_call": {"arguments": " 1}"}}),
    ])
    .await;
    assert_eq!(ran, [json!({"n": 1})]);
    assert_eq!(answer.messages[0]["role"], "function");
    assert_eq!(answer.assistant.unwrap()["function_call"]["arguments"], "{\"n\": 1}");
}

#[tokio::test]
async fn gemini_is_understood_as_the_sdk_for_python_writes_it() {
    let dumped = json!({"candidates": [{"finish_reason": "STOP", "content": {"role": "model", "parts": [
        {"text": "Looking.", "function_call": null},
        {"text": null, "function_call": {"id": null, "name": "get_data", "args": {}}},
        {"text": null, "function_call": {"id": "f2", "name": "get_picture", "args": {}}},
    ]}}]});
    let answer = answer(dumped.clone()).await;
    let told = json!([{"role": "user", "parts": [
        {"function_response": {"name": "get_data", "response": {"n": 1}}},
        {"function_response": {"id": "f2", "name": "get_picture",
            "response": {"output": "a dot\n[image/png]\n[application/pdf]"}}},
        {"inline_data": {"mime_type": "image/png", "data": "iVBORw0KGgo="}},
        {"inline_data": {"mime_type": "application/pdf", "data": "JVBERi0xLjc="}},
    ]}]);
    assert_eq!((json!(answer.messages), answer.assistant), (told.clone(), None));

    let mut turn = engine(&Log::default()).open_turn(None, Context::default(), Lang::En);
    turn.feed(format!("data: {dumped}\n\n").as_bytes()).unwrap();
    let answer = turn.finish().await;
    assert_eq!((json!(answer.messages), answer.is_whole), (told, true));
    let wanted =
        json!({"candidates": [{"content": {"parts": [{"text": "a", "functionCall": null}]}}]});
    assert!(super::answer(wanted).await.messages.is_empty(), "there is no call");
}

#[tokio::test]
async fn a_list_of_blocks_is_a_message() {
    let blocks = json!([
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "a", "name": "get_data", "input": {}},
    ]);
    assert_eq!(TurnFormat::of(&blocks), Some(TurnFormat::Anthropic));
    let answer = answer(blocks).await;
    assert_eq!(answer.messages[0]["content"][0]["tool_use_id"], "a");
    let items = json!([{"type": "reasoning"}, {"type": "function_call"}]);
    assert_eq!(TurnFormat::of(&items), Some(TurnFormat::Responses));
}

/// A text tool of OpenAI's that broke off is an item with an answer.
#[tokio::test]
async fn a_custom_call_that_breaks_off_is_answered() {
    let mut turn = engine(&Log::default()).open_turn(None, Context::default(), Lang::En);
    let item =
        json!({"type": "custom_tool_call", "call_id": "a", "name": "get_thing", "input": ""});
    for event in [
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
        json!({"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": "rm -"}),
    ] {
        turn.feed_event(event).unwrap();
    }
    let answer = turn.finish().await;
    assert_eq!((answer.results.len(), answer.results[0].is_success()), (1, false));
    assert_eq!(answer.messages[0]["type"], "custom_tool_call_output");
    let kept = json!({"type": "custom_tool_call", "call_id": "a", "name": "get_thing",
                      "input": "rm -"});
    assert_eq!(answer.assistant, Some(json!([kept])));
}
