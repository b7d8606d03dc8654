//! Cancelling by call, batch and conversation, and callers that go away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use windlass::{
    Batch, Behaviour, CallRequest, CallResult, Caller, Context, Engine, ErrorKind, EventBody,
    JsonSchema, LimitMetrics, Status, TenantId, ToolBuilder,
};

use crate::support::{kind, only_record, records};

#[derive(Deserialize, JsonSchema)]
struct Sleep {
    ms: u64,
}

/// `get_nap` only looks, `save_nap` changes something when it is done.
fn engine(saved: &Arc<AtomicUsize>) -> Engine {
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
        .build()
        .unwrap()
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
