//! Cancellation by call, batch and conversation, and callers that go away.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass::hook::Before;
use windlass::{
    Batch, Behaviour, BoxFuture, Call, CallRequest, CallResult, Caller, Context, Engine,
    EngineBuilder, ErrorKind, EventBody, Hook, JsonSchema, LimitMetrics, Status, TenantId,
    ToolBuilder,
};

use crate::support::{kind, only_record, records};

#[derive(Deserialize, JsonSchema)]
struct Sleep {
    ms: u64,
}

fn engine(saved: &Arc<AtomicUsize>) -> Engine {
    builder(saved).build().unwrap()
}

/// `get_nap` only looks, `save_nap` changes something when it is done.
fn builder(saved: &Arc<AtomicUsize>) -> EngineBuilder {
    let saved = Arc::clone(saved);
    let nap = |sleep: Sleep| tokio::time::sleep(Duration::from_millis(sleep.ms));
    Engine::builder()
        .tool(ToolBuilder::from_fn("get_nap", nap).behaviour(Behaviour::READ_ONLY))
        .tool(ToolBuilder::from_fn("save_nap", move |sleep: Sleep| {
            let saved = Arc::clone(&saved);
            async move {
                nap(sleep).await;
                saved.fetch_add(1, Ordering::SeqCst);
            }
        }))
}

fn call(tool: &str, ms: u64) -> CallRequest {
    CallRequest::new(tool, json!({"ms": ms}))
}

fn nothing_left(engine: &Engine) {
    let LimitMetrics { current_concurrent, queue_length, .. } = engine.limit_metrics();
    assert_eq!((current_concurrent, queue_length, engine.calls_under_way()), (0, 0, 0));
}

async fn after(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_is_cancelled_by_its_id_and_by_its_tenant_alone() {
    let engine = engine(&Arc::default());
    let mut events = engine.events();
    let (result, ()) = tokio::join!(engine.call(call("save_nap", 60_000)), async {
        let started = events.next().await.unwrap();
        let EventBody::ExecutionStarted { call } = started.body else { panic!("{started:?}") };
        after(1).await;
        assert!(!engine.cancel_call(&TenantId::new("other"), call.call_id));
        assert!(engine.cancel_call(&TenantId::default(), call.call_id));
    });
    assert_eq!(kind(&result), ErrorKind::Cancelled);
    assert_eq!(only_record(&engine).await.status, Status::Cancelled);
    assert!(!engine.cancel_call(&TenantId::default(), result.id), "it has ended");
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_cancelled_with_all_that_wait() {
    let engine = engine(&Arc::default());
    let batch = Batch::new([
        call("get_nap", 500),
        call("save_nap", 60_000),
        call("get_nap", 1),
        call("save_nap", 1),
    ]);
    let id = batch.id();
    let (results, ()) = tokio::join!(engine.call_batch(batch), async {
        after(1).await;
        assert_eq!(engine.cancel_batch(&TenantId::new("other"), id), 0);
        assert_eq!(engine.cancel_batch(&TenantId::default(), id), 3);
    });
    let kinds: Vec<_> = results.iter().map(|result| result.error().map(|e| e.kind())).collect();
    let cancelled = Some(ErrorKind::Cancelled);
    assert_eq!(kinds, [None, cancelled, cancelled, cancelled]);
    assert_eq!(results[3].attempts, 0, "what waited never ran");
    assert_eq!(records(&engine).await.len(), 4);
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_is_cancelled_wherever_its_calls_are() {
    let engine = engine(&Arc::default());
    engine.set_limits({
        let mut limits = engine.limits();
        limits.max_concurrent = 2;
        limits
    });
    let of = |conversation: &str, request: CallRequest| {
        request.context(Context::for_conversation("agent", conversation))
    };
    let (running, other, waiting, batch, ()) = tokio::join!(
        engine.call(of("a", call("get_nap", 60_000))),
        engine.call(of("b", call("get_nap", 3_000))),
        engine.call(of("a", call("get_nap", 60_000))),
        engine.call_batch([of("a", call("save_nap", 1)), of("b", call("get_nap", 1))]),
        async {
            after(1).await;
            assert_eq!(engine.cancel_conversation(&TenantId::new("other"), "a"), 0);
            assert_eq!(engine.cancel_conversation(&TenantId::default(), "a"), 3);
        }
    );
    assert_eq!((kind(&running), kind(&waiting)), (ErrorKind::Cancelled, ErrorKind::Cancelled));
    assert!(other.is_success());
    assert_eq!(kind(&batch[0]), ErrorKind::Cancelled);
    assert!(batch[1].is_success());
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_after_the_result_changes_nothing() {
    let engine = engine(&Arc::default());
    let conversation = Context::for_conversation("agent", "a");
    let result = engine.call(call("get_nap", 1).context(conversation)).await;
    assert_eq!(engine.cancel_conversation(&TenantId::default(), "a"), 0);
    assert!(result.is_success());
    assert_eq!(only_record(&engine).await.status, Status::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn work_that_changes_something_outlives_its_caller_and_is_recorded() {
    let saved = Arc::default();
    let engine = engine(&saved);
    let dropped =
        tokio::time::timeout(Duration::from_secs(1), engine.call(call("save_nap", 3_000)));
    assert!(dropped.await.is_err());
    assert!(records(&engine).await.is_empty(), "it still runs");
    engine.finish().await;
    assert_eq!(saved.load(Ordering::SeqCst), 1);
    let record = only_record(&engine).await;
    assert_eq!((record.status, record.run_time), (Status::Succeeded, Duration::from_secs(3)));
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn work_that_only_waited_for_a_slot_does_not_outlive_its_caller() {
    let saved = Arc::default();
    let engine = engine(&saved);
    engine.set_limits({
        let mut limits = engine.limits();
        limits.max_concurrent = 1;
        limits
    });
    let (first, second) = tokio::join!(
        engine.call(call("save_nap", 3_000)),
        tokio::time::timeout(Duration::from_secs(1), engine.call(call("save_nap", 10)))
    );
    assert!(first.is_success() && second.is_err());
    engine.finish().await;
    assert_eq!(saved.load(Ordering::SeqCst), 1);
    let ends: Vec<Status> = records(&engine).await.iter().map(|record| record.status).collect();
    assert_eq!(ends, [Status::Cancelled, Status::Succeeded]);
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn work_of_a_dropped_batch_can_still_be_cancelled() {
    let engine = engine(&Arc::default());
    let conversation = Context::for_conversation("agent", "a");
    let batch = Batch::new([call("save_nap", 10_000).context(conversation)]);
    let id = batch.id();
    assert!(tokio::time::timeout(Duration::from_secs(1), engine.call_batch(batch)).await.is_err());
    assert!(records(&engine).await.is_empty(), "it still runs");
    assert_eq!(engine.calls_under_way(), 1);
    assert_eq!(engine.cancel_batch(&TenantId::default(), id), 1);
    assert_eq!(engine.cancel_conversation(&TenantId::default(), "a"), 1);
}

/// A hook that takes its time to decide.
struct Approval;

impl Hook for Approval {
    fn before<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Before> {
        Box::pin(async {
            after(10).await;
            Before::Run
        })
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_waits_for_a_hook_does_not_outlive_its_caller() {
    let saved = Arc::default();
    let engine = builder(&saved).hook(Approval).build().unwrap();
    let dropped = tokio::time::timeout(Duration::from_secs(1), engine.call(call("save_nap", 0)));
    assert!(dropped.await.is_err());
    engine.finish().await;
    assert_eq!(saved.load(Ordering::SeqCst), 0, "its caller had gone before it began");
}

#[test]
fn a_call_may_be_dropped_outside_of_the_runtime() {
    let saved = Arc::default();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let engine = engine(&saved);
    let mut running = Box::pin(engine.call(call("save_nap", 1_000)));
    runtime.block_on(async {
        let begun = tokio::time::timeout(Duration::from_millis(200), &mut running);
        assert!(begun.await.is_err());
    });
    drop(running);
    runtime.block_on(engine.finish());
    let record = runtime.block_on(only_record(&engine));
    assert_eq!((saved.load(Ordering::SeqCst), record.status), (1, Status::Succeeded));
}

async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
}

/// More work comes when the first to wait has been woken and has not looked.
#[tokio::test(start_paused = true)]
async fn everybody_who_waits_for_the_last_work_hears_of_its_end() {
    let engine = engine(&Arc::default());
    let leave = || async {
        let dropped =
            tokio::time::timeout(Duration::from_secs(1), engine.call(call("save_nap", 5_000)));
        assert!(dropped.await.is_err());
    };
    leave().await;
    let (mut one, mut two) = (Box::pin(engine.finish()), Box::pin(engine.finish()));
    assert!(is_pending(&mut one).await);
    after(10).await;
    leave().await;
    assert!(is_pending(&mut two).await);
    one.await;
    tokio::time::timeout(Duration::from_secs(3600), two).await.expect("the second is told, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_right_after_the_start_counts() {
    let busy = ToolBuilder::from_fn("get_busy", |_: Value| async {
        std::thread::sleep(Duration::from_millis(100));
        after(2).await;
    });
    let busy = busy.behaviour(Behaviour::READ_ONLY);
    let engine = Engine::builder().tool(busy).build().unwrap();
    let mut events = engine.events();
    let running = tokio::spawn({
        let engine = engine.clone();
        async move { engine.call(CallRequest::new("get_busy", json!({}))).await }
    });
    let started = events.next().await.unwrap();
    let EventBody::ExecutionStarted { call } = started.body else { panic!("{started:?}") };
    assert!(engine.cancel_call(&TenantId::default(), call.call_id));
    assert!(!running.await.unwrap().is_success());
}

/// Each way to end a call, at random moments, on several threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_at_random_moments_leave_nothing_behind() {
    let saved = Arc::default();
    let engine = engine(&saved);
    engine.set_limits({
        let mut limits = engine.limits();
        limits.max_concurrent = 8;
        limits.queue_size = 4_000;
        limits
    });
    let random = |below: u64| Duration::from_micros(fastrand_like(below));
    let tasks: Vec<_> = (0..2_000_u64)
        .map(|n| {
            let engine = engine.clone();
            let (work, moment) = (random(3_000), random(20_000));
            tokio::spawn(async move {
                let tool = if n % 2 == 0 { "get_nap" } else { "save_nap" };
                let conversation = format!("c{n}");
                let request = call(tool, u64::try_from(work.as_millis()).unwrap())
                    .context(Context::for_conversation("agent", &conversation));
                match n % 4 {
                    0 | 1 => Some(engine.call(request.timeout(moment.max(work / 2))).await),
                    2 => {
                        let cancel = async {
                            tokio::time::sleep(moment).await;
                            engine.cancel_conversation(&TenantId::default(), &conversation);
                        };
                        let (result, ()) = tokio::join!(engine.call(request), cancel);
                        Some(result)
                    }
                    _ => tokio::time::timeout(moment, engine.call(request)).await.ok(),
                }
            })
        })
        .collect();
    let mut answered: Vec<CallResult> = Vec::new();
    for task in tasks {
        answered.extend(task.await.unwrap());
    }
    engine.finish().await;
    nothing_left(&engine);
    let all = records(&engine).await;
    assert_eq!(all.len(), 1_000, "the memory store keeps the last thousand");
    assert!(answered.len() >= 1_500);
    let of_other = Caller { tenant: TenantId::new("other"), ..Caller::default() };
    assert!(engine.call(call("get_nap", 1).context(Context::new(of_other))).await.is_success());
}

/// A number below another, without a dependency.
fn fastrand_like(below: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(below) % below
}

#[tokio::test(start_paused = true)]
async fn those_who_began_calls_are_told_apart() {
    let engine = engine(&Arc::default());
    let tenant = TenantId::default();
    let by = |who: &str| call("get_nap", 60_000).begun_by(who);
    let cancel = async {
        after(1).await;
        let own = |call: &windlass::UnderWay| call.begun_by.as_deref() == Some("ada");
        assert_eq!(engine.cancel_where(&TenantId::new("other"), own), 0);
        assert_eq!(engine.cancel_where(&tenant, own), 2);
    };
    let batch = Batch::new(vec![by("ada"), by("grace").timeout(Duration::from_secs(5))]);
    let (one, both, ()) = tokio::join!(engine.call(by("ada")), engine.call_batch(batch), cancel);
    assert_eq!(kind(&one), ErrorKind::Cancelled);
    let kinds: Vec<_> = both.iter().map(kind).collect();
    assert_eq!(kinds, [ErrorKind::Cancelled, ErrorKind::Timeout]);
    nothing_left(&engine);
}
