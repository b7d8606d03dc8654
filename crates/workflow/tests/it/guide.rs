//! The workflow of the guide, run as it stands there.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass::{Behaviour, CallRequest, Engine, Kind, TenantId, ToolBuilder};
use windlass_workflow::store::MemoryRuns;
use windlass_workflow::{Answer, Runs, Workflows};

use crate::setup::{Done, House, waiting};

const GUIDE: &str = include_str!("../../../../docs/guides/workflows.md");

fn engine(done: &Done) -> (Engine, Runs) {
    let workflows = Workflows::new(Arc::new(MemoryRuns::default()));
    let kinds = workflows.clone();
    let read = |name: &str, answer: fn(Value) -> Value| {
        ToolBuilder::from_fn(name, move |input: Value| async move { answer(input) })
            .behaviour(Behaviour::READ_ONLY)
    };
    let (pay, cancel) = (done.clone(), done.clone());
    let engine = Engine::builder()
        .kind(Kind::Workflow, move |spec| kinds.bind(spec))
        .tool(read("get_ticket", |input| {
            let refund: i64 = input["id"].as_str().unwrap().parse().unwrap();
            json!({"body": "It broke.", "refund": refund})
        }))
        .tool(read("search_articles", |_| json!({"results": [{"url": "a"}, {"url": "b"}]})))
        .tool(read("webscraper", |input| json!({"text": format!("page {}", input["url"])})))
        .tool(read("invoke_case_analyst", |_| json!({"text": "Sorry."})))
        .tool(ToolBuilder::from_fn("pay_refund", move |input: Value| {
            pay.say(format!("pay {}", input["amount"]));
            async move { json!({"id": "r1"}) }
        }))
        .tool(ToolBuilder::from_fn("cancel_refund", move |input: Value| {
            cancel.say(format!("cancel {}", input["id"]));
            async move { json!({}) }
        }))
        .build()
        .unwrap();
    let text = GUIDE.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let report = engine.load_text("guide.yaml", text);
    assert!(report.errors.is_empty(), "{:#?}", report.errors);
    let runs = Runs::new(&engine, &workflows);
    (engine, runs)
}

#[tokio::test]
async fn the_support_desk_of_the_guide_refunds_and_asks() {
    let done = Done::default();
    let (engine, runs) = engine(&done);
    let call =
        |refund: &str| engine.call(CallRequest::new("answer_ticket", json!({"ticket_id": refund})));
    let answer = "Sorry.\n- a\n- b";
    assert_eq!(House::value(&call("0").await), json!({"answer": answer, "refund": null}));
    assert_eq!(House::value(&call("100").await), json!({"answer": answer, "refund": "r1"}));
    let run = waiting(&call("900").await);
    let (own, action) = (TenantId::default(), Some("approve".to_owned()));
    runs.answer(&own, &run, Answer { action, ..Answer::default() }).await.unwrap();
    let result = runs.go_on(&own, &run).await.unwrap().unwrap();
    assert_eq!(House::value(&result), json!({"answer": answer, "refund": "r1"}));
    assert_eq!(done.all(), ["pay 100", "pay 900"]);
}
