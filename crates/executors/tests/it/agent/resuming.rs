//! Runs that were cut off and go on.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use windlass::{CallId, CallRequest, CancellationToken, Context};
use windlass_executors::agent::{History, RunScope};

use super::HELPER;
use super::script::{Desk, call, message, say};
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
