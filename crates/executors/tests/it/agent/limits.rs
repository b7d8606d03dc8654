//! Limits and budgets of an agent run, and its answer when one is reached.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use windlass::{CallRequest, CallResult, CancellationToken, ErrorKind, Lang};

use super::HELPER;
use super::script::{self, Desk, call, message, say};
use crate::support::{Site, raw, read, reply};

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
async fn a_warning_counts_once_it_can_be_read() {
    // Three at once, and three at once again before the model has read a word.
    let three = |turn: usize| {
        let calls: Vec<Value> =
            (0..3).map(|at| call(&format!("t{turn}{at}"), "get_stock", &json!({}))).collect();
        message(&calls)
    };
    let model =
        Site::start(script::in_turn(vec![three(1), three(2), message(&[say("Seven.")])])).await;
    let desk = Desk::new(&model, "anthropic", &format!("{HELPER}max_turns: 9\n"));
    let result = desk.run("helper", json!({"message": "Go"})).await;
    assert_eq!((stop(&result), model.seen().len()), (json!("done"), 3));
}

/// A boss whose helper never stops calling.
async fn boss_and_helper(budget: &str) -> (Site, CallResult) {
    let turn = std::sync::atomic::AtomicUsize::new(0);
    let model = Site::start(move |seen| {
        let is_boss = seen.text().contains("You are the boss.");
        let at = turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        match (is_boss, seen.json()["messages"].as_array().unwrap().len()) {
            (true, 1) => message(&[call("b", "helper", &json!({"message": "Go"}))]),
            (true, _) => message(&[say("That was it.")]),
            (false, _) => message(&[call("t", "get_stock", &json!({"item": at}))]),
        }
    })
    .await;
    let boss = "
name: boss
kind: agent
model: claude-sonnet-4-20250514
system: You are the boss.
tools: [helper]
";
    let definition = format!("{boss}budget: {budget}\n---{HELPER}max_turns: 50\n");
    let desk = Desk::new(&model, "anthropic", &definition);
    let result = desk.run("boss", json!({"message": "Go"})).await;
    (model, result)
}

#[tokio::test]
async fn a_budget_binds_the_agents_below() {
    // Each turn takes 120 tokens, the boss's own included.
    let (model, result) = boss_and_helper("{tokens: 600}").await;
    assert_eq!((stop(&result), model.seen().len()), (json!("tokens"), 5));
    assert_eq!(result.usage.as_deref().unwrap().total_tokens(), 600);
    let (model, result) = boss_and_helper("{cost: 0.002}").await;
    assert_eq!((stop(&result), model.seen().len()), (json!("cost"), 4));
    // Its own call of the helper is the first.
    let (model, result) = boss_and_helper("{calls: 3}").await;
    assert_eq!(stop(&result), "done", "{:?}", result.outcome);
    let asked = model.seen().iter().filter(|seen| !seen.text().contains("the boss.")).count();
    assert_eq!(asked, 4, "two with a result, two that were told so");
}

#[tokio::test]
async fn what_was_written_counts_when_the_time_is_up() {
    let (address, _) = slow_writer().await;
    let desk = Desk::at(address, "anthropic", &format!("{HELPER}budget: {{time: 300ms}}\n"));
    let result = desk.run("helper", json!({"message": "Go"})).await;
    let text = result.output().unwrap().to_text();
    assert!(text.ends_with("so far]\nOnce upon a time there was"), "{text}");
    let usage = result.usage.as_deref().unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (100, 6));
    assert!(usage.cost_usd > 0.0);
    // The same for whoever is interrupted: its record says what it took.
    let (address, written) = slow_writer().await;
    let desk = Desk::at(address, "anthropic", HELPER);
    let token = CancellationToken::new();
    let request = CallRequest::new("helper", json!({"message": "Go"})).cancel_token(token.clone());
    let engine = desk.engine.clone();
    let running = tokio::spawn(async move { engine.call(request).await });
    written.notified().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    token.cancel();
    let result = running.await.unwrap();
    assert_eq!(result.error().unwrap().kind(), ErrorKind::Cancelled);
    assert_eq!(result.usage.as_deref().unwrap().input_tokens, 100);
}

/// A model that writes some words and then nothing more.
async fn slow_writer() -> (std::net::SocketAddr, std::sync::Arc<tokio::sync::Notify>) {
    let mut events = script::events(&[say("Once upon a time there was")]);
    events.truncate(3);
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000";
    let answer = format!("{head}\r\n\r\n{body}");
    let written = std::sync::Arc::new(tokio::sync::Notify::new());
    let rings = std::sync::Arc::clone(&written);
    let address = raw(move |mut stream| {
        let (answer, rings) = (answer.clone(), std::sync::Arc::clone(&rings));
        async move {
            read(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.unwrap();
            rings.notify_one();
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    })
    .await;
    (address, written)
}

#[tokio::test]
async fn a_result_that_was_cut_can_be_read_on() {
    let handle = |seen: &crate::support::Seen| {
        let text = seen.text();
        let at = text.find("handle").unwrap();
        text[at..].split(['\\', '"']).find(|part| part.len() == 36).unwrap().to_owned()
    };
    let model = Site::start(move |seen| match seen.json()["messages"].as_array().unwrap().len() {
        1 => message(&[call("t1", "get_much", &json!({}))]),
        3 => {
            let part = json!({"handle": handle(seen), "offset": 199_990});
            message(&[call("t2", "read_output", &part)])
        }
        _ => message(&[say("Much.")]),
    })
    .await;
    let definition = HELPER.replace("[get_stock]", "[get_much]");
    let desk = Desk::new(&model, "anthropic", &definition);
    let result = desk.run("helper", json!({"message": "Go"})).await;
    assert_eq!(result.output().unwrap().to_text(), "Much.");
    let names = |at: usize| -> Vec<String> {
        let body = model.seen()[at].json();
        let tools = body["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (names(0), names(1)),
        (vec!["get_much".into()], vec!["get_much".into(), "read_output".into()])
    );
    let last = model.seen()[2].json()["messages"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["content"][0]["content"][0]["text"], "much much ", "{last}");
    // Nobody else's conversation reads it.
    let part = json!({"handle": handle(&model.seen()[1])});
    let read = |context| desk.run_as("read_output", part.clone(), context);
    let other = read(windlass::Context::for_conversation("a", "another")).await;
    assert_eq!(other.error().unwrap().kind(), ErrorKind::NotFound);
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
