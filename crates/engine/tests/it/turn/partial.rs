//! Gemini's tool calls that are streamed in several parts.

use serde_json::{Value, json};
use windlass::{Context, Lang, Turn, TurnAnswer, TurnFormat};

use super::{Log, engine};

/// What came of these parts, each an event of a stream, and what tools were
/// called with.
async fn streamed(parts: &[Value], reason: Option<&str>) -> (TurnAnswer, Vec<Value>) {
    let log = Log::default();
    let mut turn = engine(&log).open_turn(None, Context::default(), Lang::En);
    for part in parts {
        let content = json!({"role": "model", "parts": [part]});
        let event = json!({"candidates": [{"content": content}]});
        turn.feed(format!("data: {event}\r\n\r\n").as_bytes()).unwrap();
    }
    if let Some(reason) = reason {
        let event = json!({"candidates": [{"finishReason": reason}], "usageMetadata": {}});
        turn.feed(format!("data: {event}\r\n\r\n").as_bytes()).unwrap();
    }
    let answer = turn.finish().await;
    let ran = log.lock().clone();
    (answer, ran)
}

fn call(asked: &Value) -> Value {
    json!({"functionCall": asked})
}

fn piece(path: &str, key: &str, value: &Value, goes_on: bool) -> Value {
    let mut piece = json!({"jsonPath": path, key: value});
    if goes_on {
        piece["willContinue"] = true.into();
    }
    call(&json!({"partialArgs": [piece], "willContinue": true}))
}

/// A call of 76 parts, with a text that comes in 72.
fn long_call() -> (Vec<Value>, Value) {
    let mut parts = vec![
        json!({"functionCall": {"name": "save_thing", "willContinue": true},
               "thoughtSignature": "sig"}),
        piece("$.options.level", "numberValue", &json!(50), false),
    ];
    let mut text = String::new();
    for at in 0..72 {
        let more = format!("word {at}, ");
        text.push_str(&more);
        parts.push(piece("$.text", "stringValue", &json!(more), true));
    }
    parts.push(piece("$.text", "stringValue", &json!(""), false));
    parts.push(call(&json!({})));
    (parts, json!({"options": {"level": 50}, "text": text}))
}

#[tokio::test]
async fn a_call_in_many_parts_is_one_call_with_all_of_its_arguments() {
    let (parts, arguments) = long_call();
    assert_eq!(parts.len(), 76);
    let (answer, ran) = streamed(&parts, Some("STOP")).await;
    assert_eq!((ran, answer.results.len()), (vec![arguments.clone()], 1));
    assert_eq!(answer.messages[0]["parts"].as_array().unwrap().len(), 1);
    let kept = json!({"role": "model", "parts": [
        {"functionCall": {"name": "save_thing", "args": arguments}, "thoughtSignature": "sig"},
    ]});
    assert_eq!(answer.assistant, Some(kept.clone()));
    // It can be read again, as the same call.
    let again = Turn::read_as(TurnFormat::Gemini, kept).unwrap();
    assert_eq!((again.calls().len(), again.is_mended()), (1, false));

    // Somebody may put all parts into one message.
    let whole = json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]});
    let log = Log::default();
    let turn = Turn::read(whole).unwrap();
    assert_eq!(turn.calls().len(), 1);
    engine(&log).turn(turn, Context::default(), Lang::En).await;
    assert_eq!(*log.lock(), [arguments]);
}

#[tokio::test]
async fn a_call_in_parts_that_does_not_end_does_not_run() {
    let (parts, _) = long_call();
    for end in [2, 30, parts.len() - 1] {
        for reason in [None, Some("STOP"), Some("MAX_TOKENS"), Some("MALFORMED_FUNCTION_CALL")] {
            let (answer, ran) = streamed(&parts[..end], reason).await;
            assert_eq!((ran.len(), answer.results.len()), (0, 1), "{end} {reason:?}");
            let told = answer.messages[0].to_string();
            assert!(told.contains("broke off"), "{told}");
            let kept = answer.assistant.unwrap().to_string();
            assert!(!kept.contains("willContinue") && !kept.contains("partialArgs"), "{kept}");
        }
    }
    // Neither does one whose pieces do not fit together.
    let spoilt = [
        call(&json!({"name": "save_thing", "willContinue": true})),
        piece("$.a", "stringValue", &json!("x"), false),
        piece("$.a[0]", "stringValue", &json!("y"), false),
        call(&json!({})),
    ];
    let (answer, ran) = streamed(&spoilt, Some("STOP")).await;
    assert_eq!((ran.len(), answer.results.len()), (0, 1));
}

#[tokio::test]
async fn calls_in_parts_are_told_apart() {
    let part = |id: &str, path: &str, value: &str, goes_on: bool| {
        let pieces = json!([{"jsonPath": path, "stringValue": value}]);
        call(&json!({"id": id, "name": "get_thing", "partialArgs": pieces,
                    "willContinue": goes_on}))
    };
    // With ids, which are repeated and may alternate.
    let (answer, ran) = streamed(
        &[
            part("a", "$.x", "Lon", true),
            part("b", "$.x", "Par", true),
            part("a", "$.x", "don", true),
            part("b", "$.x", "is", false),
            part("a", "$.y", "!", false),
        ],
        Some("STOP"),
    )
    .await;
    assert_eq!(ran, [json!({"x": "London", "y": "!"}), json!({"x": "Paris"})]);
    let ids = |at: usize| answer.messages[0]["parts"][at]["functionResponse"]["id"].clone();
    assert_eq!((ids(0), ids(1)), (json!("a"), json!("b")));
    // Without: one after the other, with a call at once between them.
    let (answer, ran) = streamed(
        &[
            json!({"text": "Looking."}),
            call(&json!({"name": "get_thing", "willContinue": true})),
            piece("$.x", "boolValue", &json!(true), false),
            call(&json!({})),
            call(&json!({"name": "get_thing", "args": {"x": 2}})),
            call(&json!({"name": "get_thing", "partialArgs": [
                {"jsonPath": "$.x", "numberValue": 3}]})),
            call(&json!({"name": "get_thing", "willContinue": true})),
            call(&json!({})),
        ],
        Some("STOP"),
    )
    .await;
    assert_eq!(ran, [json!({"x": true}), json!({"x": 2}), json!({"x": 3}), json!({})]);
    assert_eq!(answer.assistant.unwrap()["parts"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn a_call_begins_when_its_last_part_has_come() {
    let log = Log::default();
    let mut turn = engine(&log).open_turn(None, Context::default(), Lang::En);
    let (parts, _) = long_call();
    for part in &parts[..parts.len() - 1] {
        turn.feed_event(json!({"candidates": [{"content": {"parts": [part]}}]})).unwrap();
        assert!(turn.calls().is_empty());
    }
    turn.feed_event(json!({"candidates": [{"content": {"parts": [parts.last()]}}]})).unwrap();
    assert_eq!(turn.calls().len(), 1);
}

#[tokio::test]
async fn the_sdk_for_python_names_the_pieces_in_its_own_way() {
    let asked = |name: Value, pieces: Value, goes_on: Value| {
        json!({"function_call": {"id": null, "name": name, "args": null, "partial_args": pieces,
                                 "will_continue": goes_on}, "text": null})
    };
    let piece = |text: &str, goes_on: Value| {
        json!([{"json_path": "$.x", "string_value": text, "number_value": null,
                "bool_value": null, "null_value": null, "will_continue": goes_on}])
    };
    let (answer, ran) = streamed(
        &[
            asked(json!("get_thing"), json!(null), json!(true)),
            asked(json!(null), piece("a", json!(true)), json!(true)),
            asked(json!(null), piece("b", json!(null)), json!(true)),
            asked(json!(null), json!(null), json!(null)),
        ],
        Some("STOP"),
    )
    .await;
    assert_eq!(ran, [json!({"x": "ab"})]);
    assert!(answer.messages[0]["parts"][0]["function_response"].is_object());
}

#[tokio::test]
async fn an_empty_function_call_of_gemini_is_no_call() {
    for empty in [json!({}), json!({"name": "", "args": {}}), json!({"name": null, "id": null})] {
        let (answer, _) = streamed(&[json!({"text": "Hello."}), call(&empty)], Some("STOP")).await;
        assert!(answer.messages.is_empty(), "{empty}");
        let message = json!({"parts": [{"text": "Hello."}, call(&empty)]});
        let turn = Turn::read(message).unwrap();
        assert!(turn.calls().is_empty(), "{empty}");
        assert_eq!(turn.message()["parts"], json!([{"text": "Hello."}]));
    }
}

#[tokio::test]
async fn a_question_that_gemini_refuses_is_no_unreadable_message() {
    let refused = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                         "usageMetadata": {"promptTokenCount": 7}, "modelVersion": "gemini"});
    assert_eq!(TurnFormat::of(&refused), Some(TurnFormat::Gemini));
    let turn = Turn::read(refused.clone()).unwrap();
    assert!(turn.calls().is_empty());
    let mut open = engine(&Log::default()).open_turn(None, Context::default(), Lang::En);
    open.feed(format!("data: {refused}\n\n").as_bytes()).unwrap();
    let answer = open.finish().await;
    assert!(answer.is_whole && answer.messages.is_empty());
}
