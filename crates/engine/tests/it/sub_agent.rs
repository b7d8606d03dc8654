//! Sub-agents: calls under a name of their own, and the history of them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::{
    Agent, CallRequest, Caller, CallerType, Context, Engine, ErrorKind, PageRequest, RecordFilter,
    Status, SubAgent, TenantId, ToolBuilder, tool,
};

/// Says who asks.
#[tool(read_only)]
async fn get_agent(agent: Arc<Agent>) -> String {
    agent.id.clone()
}

fn engine() -> Engine {
    Engine::builder()
        .tool(get_agent::tool())
        .tool(ToolBuilder::from_fn("get_ok", |_: Value| async { "ok" }))
        .tool(ToolBuilder::from_fn("save_broken", |_: Value| async { Err::<(), _>("broken") }))
        .tool(
            ToolBuilder::from_fn("get_slow", |_: Value| async {
                tokio::time::sleep(Duration::from_secs(20)).await;
            })
            .behaviour(windlass::Behaviour::READ_ONLY),
        )
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_summary_in_the_documents_form() {
    let agent = SubAgent::new(&engine(), "tool_sub_agent_001").parent("conversation_agent_001");
    agent.execute("get_ok", json!({})).await;
    agent.execute("save_broken", json!({})).await;
    let slow = CallRequest::new("get_slow", json!({})).timeout(Duration::from_secs(1));
    agent.call(slow.call_ref("toolu_1")).await;
    agent.execute("get_ok", "{}").await;

    let mut summary = serde_json::to_value(agent.summary()).unwrap();
    for detail in summary["call_details"].as_array_mut().unwrap() {
        let detail = detail.as_object_mut().unwrap();
        assert!(detail.remove("call_id").unwrap().is_string());
        assert!(detail.remove("executed_at").unwrap().is_string());
        let took = detail.remove("execution_time").unwrap().as_f64().unwrap();
        assert_eq!(took >= 1.0, detail.contains_key("call_ref"), "seconds: {took}");
    }
    let timed_out = "Tool get_slow timed out after 1000ms";
    assert_eq!(
        summary,
        json!({
            "agent_id": "tool_sub_agent_001",
            "parent_agent_id": "conversation_agent_001",
            "total_calls": 4,
            "successful_calls": 2,
            "success_rate": 50.0,
            "tool_usage": {"get_ok": 2, "get_slow": 1, "save_broken": 1},
            "call_details": [
                {"tool_name": "get_ok", "is_success": true},
                {"tool_name": "save_broken", "is_success": false,
                 "error": "broken", "error_type": "execution_error"},
                {"call_ref": "toolu_1", "tool_name": "get_slow", "is_success": false,
                 "error": timed_out, "error_type": "timeout"},
                {"tool_name": "get_ok", "is_success": true},
            ],
        })
    );
    assert_eq!(
        serde_json::to_value(agent.brief_summary()).unwrap(),
        json!({
            "total_calls": 4,
            "success_rate": 50.0,
            "tool_usage": {"get_ok": 2, "get_slow": 1, "save_broken": 1},
            "has_errors": true,
        })
    );
}

#[tokio::test]
async fn before_the_first_call_there_is_nothing_to_tell() {
    let agent = SubAgent::new(&engine(), "idle");
    assert!(agent.execute_batch(Vec::<(&str, Value)>::new()).await.is_empty());
    assert_eq!(
        serde_json::to_value(agent.summary()).unwrap(),
        json!({
            "agent_id": "idle",
            "total_calls": 0,
            "successful_calls": 0,
            "success_rate": 0.0,
            "tool_usage": {},
            "call_details": [],
        })
    );
    assert!(!agent.brief_summary().has_errors);
}

#[tokio::test]
async fn every_failure_has_the_documents_name() {
    let agent = SubAgent::new(&engine(), "a");
    agent.execute("get_nothing", json!({})).await;
    agent.execute("get_ok", json!([1])).await;
    agent.execute("save_broken", json!({})).await;
    let types: Vec<_> = agent.history().into_iter().filter_map(|call| call.error_type).collect();
    assert_eq!(types, ["tool_not_found", "validation_error", "execution_error"]);
}

#[tokio::test]
async fn calls_are_recorded_under_the_agents_name() {
    let engine = engine();
    let tenant = TenantId::new("acme");
    // Whatever the context says, an agent is no workflow node.
    let context = Context::new(Caller {
        tenant: tenant.clone(),
        user: Some("ann".into()),
        caller_id: Some("somebody else".into()),
        caller_type: CallerType::WorkflowNode,
        ..Caller::default()
    });
    let agent = SubAgent::new(&engine, "worker").conversation("talk-1").context(context);
    // A context that a request brings does not make it somebody else's.
    let foreign = CallRequest::new("get_ok", json!({})).context(Context::default());
    agent.call(foreign).await;
    agent.execute_batch([("get_ok", json!({})), ("nobody", json!({}))]).await;

    let page = engine
        .records()
        .query(&tenant, &RecordFilter::default(), PageRequest::first(10))
        .await
        .unwrap();
    assert_eq!(page.records.len(), 3);
    for record in &page.records {
        assert_eq!(
            *record.caller,
            Caller {
                tenant: tenant.clone(),
                user: Some("ann".into()),
                caller_id: Some("worker".into()),
                caller_type: CallerType::ConversationAgent,
                conversation: Some("talk-1".into()),
                ..Caller::default()
            }
        );
    }
    // The history points to the records.
    let mut recorded: Vec<_> = page.records.iter().map(|record| record.id).collect();
    recorded.reverse();
    assert_eq!(agent.history().iter().map(|call| call.call_id).collect::<Vec<_>>(), recorded);
}

#[tokio::test]
async fn a_tool_that_asks_for_the_agent_gets_the_sub_agent_or_the_one_given() {
    let engine = engine();
    let own = SubAgent::new(&engine, "own");
    assert_eq!(own.execute("get_agent", json!({})).await.output().unwrap().to_text(), "own");
    let given = Context::default().agent(Arc::new(Agent::new("given", "Given")));
    let other = SubAgent::new(&engine, "own").context(given);
    assert_eq!(other.execute("get_agent", json!({})).await.output().unwrap().to_text(), "given");
}

#[tokio::test(start_paused = true)]
async fn a_batch_runs_as_one_and_is_answered_in_order() {
    let engine = engine();
    let mut events = engine.events();
    let agent = SubAgent::new(&engine, "a");
    let results = agent
        .execute_batch([("get_slow", json!({})), ("get_nothing", json!({})), ("get_ok", json!({}))])
        .await;
    let errors: Vec<_> = results.iter().map(|result| result.error().map(|e| e.kind())).collect();
    assert_eq!(errors, [None, Some(ErrorKind::ToolNotFound), None]);
    let asked: Vec<_> = agent.history().iter().map(|call| call.tool_name.to_string()).collect();
    assert_eq!(asked, ["get_slow", "get_nothing", "get_ok"]);
    assert_eq!(events.next().await.unwrap().body.name(), "tool_queued");
}

#[tokio::test]
async fn figures_count_beyond_the_history() {
    let agent = SubAgent::new(&engine(), "busy").max_history(3);
    for number in 0..10 {
        let tool = if number % 5 == 0 { "save_broken" } else { "get_ok" };
        agent.call(CallRequest::new(tool, json!({})).call_ref(number.to_string())).await;
    }
    let refs: Vec<_> = agent.history().iter().filter_map(|call| call.call_ref.clone()).collect();
    assert_eq!(refs.iter().map(|id| &**id).collect::<Vec<_>>(), ["7", "8", "9"]);
    let summary = agent.summary();
    assert_eq!((summary.total_calls, summary.successful_calls), (10, 8));
    assert_eq!((summary.success_rate, summary.tool_usage["get_ok"]), (80.0, 8));
    // The failures have left the list, but not the figures.
    assert!(agent.brief_summary().has_errors);

    let forgetful = SubAgent::new(&engine(), "forgetful").max_history(0);
    forgetful.execute("get_ok", json!({})).await;
    assert_eq!((forgetful.history().len(), forgetful.summary().total_calls), (0, 1));
}

#[tokio::test]
async fn made_up_names_do_not_pile_up() {
    let agent = SubAgent::new(&engine(), "a");
    for number in 0..20 {
        agent.execute(format!("made_up_{number}"), json!({})).await;
    }
    assert_eq!(json!(agent.summary().tool_usage), json!({"(unknown tool)": 20}));
}

#[tokio::test]
async fn the_callback_comes_after_the_history() {
    let seen: Arc<Mutex<Vec<(String, u64)>>> = Arc::default();
    let agent: Arc<Mutex<Option<SubAgent>>> = Arc::default();
    let callback = {
        let (seen, agent) = (Arc::clone(&seen), Arc::clone(&agent));
        move |result: &windlass::CallResult| {
            let agent = agent.lock().clone().unwrap();
            let last = agent.history().pop().unwrap();
            assert_eq!(last.call_id, result.id);
            seen.lock().push((last.tool_name.to_string(), agent.summary().total_calls));
        }
    };
    let made = SubAgent::new(&engine(), "a").on_result(callback);
    *agent.lock() = Some(made.clone());
    made.execute("get_ok", json!({})).await;
    made.execute_batch([("save_broken", json!({})), ("nobody", json!({}))]).await;
    let expected = [("get_ok", 1), ("save_broken", 2), ("nobody", 3)];
    assert_eq!(*seen.lock(), expected.map(|(tool, count)| (tool.to_owned(), count)));
    // Lets go of the agent, which holds the callback that holds it.
    *agent.lock() = None;
}

#[tokio::test]
async fn a_callback_that_panics_harms_nobody() {
    let agent = SubAgent::new(&engine(), "a").on_result(|_| panic!("the callback's own fault"));
    assert!(agent.execute("get_ok", json!({})).await.is_success());
    let results = agent.execute_batch([("get_ok", json!({})), ("get_ok", json!({}))]).await;
    assert!(results.iter().all(windlass::CallResult::is_success));
    assert_eq!(agent.summary().successful_calls, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clones_share_a_history_and_others_do_not() {
    let engine = engine();
    let (one, other) = (SubAgent::new(&engine, "one"), SubAgent::new(&engine, "other"));
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let agent = one.clone();
            tokio::spawn(async move {
                agent.execute("get_ok", json!({})).await;
                agent.execute_batch([("get_ok", json!({})), ("save_broken", json!({}))]).await;
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let summary = one.summary();
    assert_eq!((summary.total_calls, summary.successful_calls), (60, 40));
    assert_eq!(summary.call_details.len(), 60);
    assert_eq!(other.summary().total_calls, 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_in_the_records_but_not_in_the_history() {
    let engine = engine();
    let agent = SubAgent::new(&engine, "a");
    let call = agent.execute("get_slow", json!({}));
    assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
    assert_eq!(agent.summary().total_calls, 0);
    let filter = RecordFilter { status: Some(Status::Cancelled), ..RecordFilter::default() };
    let page = engine
        .records()
        .query(&TenantId::default(), &filter, PageRequest::first(10))
        .await
        .unwrap();
    assert_eq!(page.records.len(), 1);
}
