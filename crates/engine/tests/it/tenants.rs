//! Tools of tenants: each sees its own and the shared ones, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass::{
    Behaviour, CallRequest, CallResult, Caller, Context, Engine, Error, ErrorKind, Event, Lang,
    Session, TenantId, ToolBuilder, Tools, tool,
};

use crate::support::kind;

fn tenant(name: &str) -> TenantId {
    TenantId::new(name)
}

/// A tool that says whose it is.
fn says(name: &str, word: &'static str) -> ToolBuilder {
    ToolBuilder::from_fn(name, move |_: Value| async move { word }).behaviour(Behaviour::READ_ONLY)
}

fn request(name: &str, tool: &str) -> CallRequest {
    let caller = Caller { tenant: tenant(name), ..Caller::default() };
    CallRequest::new(tool, json!({})).context(Context::new(caller))
}

async fn ask(engine: &Engine, name: &str, tool: &str) -> String {
    engine.call(request(name, tool)).await.to_text(Lang::En)
}

fn engine() -> Engine {
    let engine = Engine::builder()
        .tool(says("look", "shared"))
        .tool(says("other", "other"))
        .build()
        .unwrap();
    engine.registry().register_for(&tenant("a"), says("look", "a's")).unwrap();
    engine.registry().register_for(&tenant("b"), says("look", "b's")).unwrap();
    engine.registry().register_for(&tenant("a"), says("a.secret_plan", "plan")).unwrap();
    engine
}

fn names(tools: &[Arc<windlass::Tool>]) -> Vec<String> {
    tools.iter().map(|tool| tool.name().to_string()).collect()
}

#[tokio::test]
async fn each_tenant_has_its_own_tool_of_a_name() {
    let engine = engine();
    assert_eq!(ask(&engine, "a", "look").await, "a's");
    assert_eq!(ask(&engine, "b", "look").await, "b's");
    assert_eq!(ask(&engine, "c", "look").await, "shared");
    assert_eq!(ask(&engine, "a", "other").await, "other");
    let registry = engine.registry();
    assert_eq!(names(&registry.list_for(&tenant("a"))), ["a.secret_plan", "look", "other"]);
    assert_eq!(names(&registry.list_for(&tenant("b"))), ["look", "other"]);
    assert_eq!(names(&registry.list()), ["look", "other"]);
    assert_eq!(names(&registry.owned_by(&tenant("b"))), ["look"]);
    assert_eq!(registry.len(), 2);
    assert_eq!(registry.get_for(&tenant("a"), "look").unwrap().owner(), Some(&tenant("a")));
    assert_eq!(registry.get("look").unwrap().owner(), None);
    // The wire name is found, too, and only by the tenant.
    let wire = registry.get_for(&tenant("a"), "a.secret_plan").unwrap().name().wire();
    assert_eq!(ask(&engine, "a", &wire).await, "plan");
    assert!(registry.get_for(&tenant("b"), &wire).is_none());
    assert!(registry.get(&wire).is_none());
    // What a model is told.
    let session = Session::new(tenant("a"), "c");
    assert_eq!(names(&engine.active_tools(Some(&session))), ["a.secret_plan", "look", "other"]);
    assert_eq!(names(&engine.active_tools_for(&tenant("b"))), ["look", "other"]);
    assert_eq!(names(&engine.active_tools(None)), ["look", "other"]);
}

/// A result without what differs between any two calls.
fn bare(result: &CallResult) -> Value {
    let mut json = result.to_json(Lang::En);
    for own in ["call_id", "executed_at", "queue_time", "execution_time"] {
        json.as_object_mut().unwrap().remove(own);
    }
    json
}

#[tokio::test]
async fn a_foreign_tool_looks_like_one_that_does_not_exist() {
    let engine = engine();
    let without = Engine::builder()
        .tool(says("look", "shared"))
        .tool(says("other", "other"))
        .build()
        .unwrap();
    for name in ["a.secret_plan", "a.secret_pla", "A.SECRET_PLAN", "loook"] {
        let (foreign, unknown) = (request("c", name), request("c", name));
        let (foreign, unknown) = (engine.call(foreign).await, without.call(unknown).await);
        assert_eq!(kind(&foreign), ErrorKind::ToolNotFound);
        assert_eq!(bare(&foreign), bare(&unknown), "{name}");
        assert_eq!(
            engine.registry().nearest_for(&tenant("c"), name),
            without.registry().nearest(name)
        );
    }
    let own = engine.call(request("a", "a.secret_pla")).await;
    assert!(own.to_text(Lang::En).contains("`a.secret_plan`"), "{own:?}");
    let taken = engine.registry().unregister_for(&tenant("c"), "a.secret_plan").unwrap_err();
    let never = engine.registry().unregister_for(&tenant("c"), "a.secret_plam").unwrap_err();
    assert_eq!((taken.kind(), never.kind()), (ErrorKind::ToolNotFound, ErrorKind::ToolNotFound));
}

#[tokio::test]
async fn what_one_owner_changes_is_its_own() {
    let engine = engine();
    let registry = engine.registry();
    let twice = registry.register_for(&tenant("a"), says("look", "again")).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::AlreadyRegistered);
    registry.replace_for(&tenant("a"), says("look", "a's new")).unwrap();
    registry.replace(says("look", "shared new")).unwrap();
    assert_eq!(ask(&engine, "a", "look").await, "a's new");
    assert_eq!(ask(&engine, "b", "look").await, "b's");
    assert_eq!(ask(&engine, "c", "look").await, "shared new");
    registry.unregister_for(&tenant("a"), "look").unwrap();
    assert_eq!(ask(&engine, "a", "look").await, "shared new");
    registry.unregister("look").unwrap();
    assert_eq!(ask(&engine, "b", "look").await, "b's");
    assert_eq!(kind(&engine.call(request("c", "look")).await), ErrorKind::ToolNotFound);
}

#[tokio::test]
async fn sources_of_tenants_are_apart() {
    let engine = engine();
    let registry = engine.registry();
    for name in ["a", "b"] {
        assert!(registry.replace_source_for(&tenant(name), "db", vec![says("x", "x")]).is_empty());
    }
    assert!(registry.replace_source_for(&tenant("a"), "db", vec![]).is_empty());
    assert_eq!(kind(&engine.call(request("a", "x")).await), ErrorKind::ToolNotFound);
    assert_eq!(ask(&engine, "b", "x").await, "x");
    let refused = registry.replace_source_for(&tenant("b"), "db", vec![says("look", "x")]);
    assert_eq!(refused[0].kind(), ErrorKind::AlreadyRegistered);

    let report = engine.load_text_for(&tenant("a"), "a.yaml", "name: drawn\ndescription: x");
    assert_eq!(report.tools, 1, "{report:?}");
    assert!(registry.get_for(&tenant("a"), "drawn").is_some());
    assert!(registry.get("drawn").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_running_call_keeps_its_tool() {
    let engine = Engine::builder().build().unwrap();
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let slow = ToolBuilder::from_fn("slow", move |_: Value| {
        let wait = Arc::clone(&wait);
        async move {
            wait.notified().await;
            "old"
        }
    });
    engine.registry().register_for(&tenant("a"), slow).unwrap();
    let runner = engine.clone();
    let running = tokio::spawn(async move { ask(&runner, "a", "slow").await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    engine.registry().replace_for(&tenant("a"), says("slow", "new")).unwrap();
    assert_eq!(ask(&engine, "a", "slow").await, "new");
    engine.registry().unregister_for(&tenant("a"), "slow").unwrap();
    assert_eq!(kind(&engine.call(request("a", "slow")).await), ErrorKind::ToolNotFound);
    go.notify_one();
    assert_eq!(running.await.unwrap(), "old");
}

/// Asks the tool `look`, also in the name of another tenant.
#[tool]
async fn ask_look(tools: Tools) -> Result<Vec<String>, Error> {
    let own = tools.call(CallRequest::new("look", json!({}))).await?;
    let posing = tools.call(request("b", "look")).await?;
    Ok(vec![own.to_text(Lang::En), posing.to_text(Lang::En)])
}

#[tokio::test]
async fn batches_and_nested_calls_are_the_callers() {
    let engine = engine();
    engine.registry().register(ask_look::tool()).unwrap();
    let batch = ["a", "b", "c", "a"].map(|name| request(name, "look"));
    let results = engine.call_batch(batch).await;
    let texts: Vec<String> = results.iter().map(|result| result.to_text(Lang::En)).collect();
    assert_eq!(texts, ["a's", "b's", "shared", "a's"]);
    for (name, word) in [("a", "a's"), ("b", "b's"), ("c", "shared")] {
        let result = engine.call(request(name, "ask_look")).await;
        assert_eq!(result.output().unwrap().value().unwrap(), &json!([word, word]));
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_a_tool_is_not_that_of_its_namesake() {
    let engine = Engine::builder().build().unwrap();
    let once = || {
        ToolBuilder::from_fn("slow", |_: Value| tokio::time::sleep(Duration::from_secs(1)))
            .with(|spec| spec.max_concurrent = Some(1))
    };
    engine.registry().register_for(&tenant("a"), once()).unwrap();
    engine.registry().register_for(&tenant("b"), once()).unwrap();
    let start = tokio::time::Instant::now();
    let calls = [request("a", "slow"), request("b", "slow")].map(|call| engine.call(call));
    let results = futures_util::future::join_all(calls).await;
    assert!(results.iter().all(CallResult::is_success));
    assert_eq!(start.elapsed().as_secs(), 1);
}

#[tokio::test]
async fn events_of_tools_name_the_tenant() {
    let engine = Engine::builder().build().unwrap();
    let mut events = engine.events();
    let registry = engine.registry();
    registry.register(says("look", "shared")).unwrap();
    registry.register_for(&tenant("a"), says("look", "a's")).unwrap();
    registry.replace_for(&tenant("a"), says("look", "new")).unwrap();
    registry.unregister_for(&tenant("a"), "look").unwrap();
    engine.load_text_for(&tenant("b"), "b.yaml", "name: [");
    engine.call(request("c", "look")).await;
    let mut seen = Vec::new();
    for _ in 0..7 {
        let Event { body, .. } = events.next().await.unwrap();
        let json = serde_json::to_value(&body).unwrap();
        assert_eq!(json["tenant_id"].as_str(), body.tenant().map(TenantId::as_str));
        seen.push((body.name(), body.tenant().map(ToString::to_string).unwrap_or_default()));
    }
    let seen: Vec<(&str, &str)> = seen.iter().map(|(name, of)| (*name, of.as_str())).collect();
    assert_eq!(
        seen,
        [
            ("tool_added", ""),
            ("tool_added", "a"),
            ("tool_updated", "a"),
            ("tool_removed", "a"),
            ("load_error", "b"),
            ("execution_started", "c"),
            ("execution_completed", "c"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_whose_functions_block_leaves_threads_to_others() {
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let blocks = ToolBuilder::from_blocking_fn("blocks", move |_: Value| {
        // Until all senders are gone.
        let gate = gate.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = gate.recv();
        "done"
    });
    let works = ToolBuilder::from_blocking_fn("works", |_: Value| "done");
    let engine = Engine::builder()
        .settings(|settings| settings.limits.max_concurrent = 1_000)
        .tool(blocks)
        .tool(works)
        .build()
        .unwrap();
    let flood: Vec<_> = (0..600)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.call(request("noisy", "blocks")).await })
        })
        .collect();
    while engine.tenant_load(&tenant("noisy")).current_concurrent < 600 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..20 {
        let asked = engine.call(request("quiet", "works"));
        let answer = tokio::time::timeout(Duration::from_secs(5), asked).await;
        assert!(answer.expect("no thread was left").is_success());
    }
    drop(open);
    for call in flood {
        assert!(call.await.unwrap().is_success());
    }
}
