//! Agents that call agents, and the events of that (S4.12).

use serde_json::json;
use windlass::{Context, ErrorKind, EventBody};
use windlass_executors::agent::cost_summary;

use super::script::{Desk, call, message, say};
use crate::support::{Site, json as json_reply};

const TEAM: &str = "
name: coordinator
kind: agent
model: claude-sonnet-4-20250514
system: You coordinate.
tools: [invoke_expert, save_note]
---
name: invoke_expert
kind: agent_invocation
description: Knows things.
model: claude-haiku-4-20250514
system: You are an expert.
tools: [get_stock, invoke_expert]
exposure: hidden
parameters:
  - {name: query, type: string, required: true}
extract: {level: 'level (\\w+)'}
";

/// Plays the coordinator and the expert, by what they are told to be.
async fn team() -> Site {
    Site::start(|seen| {
        let body = seen.json();
        let turn = body["messages"].as_array().unwrap().len();
        match (body["system"][0]["text"].as_str().unwrap(), turn) {
            ("You coordinate.", 1) => message(&[
                say("I ask."),
                call("toolu_a", "invoke_expert", &json!({"query": "a"})),
                call("toolu_b", "invoke_expert", &json!({"query": "b"})),
                call("toolu_c", "save_note", &json!({"text": "c"})),
            ]),
            ("You coordinate.", 3) => message(&[say("All is well.")]),
            ("You are an expert.", 1) => {
                message(&[call("toolu_s", "get_stock", &json!({"item": "tea"}))])
            }
            ("You are an expert.", 3) => message(&[say("It is level high.")]),
            _ => json_reply(500, &json!({"error": "unexpected"})),
        }
    })
    .await
}

#[tokio::test]
async fn specialists_run_as_tools_and_what_they_cost_adds_up() {
    let model = team().await;
    let desk = Desk::new(&model, "anthropic", TEAM);
    let mut events = desk.engine.events();
    let context = Context::for_conversation("front", "talk");
    let result = desk.run_as("coordinator", json!({"message": "Go"}), context).await;
    assert_eq!(result.output().unwrap().to_text(), "All is well.");
    // Two turns of its own, two of each expert.
    let total = result.usage.as_deref().unwrap();
    assert_eq!((total.input_tokens, total.output_tokens), (600, 120));
    let own = desk.engine.records().get(&Default::default(), result.id).await.unwrap().unwrap();
    let details = own.details.unwrap();
    assert_eq!(details.usage.unwrap().input_tokens, 200);
    assert_eq!(details.total_usage.unwrap().input_tokens, 600);
    // The expert's first message is its input (S4.10), and it sees its own tools.
    let seen = model.seen();
    let expert =
        seen.iter().find(|seen| seen.text().contains("You are an expert.")).unwrap().json();
    assert_eq!(expert["messages"][0]["content"][0]["text"], "{\n  \"query\": \"a\"\n}");
    assert_eq!(expert["tools"].as_array().unwrap().len(), 1, "it does not see itself");

    let mut told = Vec::new();
    let mut nested = 0;
    while let Ok(Some(event)) =
        tokio::time::timeout(std::time::Duration::from_millis(50), events.next()).await
    {
        if let EventBody::ExecutionStarted { call } = &event.body {
            assert_eq!(call.caller.conversation.as_deref(), Some("talk"));
            nested += usize::from(call.caller.parent.is_some());
        }
        for event in event.to_queue_events() {
            let event = json!(event);
            if event["toolUseId"] == "toolu_a" {
                told.push(event["type"].as_str().unwrap().to_owned());
            }
        }
    }
    // Two experts, what each calls, and the note.
    assert_eq!(nested, 5);
    assert_eq!(
        told,
        [
            "tool_queued",
            "agent_started",
            "tool_started",
            "agent_progress",
            "agent_progress",
            "tool_completed",
            "agent_completed",
        ]
    );
}

#[tokio::test]
async fn facts_are_read_out_of_answers() {
    let model = team().await;
    let desk = Desk::new(&model, "anthropic", TEAM);
    let result = desk.run("invoke_expert", json!({"query": "a"})).await;
    let about = result.output().unwrap().metadata.get("agentMetadata").unwrap();
    assert_eq!((&about["agentName"], &about["level"]), (&json!("expert"), &json!("high")));
}

#[tokio::test]
async fn what_an_agent_took_is_told_in_the_documents_form() {
    let model = team().await;
    let desk = Desk::new(&model, "anthropic", TEAM);
    let result = desk.run("invoke_expert", json!({"query": "a"})).await;
    let mut summary = json!(cost_summary([&result]));
    let of_expert = summary[0].as_object_mut().unwrap();
    assert!(of_expert.remove("durationMs").unwrap().is_u64());
    // 0.2 * 0.003 + 0.04 * 0.015
    let cost = of_expert.remove("estimatedCostUsd").unwrap().as_f64().unwrap();
    assert!((cost - 0.0012).abs() < 1e-9, "{cost}");
    assert_eq!(
        summary,
        json!([{"agentName": "expert", "inputTokens": 200, "outputTokens": 40, "turnsUsed": 2}])
    );
}

#[tokio::test]
async fn one_specialist_that_fails_keeps_nobody_from_answering() {
    let model = Site::start(|seen| {
        let body = seen.json();
        match (
            body["system"][0]["text"].as_str().unwrap(),
            body["messages"].as_array().unwrap().len(),
        ) {
            ("You coordinate.", 1) => {
                message(&[call("toolu_a", "invoke_expert", &json!({"query": "a"}))])
            }
            ("You coordinate.", 3) => message(&[say("I know it myself.")]),
            _ => json_reply(400, &json!({"error": "no"})),
        }
    })
    .await;
    let desk = Desk::new(&model, "anthropic", TEAM);
    let result = desk.run("coordinator", json!({"message": "Go"})).await;
    assert_eq!(result.output().unwrap().to_text(), "I know it myself.");
    let body = model.seen().pop().unwrap().json();
    let answer = body["messages"][2]["content"][0].clone();
    assert_eq!(answer["is_error"], true);
    let told = answer["content"][0]["text"].as_str().unwrap();
    assert!(told.contains("Answer the user yourself"), "{told}");
}

#[tokio::test]
async fn agents_that_call_agents_have_a_depth() {
    let model = Site::start(|seen| match seen.json()["messages"].as_array().unwrap().len() {
        1 => message(&[call("t", "other", &json!({"message": "deeper"}))]),
        _ => message(&[say("Enough.")]),
    })
    .await;
    let endless = "
name: one
kind: agent
model: claude-sonnet-4-20250514
tools: [other]
---
name: other
kind: agent
model: claude-sonnet-4-20250514
tools: [one, other]
";
    let model_of_two = Site::start(move |seen| {
        let body = seen.json();
        let other = body["tools"][0]["name"].as_str().unwrap().to_owned();
        match body["messages"].as_array().unwrap().len() {
            1 => message(&[call("t", &other, &json!({"message": "deeper"}))]),
            _ => message(&[say("Enough.")]),
        }
    })
    .await;
    drop(model);
    let desk = Desk::new(&model_of_two, "anthropic", endless);
    let result = desk.run("one", json!({"message": "Go"})).await;
    assert_eq!(result.output().unwrap().to_text(), "Enough.");
    let page = windlass::PageRequest::first(50);
    let filter = windlass::RecordFilter::default();
    let records = desk.engine.records().query(&Default::default(), &filter, page).await.unwrap();
    let too_deep = records.records.iter().filter(|record| {
        record.error.as_ref().is_some_and(|error| error.kind == ErrorKind::DepthExceeded)
    });
    assert_eq!((records.records.len(), too_deep.count()), (7, 1));
}
