//! Agents against a scripted model on loopback that records every request.

mod answers;
mod limits;
mod resuming;
mod script;
mod specialists;

use serde_json::json;
use windlass::{CallRequest, ErrorKind, Lang, PageRequest, RecordFilter, TenantId};

use crate::support::{Site, json as json_reply, reply, value};
use script::{Desk, call, chat, gemini, gemini_call, message, say, sse, whole};

const HELPER: &str = "
name: helper
kind: agent
description: Answers questions.
model: claude-sonnet-4-20250514
system: Be brief.
tools: [get_stock]
";

#[tokio::test]
async fn an_agent_calls_tools_until_it_has_its_answer() {
    let model = Site::start(script::in_turn(vec![
        message(&[say("Let me look."), call("toolu_1", "get_stock", &json!({"item": "tea"}))]),
        message(&[say("There are 7."), say("Anything else?")]),
    ]))
    .await;
    let desk = Desk::new(&model, "anthropic", HELPER);
    let result = desk.run("helper", json!({"message": "How much tea?"})).await;
    let output = result.output().unwrap();
    assert_eq!(output.to_text(), "There are 7.\nAnything else?");
    let about = output.metadata.get("agentMetadata").unwrap();
    assert_eq!((&about["agentName"], &about["turnsUsed"]), (&json!("helper"), &json!(2)));
    assert_eq!(about["toolCallsMade"], json!(["get_stock"]));
    assert_eq!(about["tokensUsed"], json!({"input": 200, "output": 40}));
    // S4.16's price: 0.2 * 0.003 + 0.04 * 0.015.
    let usage = result.usage.as_deref().unwrap();
    assert!((usage.cost_usd - 0.0012).abs() < 1e-9, "{usage:?}");

    let seen = model.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].target, "/v1/messages");
    assert_eq!(seen[0].headers["x-api-key"], "sk-test");
    assert_eq!(seen[0].headers["anthropic-version"], "2023-06-01");
    let first = seen[0].json();
    assert_eq!(first["model"], "claude-sonnet-4-20250514");
    assert_eq!((&first["stream"], &first["max_tokens"]), (&json!(true), &json!(4096)));
    assert_eq!(first["system"][0]["text"], "Be brief.");
    // What does not change is marked for the cache.
    assert_eq!(first["system"][0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(first["tools"][0]["name"], "get_stock");
    assert_eq!(first["tools"][0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(first["tools"].as_array().unwrap().len(), 1);
    assert_eq!(first["messages"][0]["content"][0]["text"], "How much tea?");
    let second = seen[1].json();
    let messages = second["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3);
    assert_eq!(messages[1]["content"][1]["input"], json!({"item": "tea"}));
    let answered = &messages[2]["content"][0];
    assert_eq!(
        (&answered["type"], &answered["tool_use_id"]),
        (&json!("tool_result"), &json!("toolu_1"))
    );
    assert_eq!(answered["content"][0]["text"], "7");

    // The call of the tool is nested in the agent's, in the agent's name.
    let (tenant, filter) = (TenantId::default(), RecordFilter::default());
    let page = desk.engine.records().query(&tenant, &filter, PageRequest::first(9)).await;
    let records = page.unwrap().records;
    let own = records.iter().find(|record| &*record.tool_name == "helper").unwrap();
    let stock = records.iter().find(|record| &*record.tool_name == "get_stock").unwrap();
    assert_eq!(stock.caller.parent, Some(own.id));
    assert_eq!(stock.caller.caller_id.as_deref(), Some("helper"));
    let kept = own.details.as_ref().unwrap().usage.unwrap();
    assert_eq!((kept.input_tokens, kept.output_tokens), (200, 40));
}

#[tokio::test]
async fn openai_and_gemini_are_spoken_as_well() {
    let model = Site::start(script::in_turn(vec![
        chat("", &[("call_1", "get_stock", "{\"item\": \"tea\"}")]),
        chat("Seven.", &[]),
    ]))
    .await;
    let definition = HELPER.replace("claude-sonnet-4-20250514", "local/qwen3");
    let desk = Desk::new(&model, "openai", &definition);
    let result = desk.run("helper", json!({"message": "Tea?"})).await;
    assert_eq!(result.output().unwrap().to_text(), "Seven.");
    assert_eq!(result.usage.as_deref().unwrap().input_tokens, 200);
    let seen = model.seen();
    assert_eq!(seen[0].target, "/chat/completions");
    assert_eq!(seen[0].headers["authorization"], "Bearer sk-test");
    let (first, second) = (seen[0].json(), seen[1].json());
    assert_eq!(first["model"], "qwen3");
    assert_eq!(first["messages"][0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!(first["stream_options"], json!({"include_usage": true}));
    assert_eq!(first["tools"][0]["function"]["name"], "get_stock");
    assert_eq!(second["messages"][2]["tool_calls"][0]["id"], "call_1");
    assert_eq!(second["messages"][3]["role"], "tool");
    assert_eq!(second["messages"][3]["tool_call_id"], "call_1");

    let model = Site::start(script::in_turn(vec![
        gemini(&[gemini_call("get_stock", &json!({"item": "tea"}))]),
        gemini(&[json!({"text": "Seven"}), json!({"text": "."})]),
    ]))
    .await;
    let definition = HELPER.replace("claude-sonnet-4-20250514", "gemini-2.5-pro");
    let desk = Desk::new(&model, "gemini", &definition);
    let result = desk.run("helper", json!({"message": "Tea?"})).await;
    assert_eq!(result.output().unwrap().to_text(), "Seven.");
    let seen = model.seen();
    assert_eq!(seen[0].target, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse");
    assert_eq!(seen[0].headers["x-goog-api-key"], "sk-test");
    let (first, second) = (seen[0].json(), seen[1].json());
    assert_eq!(first["systemInstruction"]["parts"][0]["text"], "Be brief.");
    assert_eq!(first["tools"][0]["functionDeclarations"][0]["name"], "get_stock");
    assert_eq!(second["contents"][2]["parts"][0]["functionResponse"]["name"], "get_stock");
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let calls = json!({"content": [call("toolu_1", "get_stock", &json!({}))],
        "usage": {"input_tokens": 5, "output_tokens": 2}});
    let model = Site::start(script::in_turn(vec![whole(&calls), message(&[say("Seven.")])])).await;
    let desk = Desk::new(&model, "anthropic", &format!("{HELPER}stream: false\n"));
    let result = desk.run("helper", json!({"message": "Tea?"})).await;
    assert_eq!(result.output().unwrap().to_text(), "Seven.");
    assert_eq!(model.seen()[0].json()["stream"], false);
}

#[tokio::test]
async fn a_busy_model_is_asked_again_and_an_overloaded_one_is_replaced() {
    let model = Site::start(script::in_turn(vec![
        reply(429, &[("retry-after", "0"), ("content-type", "application/json")], "{}"),
        message(&[say("Hello.")]),
    ]))
    .await;
    let desk = Desk::new(&model, "anthropic", HELPER);
    assert_eq!(
        desk.run("helper", json!({"message": "Hi"})).await.output().unwrap().to_text(),
        "Hello."
    );
    assert_eq!(model.seen().len(), 2);

    let busy =
        sse(&[json!({"type": "error", "error": {"type": "overloaded_error", "message": "no"}})]);
    for overloaded in [json_reply(529, &json!({"error": {"type": "overloaded_error"}})), busy] {
        let model = Site::start(script::in_turn(vec![overloaded, message(&[say("Hi.")])])).await;
        let desk = Desk::new(&model, "anthropic", HELPER);
        let result = desk.run("helper", json!({"message": "Hi"})).await;
        assert!(result.is_success(), "{:?}", result.outcome);
        assert_eq!(model.seen()[1].json()["model"], "claude-haiku-4-20250514");
    }
}

#[tokio::test]
async fn a_failure_is_told_to_operators_and_to_models_in_their_language() {
    let model = Site::start(|seen| {
        json_reply(401, &json!({"error": format!("wrong key {}", seen.headers["x-api-key"])}))
    })
    .await;
    let desk = Desk::in_language(&model, "anthropic", HELPER, Lang::Zh);
    let result = desk.run("helper", json!({"message": "Hi"})).await;
    let error = result.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::CredentialInvalid);
    assert!(error.message().starts_with("Agent helper 执行失败: "), "{error}");
    let told = error.feedback(Lang::Zh);
    assert!(
        told.starts_with("专家 Agent 暂时不可用: ") && told.ends_with(". 请直接回答用户。"),
        "{told}"
    );
    assert!(told.contains("wrong key [hidden]"), "{told}");
    assert!(!format!("{error:?}{told}").contains("sk-test"));
}

#[tokio::test]
async fn broken_streams_end_in_one_result() {
    // Nothing was asked for yet: the model is asked once more.
    let cut = sse(&[json!({"type": "message_start", "message": {}})]);
    let model = Site::start(script::in_turn(vec![cut.clone(), message(&[say("Hi.")])])).await;
    let desk = Desk::new(&model, "anthropic", HELPER);
    assert_eq!(
        desk.run("helper", json!({"message": "Hi"})).await.output().unwrap().to_text(),
        "Hi."
    );
    let model = Site::start(script::in_turn(vec![cut.clone(), cut])).await;
    let desk = Desk::new(&model, "anthropic", HELPER);
    let result = desk.run("helper", json!({"message": "Hi"})).await;
    assert_eq!(result.error().unwrap().kind(), ErrorKind::Network);
    // One call is whole, the other is cut: both have an answer, and the run goes on.
    let mut events = script::events(&[
        call("toolu_1", "get_stock", &json!({"item": "tea"})),
        call("toolu_2", "get_stock", &json!({"item": "milk"})),
    ]);
    events.truncate(events.len() - 4);
    let model = Site::start(script::in_turn(vec![sse(&events), message(&[say("Seven.")])])).await;
    let desk = Desk::new(&model, "anthropic", HELPER);
    let result = desk.run("helper", json!({"message": "Tea?"})).await;
    assert_eq!(result.output().unwrap().to_text(), "Seven.");
    let messages = model.seen()[1].json()["messages"].clone();
    let answers = messages[2]["content"].as_array().unwrap();
    assert_eq!(answers.len(), messages[1]["content"].as_array().unwrap().len());
    assert_eq!(answers.last().unwrap()["is_error"], true);
}

#[tokio::test]
async fn definitions_that_cannot_be_right_are_refused() {
    let model = Site::start(|_| json_reply(500, &json!({}))).await;
    for (wrong, why) in [
        ("max_turns: 0", "max_turns"),
        ("temperature: 9", "temperature"),
        ("budget: {money: 3}", "money"),
        ("extract: {score: '('}", "extract"),
        ("tools: get_stock", "tools"),
    ] {
        let definition = HELPER.replace("tools: [get_stock]", wrong);
        let report =
            Desk::empty(&model, "anthropic", Lang::En).engine.load_text("a.yaml", &definition);
        let told = report.errors.iter().map(ToString::to_string).collect::<String>();
        assert!(told.contains(why), "{wrong}: {told}");
    }
    let desk = Desk::empty(&model, "anthropic", Lang::En);
    let report = desk.engine.load_text("a.yaml", "name: a\nkind: agent\n");
    assert!(report.errors[0].to_string().contains("needs a `model`"), "{:?}", report.errors);
    let unknown = HELPER.replace("claude-sonnet-4-20250514", "unknown-model");
    assert!(desk.engine.load_text("b.yaml", &unknown).errors.is_empty());
    let result = desk.engine.call(CallRequest::new("helper", json!({"message": "a"}))).await;
    assert_eq!(result.error().unwrap().kind(), ErrorKind::ExecutorNotFound);
    assert!(model.seen().is_empty());
}

#[tokio::test]
async fn a_tool_asks_a_model_and_its_call_pays() {
    let answer = json!({"content": [say("Bonjour.")],
        "usage": {"input_tokens": 1000, "output_tokens": 0}});
    let model = Site::start(script::in_turn(vec![whole(&answer), message(&[say("Salut.")])])).await;
    let desk = Desk::empty(&model, "anthropic", Lang::En);
    for expected in ["Bonjour.", "Salut."] {
        let result = desk.run("get_translation", json!({"text": "Hello."})).await;
        assert_eq!(result.output().unwrap().to_text(), expected);
        assert!(result.usage.as_deref().unwrap().cost_usd > 0.0);
    }
    let asked = model.seen()[0].json();
    assert_eq!(asked["messages"][0]["content"][0]["text"], "Hello.");
    assert_eq!((&asked["stream"], asked.get("tools")), (&json!(false), None));
}

#[tokio::test]
async fn deferred_tools_are_found_and_then_called() {
    let model = Site::start(script::in_turn(vec![
        message(&[call("t1", "tool_search", &json!({"query": "exchange rate of currencies"}))]),
        message(&[call("t2", "get_exchange_rate", &json!({}))]),
        message(&[say("Seven.")]),
    ]))
    .await;
    let definition = HELPER.replace("[get_stock]", "[get_stock, get_exchange_rate]");
    let desk = Desk::new(&model, "anthropic", &definition);
    let result = desk.run("helper", json!({"message": "Rate?"})).await;
    assert_eq!(result.output().unwrap().to_text(), "Seven.");
    let names = |at: usize| -> Vec<String> {
        let body = model.seen()[at].json();
        let tools = body["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(0), ["get_stock", "tool_search"]);
    assert_eq!(names(1), ["get_exchange_rate", "get_stock", "tool_search"]);
    // What the agent may not call, it does not find.
    let found = &model.seen()[1].json()["messages"][2]["content"][0]["content"][0]["text"];
    let found: serde_json::Value = serde_json::from_str(found.as_str().unwrap()).unwrap();
    let found = found["tools"].as_array().unwrap();
    assert!(found.iter().all(|tool| tool["name"] != "get_secret_rate"), "{found:?}");
    assert!(found.iter().any(|tool| tool["name"] == "get_exchange_rate"), "{found:?}");
    // Another conversation has not found it.
    let all = desk.engine.active_tools(None);
    assert!(all.iter().all(|tool| tool.name().as_str() != "get_exchange_rate"));
    let direct = desk.engine.call(CallRequest::new("tool_search", json!({"query": "汇率"}))).await;
    assert_eq!(value(&direct)["tools"][0]["name"], "get_exchange_rate");
}
