//! Model responses that end in unusual ways: connections that stay open, errors in
//! mid-stream, refusals, empty answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use windlass::{CallResult, Context, ErrorKind, Lang};
use windlass_executors::agent::{Listener, RunEvent};

use super::HELPER;
use super::script::{self, Desk, call, chat, message, say, sse, whole};
use crate::support::{Site, raw, read, reply};

fn stop(result: &CallResult) -> Value {
    result.output().unwrap().metadata.get("agentMetadata").unwrap()["stop"].clone()
}

fn text(result: &CallResult) -> String {
    result.output().unwrap_or_else(|| panic!("{:?}", result.outcome)).to_text()
}

/// A stream of events without an end: what follows does as it likes with the
/// connection.
fn open_ended(events: &[Value]) -> Vec<u8> {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len()).into_bytes()
}

#[tokio::test]
async fn a_whole_answer_counts_however_its_connection_ends() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 20}});
    let said =
        json!({"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]});
    let cases = [
        ("anthropic", script::events(&[say("Hi.")]), 200),
        ("openai", vec![said.clone(), usage], 200),
        // Its tokens would come last, and do not.
        ("openai", vec![said], 3000),
    ];
    for (api, events, within) in cases {
        for is_reset in [false, true] {
            let asked = Arc::<AtomicUsize>::default();
            let (counted, answer) = (Arc::clone(&asked), open_ended(&events));
            let address = raw(move |mut stream| {
                let (counted, answer) = (Arc::clone(&counted), answer.clone());
                async move {
                    read(&mut stream).await;
                    counted.fetch_add(1, Ordering::SeqCst);
                    stream.write_all(&answer).await.unwrap();
                    match is_reset {
                        true => tokio::time::sleep(Duration::from_millis(20)).await,
                        false => tokio::time::sleep(Duration::from_secs(60)).await,
                    }
                    // Dropped in the middle of a body: to a client, it broke off.
                }
            })
            .await;
            let definition = HELPER.replace("claude-sonnet-4-20250514", "local/m");
            let desk = Desk::at(address, api, &definition);
            let began = Instant::now();
            let result = desk.run("helper", json!({"message": "Hi"})).await;
            assert_eq!((text(&result), stop(&result)), ("Hi.".to_owned(), json!("done")));
            assert!(began.elapsed() < Duration::from_millis(within), "{api} {is_reset}");
            assert_eq!(asked.load(Ordering::SeqCst), 1, "{api} {is_reset}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_asked_for_again_says_what_counts_for_nothing() {
    let mut cut = script::events(&[say("Half of")]);
    cut.truncate(3);
    let model = Site::start(script::in_turn(vec![sse(&cut), message(&[say("All of it.")])])).await;
    let desk = Desk::new(&model, "anthropic", HELPER);
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let told = Arc::clone(&heard);
    let listener = Listener::new(move |event| match event {
        RunEvent::Text { text, .. } => told.lock().unwrap().push((*text).to_owned()),
        RunEvent::Restart { text, .. } => told.lock().unwrap().push(format!("not {text}")),
        _ => {}
    });
    let context = Context::default().object(listener);
    let result = desk.run_as("helper", json!({"message": "Hi"}), context).await;
    assert_eq!(text(&result), "All of it.");
    assert_eq!(*heard.lock().unwrap(), ["Half of", "not Half of", "All of it."]);
}

#[tokio::test]
async fn an_overload_in_the_middle_of_an_answer_is_one() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "no"}});
    let mut busy = script::events(&[]);
    busy.truncate(1);
    busy.extend([json!({"type": "ping"}), error]);
    let model = Site::start(script::in_turn(vec![sse(&busy), message(&[say("Hi.")])])).await;
    let desk = Desk::new(&model, "anthropic", HELPER);
    let result = desk.run("helper", json!({"message": "Hi"})).await;
    assert_eq!(text(&result), "Hi.");
    assert_eq!(model.seen()[1].json()["model"], "claude-haiku-4-20250514");
    // Without anybody to ask instead, it is given a moment.
    let model = Site::start(script::in_turn(vec![sse(&busy), message(&[say("Hi.")])])).await;
    let desk = Desk::new(&model, "anthropic", &format!("{HELPER}fallback: ''\n"));
    let began = Instant::now();
    assert_eq!(text(&desk.run("helper", json!({"message": "Hi"})).await), "Hi.");
    assert!(began.elapsed() >= Duration::from_millis(950), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_key_that_an_api_repeats_is_nowhere() {
    let error = json!({"type": "error", "error": {
        "type": "authentication_error", "message": "sk-test is wrong"}});
    let mut later = script::events(&[say("H")]);
    later.truncate(3);
    later.push(error.clone());
    let at_once = whole(&json!({"error": {"message": "sk-test is wrong", "code": 401}}));
    for answer in [sse(std::slice::from_ref(&error)), sse(&later), at_once] {
        let model = Site::start(script::in_turn(vec![answer])).await;
        let desk = Desk::new(&model, "anthropic", HELPER);
        let result = desk.run("helper", json!({"message": "Hi"})).await;
        let error = result.error().unwrap();
        assert_eq!(error.kind(), ErrorKind::CredentialInvalid);
        assert!(error.message().contains("[hidden] is wrong"), "{error}");
        let record = desk.engine.records().get(&Default::default(), result.id).await.unwrap();
        let everything = format!("{error:?}{}{record:?}", error.feedback(Lang::En));
        assert!(!everything.contains("sk-test"), "{everything}");
    }
}

#[tokio::test]
async fn a_failure_says_how_far_it_came() {
    let model = Site::start(script::in_turn(vec![
        message(&[call("t1", "get_stock", &json!({}))]),
        reply(400, &[("content-type", "application/json")], "{}"),
    ]))
    .await;
    let desk = Desk::new(&model, "anthropic", HELPER);
    let result = desk.run("helper", json!({"message": "Hi"})).await;
    assert_eq!(result.error().unwrap().kind(), ErrorKind::UpstreamRejected);
    let about = &result.to_json(Lang::En)["metadata"]["agentMetadata"];
    assert_eq!((&about["agentName"], &about["turnsUsed"]), (&json!("helper"), &json!(2)));
    assert_eq!(about["toolCallsMade"], json!(["get_stock"]));
    assert_eq!(windlass_executors::agent::cost_summary([&result])[0].input_tokens, 100);
}

#[tokio::test]
async fn answers_that_are_none_say_why() {
    let chunk = |delta: Value, reason: &str| {
        sse(&[json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})])
    };
    let gemini = |candidate: Value| sse(&[json!({"candidates": [candidate]})]);
    let mut cut = script::events(&[say("Half of")]);
    cut[4]["delta"] = json!({"stop_reason": "max_tokens"});
    let cases = [
        ("openai", chunk(json!({"refusal": "I must not."}), "stop"), "refused", "I must not."),
        (
            "openai",
            whole(&json!({"choices": [{"message": {"role": "assistant", "content": null,
                "refusal": "I must not."}, "finish_reason": "stop"}]})),
            "refused",
            "I must not.",
        ),
        (
            "openai",
            chunk(json!({"content": "Half of"}), "length"),
            "max_tokens",
            "[Agent helper reached its maximum of 4096 tokens for an answer; this is the result \
             so far]\nHalf of",
        ),
        (
            "anthropic",
            sse(&cut),
            "max_tokens",
            "[Agent helper reached its maximum of 4096 tokens for an answer; this is the result \
             so far]\nHalf of",
        ),
        (
            "gemini",
            sse(&[json!({"promptFeedback": {"blockReason": "SAFETY"}})]),
            "refused",
            "(the model refused to answer: SAFETY)",
        ),
        (
            "gemini",
            gemini(json!({"content": {"parts": []}, "finishReason": "RECITATION"})),
            "refused",
            "(the model refused to answer: RECITATION)",
        ),
    ];
    for (api, answer, why, expected) in cases {
        let model = Site::start(script::in_turn(vec![answer])).await;
        let definition = HELPER.replace("claude-sonnet-4-20250514", "local/m");
        let desk = Desk::new(&model, api, &definition);
        let result = desk.run("helper", json!({"message": "Hi"})).await;
        assert_eq!((text(&result), stop(&result)), (expected.to_owned(), json!(why)), "{api}");
    }
    // What cannot be read is asked for again, and then an error.
    let malformed = gemini(json!({"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL"}));
    let error = whole(&json!({"error": {"message": "out of memory"}}));
    for (api, answer, why) in
        [("gemini", malformed, "MALFORMED_FUNCTION_CALL"), ("openai", error, "out of memory")]
    {
        let model = Site::start(script::in_turn(vec![answer.clone(), answer])).await;
        let definition = HELPER.replace("claude-sonnet-4-20250514", "local/m");
        let desk = Desk::new(&model, api, &definition);
        let result = desk.run("helper", json!({"message": "Hi"})).await;
        let error = result.error().unwrap();
        assert!(error.message().contains(why), "{error}");
        assert_eq!(model.seen().len(), 2);
    }
}

#[tokio::test]
async fn an_empty_answer_is_asked_for_again_and_is_then_no_success() {
    let empty = |api: &str| match api {
        "anthropic" => message(&[say(" ")]),
        "openai" => chat("", &[]),
        _ => sse(&[json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})]),
    };
    let said = |api: &str| match api {
        "anthropic" => message(&[say("Yes.")]),
        "openai" => chat("Yes.", &[]),
        _ => script::gemini(&[json!({"text": "Yes."})]),
    };
    for api in ["anthropic", "openai", "gemini"] {
        let definition = HELPER.replace("claude-sonnet-4-20250514", "local/m");
        let model = Site::start(script::in_turn(vec![empty(api), said(api)])).await;
        let desk = Desk::new(&model, api, &definition);
        let result = desk.run("helper", json!({"message": "Hm?"})).await;
        assert_eq!(text(&result), "Yes.", "{api}");

        let model = Site::start(script::in_turn(vec![empty(api), empty(api)])).await;
        let desk = Desk::new(&model, api, &definition);
        let result = desk.run("helper", json!({"message": "Hm?"})).await;
        let error = result.error().unwrap();
        assert_eq!(error.kind(), windlass::ErrorKind::UpstreamFailed, "{api}");
        assert!(error.message().contains("empty"), "{api}: {error:?}");
        assert_eq!(model.seen().len(), 2, "{api}");
    }
}

/// Gemini says nothing but why, whether it streams or not.
#[tokio::test]
async fn a_question_that_gemini_refuses_is_a_refusal() {
    let refused = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}});
    for answer in [sse(std::slice::from_ref(&refused)), whole(&refused)] {
        let model = Site::start(script::in_turn(vec![answer])).await;
        let definition = HELPER.replace("claude-sonnet-4-20250514", "local/m");
        let desk = Desk::new(&model, "gemini", &definition);
        let result = desk.run("helper", json!({"message": "Hm?"})).await;
        assert_eq!(stop(&result), json!("refused"));
        assert!(text(&result).contains("PROHIBITED_CONTENT"), "{}", text(&result));
    }
}

#[tokio::test]
async fn a_fallback_speaks_the_same_api() {
    let model = Site::start(|_| reply(500, &[], "")).await;
    for (fallback, is_right) in [
        ("claude-haiku-4-20250514", true),
        ("local/other", true),
        ("''", true),
        ("openai/gpt-5", false),
        ("gpt-5", false),
        ("nobody/m", false),
    ] {
        let desk = Desk::empty(&model, "anthropic", Lang::En);
        let definition = format!("{HELPER}fallback: {fallback}\n");
        let report = desk.engine.load_text("a.yaml", &definition);
        let told = report.errors.iter().map(ToString::to_string).collect::<String>();
        assert_eq!(told.is_empty(), is_right, "{fallback}: {told}");
        assert!(is_right || told.contains("fallback") || told.contains("nobody"), "{told}");
    }
}
