//! What stops an agent, and what it says then.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass::{CallRequest, CallResult, CancellationToken, ErrorKind, Lang};

use super::HELPER;
use super::script::{self, Desk, call, message, say};
use crate::support::{Site, reply};

/// A model that never stops calling, each time with something else or the same.
async fn restless(same: bool) -> Site {
    let turn = std::sync::atomic::AtomicUsize::new(0);
    Site::start(move |_| {
        let at = turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let item = if same { 0 } else { at };
        message(&[say(&format!("Turn {at}.")), call("t", "get_stock", &json!({"item": item}))])
    })
    .await
}

fn stop(result: &CallResult) -> Value {
    result.output().unwrap().metadata.get("agentMetadata").unwrap()["stop"].clone()
}

#[tokio::test]
async fn the_last_turn_ends_with_what_was_said_last() {
    let model = restless(false).await;
    let desk = Desk::in_language(&model, "anthropic", HELPER, Lang::Zh);
    let result = desk.run("helper", json!({"message": "Go"})).await;
    let text = result.output().unwrap().to_text();
    assert_eq!(text, "[Agent helper 达到最大轮次 (3),以下是当前结果]\nTurn 2.");
    assert_eq!((model.seen().len(), stop(&result)), (3, json!("max_turns")));

    // Nothing was ever said.
    let model = Site::start(|_| message(&[call("t", "get_stock", &json!({}))])).await;
    let desk = Desk::new(&model, "anthropic", &format!("{HELPER}max_turns: 1\n"));
    let text = desk.run("helper", json!({"message": "Go"})).await.output().unwrap().to_text();
    assert_eq!(
        text,
        "[Agent helper reached its maximum of 1 turns; this is the result so far]\n(no output)"
    );
    let model = Site::start(|_| message(&[])).await;
    let desk = Desk::in_language(&model, "anthropic", HELPER, Lang::Zh);
    let text = desk.run("helper", json!({"message": "Go"})).await.output().unwrap().to_text();
    assert_eq!(text, "(无输出)");
}

#[tokio::test]
async fn budgets_stop_a_run_with_what_there_is() {
    for (budget, why, turns) in [("{tokens: 200}", "tokens", 2), ("{cost: 0.0001}", "cost", 1)] {
        let model = restless(false).await;
        let definition = format!("{HELPER}max_turns: 9\nbudget: {budget}\n");
        let desk = Desk::new(&model, "anthropic", &definition);
        let result = desk.run("helper", json!({"message": "Go"})).await;
        assert_eq!((stop(&result), model.seen().len()), (json!(why), turns), "{budget}");
        assert!(result.output().unwrap().to_text().contains("has used up its budget"));
    }
    let model =
        Site::start(|_| message(&[say("Wait."), call("t", "get_slowly", &json!({}))])).await;
    let definition = HELPER.replace("[get_stock]", "[get_slowly]") + "budget: {time: 300ms}\n";
    let desk = Desk::new(&model, "anthropic", &definition);
    let began = Instant::now();
    let result = desk.run("helper", json!({"message": "Go"})).await;
    assert_eq!(stop(&result), "time");
    let text = result.output().unwrap().to_text();
    assert_eq!(text, "[Agent helper has used up its time; this is the result so far]\nWait.");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // The calls are told to be used up, and the model may answer.
    let model = Site::start(script::in_turn(vec![
        message(&[call("t1", "get_stock", &json!({})), call("t2", "get_stock", &json!({"a": 1}))]),
        message(&[say("Seven.")]),
    ]))
    .await;
    let desk = Desk::new(&model, "anthropic", &format!("{HELPER}budget: {{calls: 1}}\n"));
    let result = desk.run("helper", json!({"message": "Go"})).await;
    assert_eq!(result.output().unwrap().to_text(), "Seven.");
    let answers = model.seen()[1].json()["messages"][2]["content"].clone();
    assert_eq!((&answers[0]["is_error"], &answers[1]["is_error"]), (&Value::Null, &json!(true)));
}

#[tokio::test]
async fn an_agent_that_repeats_itself_is_told_and_then_stopped() {
    let model = restless(true).await;
    let desk = Desk::new(&model, "anthropic", &format!("{HELPER}max_turns: 20\n"));
    let result = desk.run("helper", json!({"message": "Go"})).await;
    assert_eq!(stop(&result), "loop");
    // Three times with a result, three times with a warning.
    assert_eq!(model.seen().len(), 6);
    let told = model.seen()[4].json()["messages"].as_array().unwrap().last().unwrap().clone();
    let told = told["content"][0]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(told.contains("3 times with the same arguments"), "{told}");
    // Whoever wants may repeat himself.
    let model = restless(true).await;
    let definition = format!("{HELPER}max_turns: 8\nmax_repeats: 0\n");
    let desk = Desk::new(&model, "anthropic", &definition);
    assert_eq!(stop(&desk.run("helper", json!({"message": "Go"})).await), "max_turns");
}

#[tokio::test]
async fn an_agent_calls_its_own_tools_and_not_too_many() {
    let many: Vec<Value> =
        (0..7).map(|at| call(&format!("t{at}"), "get_stock", &json!({"item": at}))).collect();
    let foreign = [call("a", "save_note", &json!({})), call("b", "no_such_tool", &json!({}))];
    let model =
        Site::start(script::in_turn(vec![message(&many), message(&foreign), message(&[say("x")])]))
            .await;
    let desk = Desk::new(&model, "anthropic", HELPER);
    assert!(desk.run("helper", json!({"message": "Go"})).await.is_success());
    let answers = |at: usize| {
        let body = model.seen()[at].json();
        let last = body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
        last.as_array().unwrap().iter().map(|it| it["is_error"] == true).collect::<Vec<_>>()
    };
    assert_eq!(answers(1), [false, false, false, false, false, true, true]);
    assert_eq!(answers(2), [true, true]);
    assert_eq!(desk.saved.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_person_interrupts_a_run() {
    let model = Site::start(|_| message(&[call("t", "get_slowly", &json!({}))])).await;
    let definition = HELPER.replace("[get_stock]", "[get_slowly]");
    let desk = Desk::new(&model, "anthropic", &definition);
    let token = CancellationToken::new();
    let request = CallRequest::new("helper", json!({"message": "Go"})).cancel_token(token.clone());
    let engine = desk.engine.clone();
    let running = tokio::spawn(async move { engine.call(request).await });
    while desk.engine.calls_under_way() == 0 || model.seen().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    token.cancel();
    let result = running.await.unwrap();
    assert_eq!(result.error().unwrap().kind(), ErrorKind::Cancelled);
}

#[tokio::test]
async fn many_runs_need_few_slots() {
    let model = Site::start(|seen| match seen.json()["messages"].as_array().unwrap().len() {
        1 => message(&[call("t", "get_slowly", &json!({"millis": 50}))]),
        3 => message(&[say("Done.")]),
        _ => reply(500, &[], ""),
    })
    .await;
    let definition = HELPER.replace("[get_stock]", "[get_slowly]");
    let desk = Desk::new(&model, "anthropic", &definition);
    let runs = (0..100).map(|_| desk.run("helper", json!({"message": "Go"})));
    for result in futures_util::future::join_all(runs).await {
        assert_eq!(result.output().unwrap().to_text(), "Done.", "{:?}", result.outcome);
    }
    assert_eq!(desk.engine.limit_metrics().current_concurrent, 0);
}
