use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windlass::hook::{self, Before};
use windlass::{
    Batch, Begun, Behaviour, BoxFuture, Call, CallId, CallRecord, CallRequest, Caller, CallerType,
    Context, Engine, Error, ErrorKind, EventBody, Executor, Hook, Intent, Lang, MemoryStore,
    Output, OutputPart, PageRequest, RecordFilter, RecordPage, RecordStore, Statistics, Status,
    Summary, TenantId, ToolBuilder, Tools, tool,
};

use crate::support::{kind, records};

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}
fn ms(s: u64) -> Duration {
    Duration::from_millis(s)
}

#[derive(Default, Clone)]
struct Delays {
    begin: Arc<AtomicU64>,
    flush: Arc<AtomicU64>,
    keep: Arc<AtomicU64>,
    behind: Arc<AtomicBool>,
    caught: Arc<tokio::sync::Notify>,
}
struct Slow {
    memory: MemoryStore,
    d: Delays,
}
async fn nap(of: &AtomicU64) {
    let n = of.load(Ordering::SeqCst);
    if n > 0 {
        tokio::time::sleep(ms(n)).await;
    }
}

impl RecordStore for Slow {
    fn append(&self, record: CallRecord) {
        self.memory.append(record);
    }
    fn keeps_intents(&self) -> bool {
        true
    }
    fn keeps_up(&self) -> bool {
        !self.d.behind.load(Ordering::SeqCst)
    }
    fn caught_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.d.caught.notified().await })
    }
    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<Begun, Error>> {
        Box::pin(async move {
            nap(&self.d.begin).await;
            self.memory.begin(intent).await
        })
    }
    fn flush(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            nap(&self.d.flush).await;
            Ok(())
        })
    }
    fn get<'a>(
        &'a self,
        t: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>, Error>> {
        self.memory.get(t, id)
    }
    fn query<'a>(
        &'a self,
        t: &'a TenantId,
        f: &'a RecordFilter,
        p: PageRequest,
    ) -> BoxFuture<'a, Result<RecordPage, Error>> {
        self.memory.query(t, f, p)
    }
    fn summary<'a>(&'a self, t: &'a TenantId, c: &'a str) -> BoxFuture<'a, Result<Summary, Error>> {
        self.memory.summary(t, c)
    }
    fn statistics<'a>(&'a self, t: &'a TenantId) -> BoxFuture<'a, Result<Statistics, Error>> {
        self.memory.statistics(t)
    }
    fn keep_output<'a>(
        &'a self,
        t: &'a TenantId,
        id: CallId,
        o: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            nap(&self.d.keep).await;
            self.memory.keep_output(t, id, o).await
        })
    }
    fn read_output<'a>(
        &'a self,
        t: &'a TenantId,
        id: CallId,
        o: u64,
        l: u64,
    ) -> BoxFuture<'a, Result<Option<OutputPart>, Error>> {
        self.memory.read_output(t, id, o, l)
    }
}

fn sleeper(name: &str, s: u64, count: &Arc<AtomicUsize>) -> ToolBuilder {
    let count = Arc::clone(count);
    ToolBuilder::from_fn(name, move |_: Value| {
        let count = Arc::clone(&count);
        async move {
            tokio::time::sleep(secs(s)).await;
            count.fetch_add(1, Ordering::SeqCst);
            "done"
        }
    })
}
fn call(tool: &str) -> CallRequest {
    CallRequest::new(tool, json!({}))
}
fn user(user: &str) -> Context {
    Context::new(Caller { user: Some(user.into()), ..Caller::default() })
}

// 1: detached work of a dropped batch can no longer be cancelled
#[tokio::test(start_paused = true)]
async fn dropped_batch_detached_is_unlisted() {
    let n = Arc::default();
    let engine = Engine::builder().tool(sleeper("save_it", 10, &n)).build().unwrap();
    let ctx = || Context::for_conversation("a", "c");
    let batch = Batch::new([call("save_it").context(ctx())]);
    let id = batch.id();
    assert!(tokio::time::timeout(secs(1), engine.call_batch(batch)).await.is_err());
    assert_eq!(records(&engine).await.len(), 0, "still runs");
    let got = (
        engine.calls_under_way(),
        engine.cancel_batch(&TenantId::default(), id),
        engine.cancel_conversation(&TenantId::default(), "c"),
    );
    assert_eq!(got, (1, 1, 1), "it runs and should be cancellable");
}

// 2: one user's result replayed to another, and put into the other's cache
#[derive(Clone)]
struct Inbox;
impl Executor for Inbox {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move {
            Ok(Output::text(format!(
                "inbox of {}",
                call.caller().user.as_deref().unwrap_or("nobody")
            )))
        })
    }
}
fn inbox() -> ToolBuilder {
    ToolBuilder::native("get_inbox", json!({"type":"object","properties":{}}), Arc::new(Inbox))
        .behaviour(Behaviour::READ_ONLY)
        .cache(secs(600))
}
#[tokio::test(start_paused = true)]
async fn key_leaks_between_users() {
    let engine = Engine::builder().tool(inbox()).build().unwrap();
    engine.call(call("get_inbox").context(user("alice")).idempotency_key("1")).await;
    let bob = engine.call(call("get_inbox").context(user("bob")).idempotency_key("1")).await;
    let bob_no_key = engine.call(call("get_inbox").context(user("bob"))).await;
    eprintln!(
        "bob with key: {}; bob without key: {}",
        bob.to_text(Lang::En),
        bob_no_key.to_text(Lang::En)
    );
    assert_eq!(bob_no_key.to_text(Lang::En), "inbox of bob");
}

// 3: read-only with key, caller dropped
#[tokio::test(start_paused = true)]
async fn read_only_key_dropped_replays_cancelled() {
    let n = Arc::default();
    let engine = Engine::builder()
        .tool(sleeper("get_it", 10, &n).behaviour(Behaviour::READ_ONLY))
        .build()
        .unwrap();
    assert!(
        tokio::time::timeout(secs(1), engine.call(call("get_it").idempotency_key("k")))
            .await
            .is_err()
    );
    tokio::time::sleep(secs(3600)).await;
    let again = engine.call(call("get_it").idempotency_key("k")).await;
    assert!(again.is_success(), "{:?}", again.error());
}

// 4: twins that time out open the circuit of a healthy upstream
#[tokio::test(start_paused = true)]
async fn twins_open_the_circuit() {
    let n = Arc::default();
    let slow = sleeper("save_it", 25, &n).with(|s| s.upstream = Some("bank".into()));
    let quick = sleeper("other_it", 0, &n).with(|s| s.upstream = Some("bank".into()));
    let engine = Engine::builder().tool(slow).tool(quick).build().unwrap();
    let first = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.call(call("save_it").idempotency_key("k")).await })
    };
    tokio::time::sleep(ms(10)).await;
    for _ in 0..10 {
        let twin = engine.call(call("save_it").idempotency_key("k").timeout(secs(1))).await;
        assert_eq!((kind(&twin), twin.attempts), (ErrorKind::Timeout, 0));
    }
    let other = engine.call(call("other_it")).await;
    assert!(other.is_success(), "{:?}", other.error());
    assert!(first.await.unwrap().is_success());
}

// 4b: slow before hook counts against upstream
#[tokio::test(start_paused = true)]
async fn hook_stop_claims_key() {
    let n: Arc<AtomicUsize> = Arc::default();
    let deny = Arc::new(AtomicBool::new(true));
    let d = Arc::clone(&deny);
    let engine = Engine::builder()
        .tool(sleeper("save_it", 0, &n))
        .hook(hook::before(move |_| {
            if d.load(Ordering::SeqCst) {
                Before::Stop(Error::new(ErrorKind::Denied, "not approved yet"))
            } else {
                Before::Run
            }
        }))
        .build()
        .unwrap();
    let first = engine.call(call("save_it").idempotency_key("k")).await;
    assert_eq!(kind(&first), ErrorKind::Denied);
    assert_eq!(n.load(Ordering::SeqCst), 0);
    deny.store(false, Ordering::SeqCst);
    let again = engine.call(call("save_it").idempotency_key("k")).await;
    assert!(again.is_success(), "{:?}", again.error());
}

// 6: expired call runs
#[tokio::test(start_paused = true)]
async fn expired_in_begin_runs() {
    let ran: Arc<AtomicUsize> = Arc::default();
    let d = Delays::default();
    d.begin.store(100, Ordering::SeqCst);
    let r = Arc::clone(&ran);
    let engine = Engine::builder()
        .tool(ToolBuilder::from_fn("save_it", move |_: Value| {
            r.fetch_add(1, Ordering::SeqCst);
            async { "x" }
        }))
        .store(Slow { memory: MemoryStore::new(), d })
        .build()
        .unwrap();
    let result = engine.call(call("save_it").timeout(ms(100))).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0, "expired, and ran: {:?}", result.outcome.is_ok());
}
#[tokio::test(start_paused = true)]
async fn expired_while_store_was_behind_runs() {
    let ran: Arc<AtomicUsize> = Arc::default();
    let d = Delays::default();
    d.behind.store(true, Ordering::SeqCst);
    let r = Arc::clone(&ran);
    let engine = Engine::builder()
        .tool(
            ToolBuilder::from_fn("get_it", move |_: Value| {
                r.fetch_add(1, Ordering::SeqCst);
                async { "x" }
            })
            .behaviour(Behaviour::READ_ONLY)
            .timeout(secs(1)),
        )
        .store(Slow { memory: MemoryStore::new(), d: d.clone() })
        .build()
        .unwrap();
    let start = tokio::time::Instant::now();
    let (result, ()) = tokio::join!(engine.call(call("get_it")), async {
        tokio::time::sleep(secs(20)).await;
        d.behind.store(false, Ordering::SeqCst);
        d.caught.notify_waiters();
    });
    assert_eq!(
        (ran.load(Ordering::SeqCst), start.elapsed().as_secs()),
        (0, 20),
        "timeout 1s; ran ok={:?}",
        result.outcome.is_ok()
    );
}
#[tokio::test(start_paused = true)]
async fn cancel_ignored_while_store_is_behind() {
    let n = Arc::default();
    let d = Delays::default();
    d.behind.store(true, Ordering::SeqCst);
    let engine = Engine::builder()
        .tool(sleeper("get_it", 1, &n).behaviour(Behaviour::READ_ONLY))
        .store(Slow { memory: MemoryStore::new(), d: d.clone() })
        .build()
        .unwrap();
    let start = tokio::time::Instant::now();
    let (result, n) = tokio::join!(
        engine.call(call("get_it").context(Context::for_conversation("a", "c"))),
        async {
            tokio::time::sleep(secs(1)).await;
            engine.cancel_conversation(&TenantId::default(), "c")
        }
    );
    assert_eq!((kind(&result), n, start.elapsed().as_secs()), (ErrorKind::Cancelled, 1, 1));
}

// 7: permit leaked by a Tools clone that outlives a dropped call
static HOLD: std::sync::Mutex<Option<Tools>> = std::sync::Mutex::new(None);
/// x
#[tool(read_only)]
async fn keep_tools(tools: Tools) -> String {
    *HOLD.lock().unwrap() = Some(tools);
    std::future::pending::<()>().await;
    String::new()
}
#[tokio::test(start_paused = true)]
async fn permit_leaks_with_tools() {
    let engine = Engine::builder()
        .tool(keep_tools::tool())
        .settings(|s| s.limits.max_concurrent = 1)
        .build()
        .unwrap();
    assert!(tokio::time::timeout(secs(1), engine.call(call("keep_tools"))).await.is_err());
    assert_eq!(records(&engine).await.len(), 1, "the call has ended");
    assert_eq!(engine.limit_metrics().current_concurrent, 0);
}

// 8: MemoryStore forgets the key of a running call
#[tokio::test(start_paused = true)]
async fn memory_key_of_running_call_evicted() {
    let n: Arc<AtomicUsize> = Arc::default();
    let engine = Engine::builder()
        .tool(sleeper("save_it", 10, &n))
        .tool(sleeper("get_it", 0, &Arc::default()).behaviour(Behaviour::READ_ONLY))
        .store(MemoryStore::with_capacity(2))
        .build()
        .unwrap();
    let run = || {
        let engine = engine.clone();
        tokio::spawn(async move { engine.call(call("save_it").idempotency_key("k")).await })
    };
    let one = run();
    tokio::time::sleep(secs(1)).await;
    for k in ["a", "b"] {
        engine.call(call("get_it").idempotency_key(k)).await;
    }
    let two = run();
    one.await.unwrap();
    two.await.unwrap();
    assert_eq!(n.load(Ordering::SeqCst), 1);
}
#[tokio::test(start_paused = true)]
async fn freed_keys_push_out_live_ones() {
    let n: Arc<AtomicUsize> = Arc::default();
    let engine = Engine::builder()
        .tool(sleeper("save_it", 0, &n))
        .tool(sleeper("slow_it", 0, &Arc::default()))
        .store(MemoryStore::with_capacity(100))
        .build()
        .unwrap();
    engine.call(call("save_it").idempotency_key("k")).await;
    // nothing
    let store = engine.records();
    for i in 0..100 {
        let intent = Intent {
            id: CallId::at(jiff::Timestamp::now()),
            call_ref: None,
            tool_name: "x".into(),
            arguments: Arc::new(json!({})),
            caller: Arc::default(),
            created_at: jiff::Timestamp::now(),
            key: Some(windlass::IdempotencyKey {
                key: format!("f{i}").into(),
                fingerprint: [0; 32],
            }),
        };
        let mut record = intent.clone().interrupted();
        record.attempts = 0;
        store.begin(intent).await.unwrap();
        store.append(record);
    }
    engine.call(call("save_it").idempotency_key("k")).await;
    assert_eq!(n.load(Ordering::SeqCst), 1, "100 keys were given back at once, and one is live");
}

// 10: no finished event
#[tokio::test(start_paused = true)]
async fn no_finished_event() {
    let d = Delays::default();
    d.flush.store(1000, Ordering::SeqCst);
    let engine = Engine::builder()
        .tool(sleeper("get_it", 0, &Arc::default()).behaviour(Behaviour::READ_ONLY))
        .store(Slow { memory: MemoryStore::new(), d })
        .build()
        .unwrap();
    let mut events = engine.events();
    assert!(
        tokio::time::timeout(ms(500), engine.call(call("get_it").idempotency_key("k")))
            .await
            .is_err()
    );
    engine.finish().await;
    assert_eq!(records(&engine).await.len(), 1);
    let mut names = vec![];
    while let Ok(Some(event)) = tokio::time::timeout(secs(5), events.next()).await {
        names.push(event.body.name());
    }
    assert_eq!(names, ["execution_started", "execution_completed"]);
}

// 11: finish hangs
#[tokio::test(start_paused = true)]
async fn finish_hangs() {
    use std::future::Future;
    let engine = Engine::builder().tool(sleeper("save_it", 5, &Arc::default())).build().unwrap();
    let leave = || async {
        assert!(tokio::time::timeout(secs(1), engine.call(call("save_it"))).await.is_err());
    };
    leave().await;
    let mut a = Box::pin(engine.finish());
    let mut b = Box::pin(engine.finish());
    let once = std::future::poll_fn(|cx| {
        assert!(a.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    });
    once.await;
    tokio::time::sleep(secs(10)).await; // first task ended; a is notified and not polled yet
    leave().await;
    std::future::poll_fn(|cx| {
        assert!(b.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    a.await;
    tokio::time::timeout(secs(3600), b).await.expect("b hangs");
}

// 12: cancel after the tool's effect and result
#[tokio::test(start_paused = true)]
async fn cancel_after_effect_loses_result() {
    let d = Delays::default();
    d.keep.store(2000, Ordering::SeqCst);
    let engine = Engine::builder()
        .tool(ToolBuilder::from_fn("save_it", |_: Value| async { "x".repeat(300_000) }))
        .store(Slow { memory: MemoryStore::new(), d })
        .build()
        .unwrap();
    let result = engine.call(call("save_it").timeout(secs(1))).await;
    assert!(result.is_success(), "{:?}", result.error());
}

// 13: cache and hooks / objects / conversation
struct Named(&'static str);
struct ByObject;
impl Executor for ByObject {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move { Ok(Output::text(call.object::<Named>().map_or("none", |n| n.0))) })
    }
}
#[tokio::test(start_paused = true)]
async fn cache_ignores_objects() {
    let engine = Engine::builder()
        .tool(
            ToolBuilder::native("get_it", json!({"type":"object"}), Arc::new(ByObject))
                .behaviour(Behaviour::READ_ONLY)
                .cache(secs(60)),
        )
        .build()
        .unwrap();
    engine.call(call("get_it").context(Context::default().object(Named("session a")))).await;
    let b =
        engine.call(call("get_it").context(Context::default().object(Named("session b")))).await;
    assert_eq!(b.to_text(Lang::En), "session b");
}
#[tokio::test(start_paused = true)]
async fn cache_passes_the_before_hook() {
    let engine = Engine::builder()
        .tool(sleeper("get_it", 0, &Arc::default()).behaviour(Behaviour::READ_ONLY).cache(secs(60)))
        .hook(hook::before(|call| {
            if call.caller().conversation.as_deref() == Some("b") {
                Before::Stop(Error::new(ErrorKind::Denied, "no"))
            } else {
                Before::Run
            }
        }))
        .build()
        .unwrap();
    assert!(
        engine.call(call("get_it").context(Context::for_conversation("x", "a"))).await.is_success()
    );
    let b = engine.call(call("get_it").context(Context::for_conversation("x", "b"))).await;
    assert!(!b.is_success(), "denied by the hook, served by the cache");
}

// 14: agents of two tenants share one cap
#[tokio::test(start_paused = true)]
async fn agent_cap_is_shared_between_tenants() {
    let engine = Engine::builder()
        .tool(sleeper("get_it", 10, &Arc::default()).behaviour(Behaviour::READ_ONLY))
        .settings(|s| {
            s.limits.per_agent = Some(1);
        })
        .build()
        .unwrap();
    let of = |t: &str| {
        Context::new(Caller {
            tenant: TenantId::new(t),
            caller_id: Some("assistant".into()),
            caller_type: CallerType::ConversationAgent,
            ..Caller::default()
        })
    };
    let (a, b) = tokio::join!(
        engine.call(call("get_it").context(of("a"))),
        engine.call(call("get_it").context(of("b")))
    );
    assert!(a.is_success());
    assert_eq!(b.queue_wait, Duration::ZERO);
}

// 16: cancelling a parent leaves its durable child running
/// x
#[tool]
async fn parent_it(tools: Tools) -> Result<String, Error> {
    Ok(tools.call(CallRequest::new("save_it", json!({}))).await?.to_text(Lang::En))
}
#[tokio::test(start_paused = true)]
async fn cancel_of_parent_leaves_child() {
    let n: Arc<AtomicUsize> = Arc::default();
    let engine =
        Engine::builder().tool(parent_it::tool()).tool(sleeper("save_it", 10, &n)).build().unwrap();
    let mut events = engine.events();
    let (result, ()) = tokio::join!(engine.call(call("parent_it")), async {
        let EventBody::ExecutionStarted { call } = events.next().await.unwrap().body else {
            panic!()
        };
        tokio::time::sleep(secs(1)).await;
        assert!(engine.cancel_call(&TenantId::default(), call.call_id));
    });
    assert_eq!(kind(&result), ErrorKind::Cancelled);
    engine.finish().await;
    assert_eq!(n.load(Ordering::SeqCst), 0, "the effect happened 9 s after the cancel");
}

// 17: a tool that gives up a nested call runs on without a slot
/// x
#[tool(read_only)]
async fn gives_up(tools: Tools) -> String {
    let _ = tokio::time::timeout(ms(10), tools.call(CallRequest::new("wait_it", json!({})))).await;
    tokio::time::sleep(secs(10)).await;
    "done".to_owned()
}
#[tokio::test(start_paused = true)]
async fn without_dropped_no_slot() {
    let engine = Engine::builder()
        .tool(gives_up::tool())
        .tool(sleeper("wait_it", 100, &Arc::default()).behaviour(Behaviour::READ_ONLY))
        .settings(|s| s.limits.max_concurrent = 1)
        .build()
        .unwrap();
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.call(call("gives_up")).await })
        })
        .collect();
    tokio::time::sleep(secs(5)).await;
    assert!(engine.limit_metrics().current_concurrent >= 1, "whoever runs is counted");
    for c in calls {
        c.await.unwrap();
    }
    assert!(engine.call(call("gives_up")).await.is_success());
}

// 21: caller leaves while a before hook still decides
struct Approval;
impl Hook for Approval {
    fn before<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Before> {
        Box::pin(async {
            tokio::time::sleep(secs(10)).await;
            Before::Run
        })
    }
}
#[tokio::test(start_paused = true)]
async fn caller_leaves_before_the_effect() {
    let n: Arc<AtomicUsize> = Arc::default();
    let engine = Engine::builder().tool(sleeper("save_it", 0, &n)).hook(Approval).build().unwrap();
    assert!(tokio::time::timeout(secs(1), engine.call(call("save_it"))).await.is_err());
    engine.finish().await;
    assert_eq!(n.load(Ordering::SeqCst), 0, "the effect began 9 s after its caller had gone");
}

// 20: dropped outside the runtime
#[test]
fn dropped_outside_runtime() {
    let n: Arc<AtomicUsize> = Arc::default();
    let rt =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let engine = Engine::builder().tool(sleeper("save_it", 1, &n)).build().unwrap();
    let mut fut = Box::pin(engine.call(call("save_it")));
    rt.block_on(async { assert!(tokio::time::timeout(ms(200), &mut fut).await.is_err()) });
    drop(fut);
    rt.block_on(engine.finish());
    let status = rt.block_on(records(&engine))[0].status;
    assert_eq!((n.load(Ordering::SeqCst), status), (1, Status::Succeeded));
}
// 22: tool timeouts of Duration::MAX
#[tokio::test(start_paused = true)]
async fn duration_max() {
    let engine = Engine::builder()
        .tool(sleeper("get_it", 0, &Arc::default()).timeout(Duration::MAX))
        .build()
        .unwrap();
    let r = engine.call(call("get_it")).await;
    assert!(r.is_success(), "{:?}", r.error());
}
// 23: retry refused by circuit after wait: failed_attempts
static ORDER: std::sync::Mutex<Vec<u64>> = std::sync::Mutex::new(Vec::new());
/// x
#[tool(read_only)]
async fn returns(tools: Tools, n: u64) -> u64 {
    let nested = CallRequest::new("step", json!({"n": n})).context(Context::for_workflow("w", "n"));
    let _ = tools.call(nested).await;
    ORDER.lock().unwrap().push(n);
    tokio::time::sleep(secs(1)).await;
    n
}
/// x
#[tool(read_only)]
async fn step(n: u64) -> u64 {
    tokio::time::sleep(secs(n)).await;
    n
}
#[tokio::test(start_paused = true)]
async fn returning_is_last_in_first_out() {
    let engine = Engine::builder()
        .tool(returns::tool())
        .tool(step::tool())
        .tool(sleeper("hold", 10, &Arc::default()))
        .settings(|s| s.limits.max_concurrent = 1)
        .build()
        .unwrap();
    let mut all = vec![];
    for n in 1..=4 {
        let engine = engine.clone();
        all.push(tokio::spawn(async move {
            engine.call(CallRequest::new("returns", json!({"n": n}))).await
        }));
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(ms(1)).await;
    let hold = engine.call(call("hold")).await;
    assert!(hold.is_success());
    for c in all {
        assert!(c.await.unwrap().is_success());
    }
    assert_eq!(*ORDER.lock().unwrap(), [1, 2, 3, 4]);
}
// 19: priority without bound starves
#[tokio::test(start_paused = true)]
async fn priority_starves() {
    let engine = Engine::builder()
        .tool(sleeper("get_it", 1, &Arc::default()).behaviour(Behaviour::READ_ONLY))
        .settings(|s| {
            s.limits.max_concurrent = 1;
            s.limits.strategy = windlass::Strategy::Priority;
        })
        .build()
        .unwrap();
    let flood = {
        let engine = engine.clone();
        tokio::spawn(async move {
            let mut all = vec![];
            for _ in 0..200 {
                for _ in 0..2 {
                    let engine = engine.clone();
                    all.push(tokio::spawn(async move {
                        engine.call(call("get_it").priority(1000)).await
                    }));
                }
                tokio::time::sleep(secs(1)).await;
            }
            for c in all {
                let _ = c.await;
            }
        })
    };
    tokio::time::sleep(ms(10)).await;
    let other = Context::new(Caller { tenant: TenantId::new("other"), ..Caller::default() });
    let low = engine.call(call("get_it").context(other)).await;
    flood.abort();
    assert!(low.is_success(), "{:?}", low.error());
}
#[tokio::test]
async fn a_huge_batch_is_not_planned() {
    let engine = Engine::builder()
        .tool(sleeper("save_it", 0, &Arc::default()))
        .settings(|s| s.max_batch = 1)
        .build()
        .unwrap();
    let start = std::time::Instant::now();
    let results = engine.call_batch((0..20_000).map(|_| call("save_it"))).await;
    assert_eq!(results.len(), 20_000);
    // Planning so many takes minutes.
    assert!(start.elapsed() < secs(20), "{:?}", start.elapsed());
}
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_on_started_is_lost() {
    let engine = Engine::builder()
        .tool(
            ToolBuilder::from_fn("get_it", |_: Value| async {
                std::thread::sleep(ms(100));
                tokio::time::sleep(secs(2)).await;
                "x"
            })
            .behaviour(Behaviour::READ_ONLY),
        )
        .build()
        .unwrap();
    let mut events = engine.events();
    let run = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.call(call("get_it")).await })
    };
    let EventBody::ExecutionStarted { call } = events.next().await.unwrap().body else { panic!() };
    let told = engine.cancel_call(&TenantId::default(), call.call_id);
    let result = run.await.unwrap();
    assert!(
        told && !result.is_success(),
        "cancel_call said {told}, the call succeeded: {}",
        result.is_success()
    );
}
