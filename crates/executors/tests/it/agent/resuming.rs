//! Interrupted runs that are resumed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use windlass::{CallId, CallRequest, CancellationToken, Context, ErrorKind};
use windlass_executors::agent::{History, RunScope};

use super::HELPER;
use super::script::{Desk, call, events, message, say, sse};
use crate::support::{Site, reply};

/// A model that saves a note, then waits, then is done.
async fn saver() -> Site {
    Site::start(|seen| match seen.json()["messages"].as_array().unwrap().len() {
        1 => message(&[say("I save."), call("t1", "save_note", &json!({"text": "x"}))]),
        3 => message(&[
            call("t2", "save_note", &json!({"text": "y"})),
            call("t3", "get_slowly", &json!({"millis": 400})),
        ]),
        5 => message(&[say("Both are saved.")]),
        _ => reply(500, &[], ""),
    })
    .await
}

#[tokio::test]
async fn a_run_goes_on_without_asking_or_doing_anything_twice() {
    let model = saver().await;
    let definition = HELPER.replace("[get_stock]", "[save_note, get_slowly]");
    let desk = Desk::new(&model, "anthropic", &definition);
    let token = CancellationToken::new();
    let id = CallId::at(jiff::Timestamp::now());
    let request = CallRequest::new("helper", json!({"message": "Go"})).id(id);
    let engine = desk.engine.clone();
    let cut = request.cancel_token(token.clone());
    let running = tokio::spawn(async move { engine.call(cut).await });
    // Cut off in the second turn, after its effect and before its end.
    while desk.saved.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    token.cancel();
    assert!(!running.await.unwrap().is_success());
    assert_eq!(model.seen().len(), 2);

    let scope = RunScope { parent: None, run: id.to_string().into() };
    let context = Context::default().object(scope);
    let result = desk.run_as("helper", json!({"message": "Go"}), context.clone()).await;
    assert_eq!(result.output().unwrap().to_text(), "Both are saved.");
    assert_eq!(model.seen().len(), 3, "it was asked for the last turn alone");
    assert_eq!(desk.saved.load(Ordering::SeqCst), 2, "nothing was saved twice");
    let about = result.output().unwrap().metadata.get("agentMetadata").unwrap();
    assert_eq!(about["turnsUsed"], 3);
    let last = model.seen()[2].json();
    let notes = &last["messages"][4]["content"];
    assert_eq!(notes[0]["content"][0]["text"], "saved 2", "the first result is given again");
    // A run that has ended gives its result again, and asks nobody.
    let again = desk.run_as("helper", json!({"message": "Go"}), context).await;
    assert_eq!(again.output().unwrap().to_text(), "Both are saved.");
    assert_eq!(model.seen().len(), 3);
}

#[tokio::test]
async fn a_call_that_broke_off_does_not_run_when_its_run_goes_on() {
    let model = Site::start(|seen| match seen.json()["messages"].as_array().unwrap().len() {
        1 => {
            let mut events = events(&[call("t1", "get_slowly", &json!({"millis": 400}))]);
            let end = events.split_off(events.len() - 2);
            let cut = json!({"type": "tool_use", "id": "t2", "name": "save_note", "input": {}});
            events.push(json!({"type": "content_block_start", "index": 1, "content_block": cut}));
            events.push(json!({"type": "content_block_stop", "index": 1}));
            let limit = json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"},
                "usage": {"output_tokens": 20}});
            events.push(limit);
            events.extend(end.into_iter().skip(1));
            sse(&events)
        }
        _ => message(&[say("I stop.")]),
    })
    .await;
    let definition = HELPER.replace("[get_stock]", "[save_note, get_slowly]");
    let desk = Desk::new(&model, "anthropic", &definition);
    let token = CancellationToken::new();
    let id = CallId::at(jiff::Timestamp::now());
    let request = CallRequest::new("helper", json!({"message": "Go"})).id(id);
    let (engine, cut) = (desk.engine.clone(), request.cancel_token(token.clone()));
    let running = tokio::spawn(async move { engine.call(cut).await });
    // Its answer is kept before its calls have results.
    tokio::time::sleep(Duration::from_millis(200)).await;
    token.cancel();
    assert!(!running.await.unwrap().is_success());
    assert_eq!(model.seen().len(), 1);

    let scope = RunScope { parent: None, run: id.to_string().into() };
    let context = Context::default().object(scope);
    desk.run_as("helper", json!({"message": "Go"}), context).await;
    let told = model.seen()[1].json()["messages"][2]["content"].clone();
    assert_eq!((&told[1]["tool_use_id"], &told[1]["is_error"]), (&json!("t2"), &json!(true)));
    assert!(told[1].to_string().contains("broke off"), "{told}");
    assert_eq!(desk.saved.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_conversation_goes_on_from_run_to_run() {
    let model = Site::start(|seen| {
        let said = seen.json()["messages"].as_array().unwrap().len();
        message(&[say(&format!("I have heard {said} messages."))])
    })
    .await;
    let desk = Desk::new(&model, "anthropic", HELPER);
    let context = Context::default().object(History::default());
    for heard in [1, 3, 5] {
        let result = desk.run_as("helper", json!({"message": "Hm?"}), context.clone()).await;
        let expected = format!("I have heard {heard} messages.");
        assert_eq!(result.output().unwrap().to_text(), expected);
    }
}

#[tokio::test]
async fn a_run_has_one_driver() {
    let model = saver().await;
    let definition = HELPER.replace("[get_stock]", "[save_note, get_slowly]");
    let desk = Desk::new(&model, "anthropic", &definition);
    let id = CallId::at(jiff::Timestamp::now());
    let request = CallRequest::new("helper", json!({"message": "Go"})).id(id);
    let engine = desk.engine.clone();
    let first = tokio::spawn(async move { engine.call(request).await });
    while desk.saved.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Somebody goes on with it while it still waits for its second turn.
    let scope = RunScope { parent: None, run: id.to_string().into() };
    let context = Context::default().object(scope);
    let second = desk.run_as("helper", json!({"message": "Go"}), context).await;
    assert_eq!(second.output().unwrap().to_text(), "Both are saved.");
    let first = first.await.unwrap();
    assert_eq!(first.error().unwrap().kind(), ErrorKind::Conflict, "{:?}", first.outcome);
    assert_eq!(desk.saved.load(Ordering::SeqCst), 2, "nothing was saved twice");
    assert_eq!(model.seen().len(), 3, "nor was the model asked twice");
}

#[tokio::test]
async fn what_nobody_has_paid_for_is_paid_once() {
    let model = saver().await;
    let definition = HELPER.replace("[get_stock]", "[save_note, get_slowly]");
    let desk = Desk::new(&model, "anthropic", &definition);
    let request = |id: CallId, run: CallId| {
        let scope = RunScope { parent: None, run: run.to_string().into() };
        let context = Context::default().object(scope);
        CallRequest::new("helper", json!({"message": "Go"})).id(id).context(context)
    };
    let id = CallId::at(jiff::Timestamp::now());
    let token = CancellationToken::new();
    let (engine, cut) = (desk.engine.clone(), request(id, id).cancel_token(token.clone()));
    let running = tokio::spawn(async move { engine.call(cut).await });
    while desk.saved.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    token.cancel();
    let first = running.await.unwrap();
    // It ended in good order, so its own record has what it took.
    assert_eq!(first.usage.as_deref().unwrap().input_tokens, 200);
    let again = CallId::at(jiff::Timestamp::now());
    let second = desk.engine.call(request(again, id)).await;
    assert_eq!(second.usage.as_deref().unwrap().input_tokens, 100);
    let about = second.output().unwrap().metadata.get("agentMetadata").unwrap();
    assert_eq!(about["tokensUsed"]["input"], 300, "the run took all of it");
}

#[tokio::test]
async fn every_exchange_of_a_conversation_is_remembered_however_it_ended() {
    let model = Site::start(|seen| {
        let messages = seen.json()["messages"].clone();
        match messages.as_array().unwrap().last().unwrap()["content"].to_string() {
            last if last.contains("look") => {
                message(&[say("I look."), call("t", "get_stock", &json!({}))])
            }
            _ => message(&[say("Seven.")]),
        }
    })
    .await;
    let desk = Desk::new(&model, "anthropic", &format!("{HELPER}max_turns: 1\n"));
    let context = Context::default().object(History::default());
    let looked = desk.run_as("helper", json!({"message": "look"}), context.clone()).await;
    assert!(looked.output().unwrap().to_text().contains("maximum of 1 turns"));
    desk.run_as("helper", json!({"message": "And?"}), context).await;
    let heard = model.seen()[1].json()["messages"].clone();
    let roles: Vec<&str> =
        heard.as_array().unwrap().iter().map(|said| said["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"], "{heard}");
}

#[tokio::test]
async fn a_run_of_a_conversation_that_was_cut_off_remembers_what_was_said_before() {
    let model = Site::start(|seen| {
        let messages = seen.json()["messages"].clone();
        let messages = messages.as_array().unwrap();
        match messages.last().unwrap()["content"].to_string() {
            last if last.contains("Wait") => {
                message(&[call("t", "get_slowly", &json!({"millis": 200}))])
            }
            _ => message(&[say(&format!("I have heard {}.", messages.len()))]),
        }
    })
    .await;
    let definition = HELPER.replace("[get_stock]", "[get_slowly]");
    let desk = Desk::new(&model, "anthropic", &definition);
    let context = Context::default().object(History::default());
    desk.run_as("helper", json!({"message": "Hello"}), context.clone()).await;
    let (id, token) = (CallId::at(jiff::Timestamp::now()), CancellationToken::new());
    let request = CallRequest::new("helper", json!({"message": "Wait"})).id(id).context(context);
    let (engine, cut) = (desk.engine.clone(), request.cancel_token(token.clone()));
    let running = tokio::spawn(async move { engine.call(cut).await });
    while model.seen().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    token.cancel();
    running.await.unwrap();
    let scope = RunScope { parent: None, run: id.to_string().into() };
    let context = Context::default().object(scope);
    let result = desk.run_as("helper", json!({"message": "Wait"}), context).await;
    assert_eq!(result.output().unwrap().to_text(), "I have heard 5.");
}
