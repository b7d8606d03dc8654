//! Runs over HTTP.

use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

use super::model::{Model, call, say, say_in_pieces};
use super::{HELPER, calculating, settings};
use crate::http::{Server, WRITE, until};
use crate::project::Project;

fn server(model: &Model) -> Server {
    let project = Project::empty();
    project.write("windlass.yaml", &settings(model)).write("tools/helper.yaml", HELPER);
    project.write("tools/write.yaml", WRITE);
    Server::run(Arc::new(project), &[], &[("ANTHROPIC_API_KEY", "sk-server")], None)
}

#[test]
fn a_run_is_answered_at_once_or_followed() {
    let model = calculating();
    let server = server(&model);
    let client = server.admin();
    let agents = client.get("/v1/agents").is(200)["agents"].clone();
    assert_eq!(
        (&agents[0]["name"], &agents[0]["model"]),
        (&json!("helper"), &json!("claude-sonnet-4-20250514"))
    );
    let body = json!({"message": "What is 6 * 7?", "conversation_id": "talk"});
    let answer = client.post("/v1/agents/helper/runs", &body).is(200);
    assert_eq!(answer["result"]["output"], "It is \n42, after 3 messages.", "{answer}");
    assert_eq!(answer["result"]["usage"]["output_tokens"], 40);
    let state = client.get(&format!("/v1/runs/{}", answer["run_id"].as_str().unwrap())).is(200);
    assert_eq!((&state["stop"], &state["turns"]), (&json!("done"), &json!(2)));
    assert_eq!(state["tools"], json!(["calculator"]));

    let body = json!({"message": "What is 6 * 7?", "conversation_id": "another"});
    let told = client.stream("/v1/agents/helper/runs", &body).rest();
    let names: Vec<&str> = told.iter().map(|sent| sent.name.as_str()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("run", "result"), "{names:?}");
    for name in ["text", "tool_queued", "tool_started", "tool_completed", "queue_drained"] {
        assert!(names.contains(&name), "no {name} in {names:?}");
    }
    let text: String = (told.iter())
        .filter(|sent| sent.name == "text")
        .map(|sent| sent.data["text"].as_str().unwrap())
        .collect();
    assert_eq!(text, "Let me see. It is 42, after 3 messages.");
    let metrics = client.get("/metrics").text();
    assert!(
        metrics.contains("windlass_model_tokens_total{tool=\"helper\",type=\"input\"} 400"),
        "{metrics}"
    );
    assert!(metrics.contains("windlass_model_cost_usd_total{tool=\"helper\"} 0.0024"), "{metrics}");
    let stats = until("it is counted", || {
        let stats = client.get("/v1/stats").is(200);
        (stats["tools"]["helper"]["calls"] == 2).then_some(stats)
    });
    assert_eq!(stats["tools"]["helper"]["usage"]["input_tokens"], 400, "{stats}");
    assert_eq!(stats["total"]["usage"]["output_tokens"], 80, "{stats}");
    let summary = client.get("/v1/conversations/talk/summary").is(200);
    assert_eq!(summary["usage"]["input_tokens"], 200, "{summary}");
    // The key is nowhere.
    let records = client.get("/v1/calls").text();
    assert!(!records.contains("sk-server") && records.contains("estimated_cost_usd"));
}

#[test]
fn what_does_not_exist_or_is_wrong_is_a_problem() {
    let model = calculating();
    let server = server(&model);
    let client = server.admin();
    client.post("/v1/agents/calculator/runs", &json!({"message": "x"})).problem(404, "not_found");
    client.get("/v1/runs/nothing").problem(404, "not_found");
    client.post("/v1/runs/nothing/resume", &json!({})).problem(404, "not_found");
    let twice = json!({"message": "a", "input": {"message": "b"}});
    client.post("/v1/agents/helper/runs", &twice).problem(400, "invalid_request");
    let wrong = client.post("/v1/agents/helper/runs", &json!({"input": {}})).is(200);
    assert_eq!(wrong["result"]["error_kind"], "invalid_arguments", "{wrong}");
    // The run of one tenant is nobody else's.
    let run = client.post("/v1/agents/helper/runs", &json!({"message": "x"})).is(200);
    let path = format!("/v1/runs/{}", run["run_id"].as_str().unwrap());
    client.get(&path).is(200);
    server.key("other", "operator").get(&path).problem(404, "not_found");
}

/// Writes a note, then waits, then is done.
fn saver() -> Model {
    Model::start(|request| match request["messages"].as_array().unwrap().len() {
        1 => vec![say("I write."), call("t1", "write_note", &json!({"message": "one"}))],
        3 => vec![
            call("t2", "write_note", &json!({"message": "two"})),
            call("t3", "wait", &json!({"seconds": 2})),
        ],
        _ => vec![say("Both are written.")],
    })
}

#[test]
fn a_run_goes_on_after_a_kill_and_repeats_nothing() {
    let model = saver();
    let server = server(&model);
    let client = server.admin();
    let mut events = client.stream("/v1/agents/helper/runs", &json!({"message": "Go"}));
    let run = events.next().unwrap().data["run_id"].as_str().unwrap().to_owned();
    // Killed in the second turn: its note is written, its wait is not over.
    let path = format!("/v1/runs/{run}");
    until("the second note is written", || {
        let notes = written(&client);
        (notes.len() == 2).then_some(())
    });
    let state = client.get(&path).is(200);
    assert_eq!((&state["has_ended"], &state["status"]), (&json!(false), &json!("running")));
    // Whoever drives it is alone: nothing may happen twice.
    let refused = client.post(&format!("{path}/resume"), &json!({})).problem(409, "conflict");
    let call = state["call_id"].as_str().unwrap();
    assert_eq!(refused["detail"], format!("this run is going on (call {call})"));
    drop(events);
    let server = server.kill_and_start();
    let client = server.admin();
    assert_eq!(model.requests().len(), 2);
    assert_eq!(client.get(&path).is(200)["status"], "interrupted");
    let answer = client.post(&format!("{path}/resume"), &json!({})).is(200);
    assert_eq!(answer["result"]["output"], "Both are written.", "{answer}");
    assert_eq!(answer["run_id"], run.as_str());
    // Nobody has paid for the turns before the kill, so this call does.
    assert_eq!(answer["result"]["usage"]["input_tokens"], 300, "{answer}");
    // The model was asked once more, and has heard everything.
    let requests = model.requests();
    assert_eq!(requests.len(), 3);
    let heard = requests[2]["messages"].as_array().unwrap();
    let answers = heard.last().unwrap()["content"].as_array().unwrap();
    assert_eq!((heard.len(), answers.len()), (5, 2), "{heard:?}");
    assert_eq!(answers[0]["content"][0]["text"], "two");
    let notes = until("all is recorded", || Some(written(&client)).filter(|it| it.len() == 3));
    let run_again = notes.iter().filter(|note| note["same_as"].is_null()).count();
    assert_eq!(run_again, 2, "{notes:?}");
    assert_eq!(client.get(&path).is(200)["status"], "ended");
    let again = client.post(&format!("{path}/resume"), &json!({})).is(200);
    assert_eq!(again["result"]["output"], "Both are written.");
    let stats = client.get("/v1/stats").is(200);
    assert_eq!(stats["tools"]["helper"]["usage"]["input_tokens"], 300, "{stats}");
}

#[test]
fn a_reader_hears_every_word() {
    let words: Vec<String> = (0..2_000).map(|at| format!("{at} ")).collect();
    let all = words.concat();
    let model = Model::start(move |_| vec![say_in_pieces(&words)]);
    let server = server(&model);
    let body = json!({"message": "Count."});
    let told = server.admin().stream("/v1/agents/helper/runs", &body).rest();
    let texts = told.iter().filter(|sent| sent.name == "text");
    let heard: String = texts.map(|sent| sent.data["text"].as_str().unwrap()).collect();
    assert!(heard == all, "{} of {} bytes", heard.len(), all.len());
    assert_eq!(told.last().unwrap().data["result"]["output"], all.as_str());
}

#[test]
fn a_conversation_goes_on_from_run_to_run() {
    let model = calculating();
    let server = server(&model);
    let client = server.admin();
    let ask = |client: &crate::http::Client, conversation: &str| {
        let body = json!({"message": "And now?", "conversation_id": conversation});
        let answer = client.post("/v1/agents/helper/runs", &body).is(200);
        answer["result"]["output"].as_str().unwrap().to_owned()
    };
    assert_eq!(ask(&client, "talk"), "It is \n42, after 3 messages.");
    assert_eq!(ask(&client, "talk"), "It is \n42, after 5 messages.");
    assert_eq!(ask(&client, "other"), "It is \n42, after 3 messages.");
    // Another tenant has said nothing in it.
    let other = server.key("other", "operator");
    assert_eq!(ask(&other, "talk"), "It is \n42, after 3 messages.");
    let server = server.kill_and_start();
    assert_eq!(ask(&server.admin(), "talk"), "It is \n42, after 7 messages.");
}

/// The records of notes.
fn written(client: &crate::http::Client) -> Vec<Value> {
    let page = client.get("/v1/calls?tool=write_note").is(200);
    page["records"].as_array().unwrap().clone()
}

#[test]
fn a_run_is_interrupted_by_cancelling_its_call() {
    let model = Model::start(|_| vec![call("t", "wait", &json!({"seconds": 60}))]);
    let server = server(&model);
    let client = server.admin();
    let mut events = client.stream("/v1/agents/helper/runs", &json!({"message": "Go"}));
    let begun = events.next().unwrap().data;
    let id = begun["call_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/runs/{}", begun["run_id"].as_str().unwrap());
    let (canceller, run) = (server.admin(), path.clone());
    let cancelling = thread::spawn(move || {
        until("it is kept", || (canceller.get(&run).status == 200).then_some(()));
        until("it can be cancelled", || {
            let path = format!("/v1/calls/{id}/cancel");
            (canceller.post(&path, &json!({})).value()["cancelled"] == 1).then_some(())
        });
    });
    let last = events.up_to("result").pop().unwrap();
    assert_eq!(last.data["result"]["error_kind"], "cancelled", "{}", last.data);
    cancelling.join().unwrap();
    until("its record is kept", || {
        (client.get(&path).is(200)["status"] == "cancelled").then_some(())
    });
}

#[test]
fn deferred_tools_are_listed_once_they_were_found() {
    let project = Project::empty();
    let deferred = WRITE.replace("behaviour:", "exposure: deferred\nbehaviour:");
    project.write("tools/write.yaml", &deferred);
    let server = Server::run(Arc::new(project), &[], &[], None);
    let client = server.admin();
    let names = |conversation: &str| -> Vec<String> {
        let path = format!("/v1/tools?format=anthropic&conversation_id={conversation}");
        let listed = client.get(&path).is(200);
        let tools = listed["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let has = |conversation: &str, name: &str| names(conversation).iter().any(|own| own == name);
    assert!(has("talk", "tool_search") && !has("talk", "write_note"));
    let search = json!({
        "tool": "tool_search", "arguments": {"query": "write a note"}, "conversation_id": "talk",
    });
    let found = client.post("/v1/calls", &search).is(200);
    assert_eq!(found["output"]["tools"][0]["name"], "write_note", "{found}");
    assert!(has("talk", "write_note") && !has("other", "write_note"));
}
