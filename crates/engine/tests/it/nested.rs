//! Tools that call tools: no deadlock, bounded depth, linked records.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::{
    Behaviour, BoxFuture, Call, CallRequest, CallResult, Caller, CallerType, Context, Engine,
    Error, ErrorKind, EventBody, Executor, Lang, Output, Status, TenantId, ToolBuilder, ToolName,
    ToolSpec, Tools, tool,
};

use crate::support::{call, kind, records, slow};

/// Calls itself until it is told to stop, several times at each level.
struct Recursive {
    wide: usize,
}

impl Executor for Recursive {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            let depth = call.argument("depth").and_then(Value::as_u64).unwrap_or_default();
            if depth == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
                return Ok(Output::text("leaf"));
            }
            let inner = || CallRequest::new("recursive", json!({"depth": depth - 1}));
            let results = call.tools().call_batch((0..self.wide).map(|_| inner())).await?;
            match results.iter().find_map(CallResult::error) {
                Some(error) => Err(error.clone()),
                None => Ok(Output::text("branch")),
            }
        })
    }
}

fn recursive(wide: usize) -> ToolBuilder {
    let mut spec = ToolSpec::new(ToolName::new("recursive").unwrap());
    spec.input = json!({"type": "object", "properties": {"depth": {"type": "integer"}}});
    spec.behaviour = Behaviour::READ_ONLY;
    ToolBuilder::new(spec, Arc::new(Recursive { wide }))
}

fn engine(tool: ToolBuilder, slots: usize) -> Engine {
    Engine::builder()
        .tool(tool)
        .settings(|settings| {
            settings.limits.max_concurrent = slots;
            settings.limits.queue_size = 10_000;
        })
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_slot_is_enough_for_any_family() {
    for slots in [1, 2, 7] {
        let engine = engine(recursive(3), slots);
        let calls = (0..5).map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                engine.call(CallRequest::new("recursive", json!({"depth": 4}))).await
            })
        });
        for call in calls.collect::<Vec<_>>() {
            let result = call.await.unwrap();
            assert!(result.is_success(), "{result:?}");
        }
        let metrics = engine.limit_metrics();
        assert_eq!((metrics.current_concurrent, metrics.queue_length), (0, 0));
        assert_eq!(metrics.total_acquired, 5 * (1 + 3 + 9 + 27 + 81));
    }
}

#[tokio::test(start_paused = true)]
async fn depth_is_bounded() {
    let engine = engine(recursive(1), 1);
    let deep = |depth: u32| engine.call(CallRequest::new("recursive", json!({"depth": depth})));
    assert!(deep(5).await.is_success());
    assert_eq!(kind(&deep(6).await), ErrorKind::DepthExceeded);
    let refused = records(&engine).await.into_iter().find(|it| it.status == Status::Refused);
    assert_eq!(refused.unwrap().error.unwrap().kind, ErrorKind::DepthExceeded);
}

/// Asks two tools at once.
#[tool]
async fn ask_both(tools: Tools, other_tenant: bool) -> Result<Vec<String>, Error> {
    let mut request = CallRequest::new("whoami", json!({}));
    if other_tenant {
        let caller = Caller { tenant: TenantId::new("victim"), ..Caller::default() };
        request = request.context(Context::new(caller));
    }
    let (one, two) = tokio::join!(tools.call(request.clone()), tools.call(request));
    Ok(vec![one?.to_text(Lang::En), two?.to_text(Lang::En)])
}

#[tokio::test(start_paused = true)]
async fn calls_within_a_call_belong_to_its_caller_and_name_their_parent() {
    let whoami =
        ToolBuilder::new(ToolSpec::new(ToolName::new("whoami").unwrap()), Arc::new(Whoami));
    let engine = engine(whoami, 1);
    engine.registry().register(ask_both::tool()).unwrap();
    let caller = Caller {
        tenant: TenantId::new("acme"),
        conversation: Some("c".into()),
        caller_type: CallerType::ConversationAgent,
        ..Caller::default()
    };
    for other_tenant in [false, true] {
        let request = CallRequest::new("ask_both", json!({"other_tenant": other_tenant}))
            .context(Context::new(caller.clone()));
        let result = engine.call(request).await;
        let conversation = if other_tenant { "none" } else { "c" };
        let own = format!("acme {conversation} {}", result.id);
        assert_eq!(result.output().unwrap().value().unwrap(), &json!([own, own]));
    }
}

struct Whoami;

impl Executor for Whoami {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        let caller = call.caller();
        let conversation = caller.conversation.as_deref().unwrap_or("none");
        let parent = caller.parent.map(|id| id.to_string()).unwrap_or_default();
        let text = format!("{} {conversation} {parent}", caller.tenant);
        Box::pin(std::future::ready(Ok(Output::text(text))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_ends_no_later_than_its_parent() {
    let waits = ToolBuilder::from_fn("wait_long", |_: Value| std::future::pending::<()>())
        .behaviour(Behaviour::READ_ONLY);
    let engine = engine(waits, 1);
    engine.registry().register(ask_long::tool()).unwrap();
    let start = tokio::time::Instant::now();
    let request = CallRequest::new("ask_long", json!({})).timeout(Duration::from_secs(2));
    let result = engine.call(request).await;
    assert_eq!(start.elapsed().as_secs(), 2);
    assert!(!result.is_success() || result.to_text(Lang::En).contains("timed out"));
    engine.finish().await;
    let ends: Vec<Status> = records(&engine).await.iter().map(|record| record.status).collect();
    assert_eq!(ends.len(), 2);
    assert!(ends.contains(&Status::TimedOut), "{ends:?}");
    assert_eq!(engine.limit_metrics().current_concurrent, 0);
    assert_eq!(engine.calls_under_way(), 0);
}

/// Asks a tool that never answers.
#[tool]
async fn ask_long(tools: Tools) -> Result<String, Error> {
    let result = tools.call(CallRequest::new("wait_long", json!({}))).await?;
    Ok(result.to_text(Lang::En))
}

/// Saves something by another tool.
#[tool]
async fn ask_save(tools: Tools) -> Result<String, Error> {
    Ok(tools.call(call("save")).await?.to_text(Lang::En))
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_calls_within_a_call() {
    let saved = Arc::<AtomicUsize>::default();
    let engine = engine(slow("save", 10, &saved), 1);
    engine.registry().register(ask_save::tool()).unwrap();
    let mut events = engine.events();
    let (result, ()) = tokio::join!(engine.call(call("ask_save")), async {
        let started = events.next().await.unwrap();
        let EventBody::ExecutionStarted { call } = started.body else { panic!("{started:?}") };
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(engine.cancel_call(&TenantId::default(), call.call_id));
    });
    assert_eq!(kind(&result), ErrorKind::Cancelled);
    engine.finish().await;
    assert_eq!(saved.load(Ordering::SeqCst), 0, "the child was stopped, too");
}

static KEPT: Mutex<Option<Tools>> = Mutex::new(None);

/// Keeps its tools for longer than the call.
#[tool(read_only)]
async fn keep_tools(tools: Tools) -> String {
    *KEPT.lock() = Some(tools);
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn tools_that_outlive_their_call_hold_no_slot() {
    let engine = engine(keep_tools::tool(), 1);
    let dropped = tokio::time::timeout(Duration::from_secs(1), engine.call(call("keep_tools")));
    assert!(dropped.await.is_err());
    assert_eq!(records(&engine).await.len(), 1, "the call has ended");
    assert_eq!(engine.limit_metrics().current_concurrent, 0);
}

/// Gives up waiting for another tool, and goes on without it.
#[tool(read_only)]
async fn give_up(tools: Tools) -> &'static str {
    let _ = tokio::time::timeout(Duration::from_millis(10), tools.call(call("look"))).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    "done"
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_gives_up_a_call_takes_its_slot_again() {
    let look = slow("look", 100, &Arc::default()).behaviour(Behaviour::READ_ONLY);
    let engine = engine(look, 1);
    engine.registry().register(give_up::tool()).unwrap();
    let give_up = || {
        let engine = engine.clone();
        tokio::spawn(async move { engine.call(call("give_up")).await })
    };
    let running: Vec<_> = (0..5).map(|_| give_up()).collect();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(engine.limit_metrics().current_concurrent >= 1, "whoever runs is counted");
    for one in running {
        one.await.unwrap();
    }
    assert!(give_up().await.unwrap().is_success());
}

static RETURNED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Waits for another tool, and notes when it goes on.
#[tool(read_only)]
async fn go_on(tools: Tools, n: u64) -> u64 {
    let node = Context::for_workflow("flow", "node");
    let _ = tools.call(CallRequest::new("step", json!({"n": n})).context(node)).await;
    RETURNED.lock().push(n);
    tokio::time::sleep(Duration::from_secs(1)).await;
    n
}

/// Takes some seconds.
#[tool(read_only)]
async fn step(n: u64) -> u64 {
    tokio::time::sleep(Duration::from_secs(n)).await;
    n
}

#[tokio::test(start_paused = true)]
async fn calls_return_to_their_slots_in_the_order_in_which_they_ask() {
    let engine = engine(slow("hold", 10, &Arc::default()), 1);
    engine.registry().register(go_on::tool()).unwrap();
    engine.registry().register(step::tool()).unwrap();
    let mut running = Vec::new();
    for n in 1..=4 {
        let engine = engine.clone();
        let request = CallRequest::new("go_on", json!({"n": n}));
        running.push(tokio::spawn(async move { engine.call(request).await }));
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(engine.call(call("hold")).await.is_success());
    for one in running {
        assert!(one.await.unwrap().is_success());
    }
    assert_eq!(*RETURNED.lock(), [1, 2, 3, 4]);
}
