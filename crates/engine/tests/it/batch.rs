//! Batches: planned, run in parallel where that is safe, answered in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass::{
    Batch, Behaviour, CallRequest, Engine, ErrorKind, JsonSchema, Lang, PageRequest, RecordFilter,
    Status, TenantId, ToolBuilder,
};

#[derive(Deserialize, JsonSchema)]
struct Sleep {
    ms: u64,
    #[serde(default)]
    place: String,
    #[serde(default)]
    fail: bool,
}

/// When each call began and ended, by its place in the batch.
type Log = Arc<Mutex<Vec<(u64, Instant, Instant)>>>;

fn sleeper(name: &str, log: &Log) -> ToolBuilder {
    let log = Arc::clone(log);
    ToolBuilder::from_fn(name, move |sleep: Sleep| {
        let log = Arc::clone(&log);
        async move {
            let begin = Instant::now();
            tokio::time::sleep(Duration::from_millis(sleep.ms)).await;
            log.lock().push((sleep.ms, begin, Instant::now()));
            if sleep.fail { Err("asked to fail") } else { Ok(sleep.place) }
        }
    })
}

fn engine(log: &Log) -> Engine {
    Engine::builder()
        .tool(sleeper("get_thing", log))
        .tool(sleeper("save_thing", log))
        .tool(sleeper("unnamed", log))
        .tool(sleeper("save_memory", log).writes("memory:{place}"))
        .tool(sleeper("memory_manager", log).safe_when("place", [json!("load")]))
        .tool(
            sleeper("get_exclusive", log)
                .behaviour(Behaviour { concurrency_safe: Some(false), ..Behaviour::default() }),
        )
        .settings(|settings| settings.limits.max_concurrent = 100)
        .build()
        .unwrap()
}

fn call(tool: &str, ms: u64) -> CallRequest {
    CallRequest::new(tool, json!({"ms": ms}))
}

fn at(tool: &str, ms: u64, place: &str) -> CallRequest {
    CallRequest::new(tool, json!({"ms": ms, "place": place}))
}

async fn seconds(calls: Vec<CallRequest>) -> f64 {
    let engine = engine(&Log::default());
    let start = Instant::now();
    let results = engine.call_batch(calls).await;
    assert!(results.iter().all(windlass::CallResult::is_success), "{results:?}");
    start.elapsed().as_secs_f64()
}

fn close_to(took: f64, wanted: f64) {
    // The runtime's timer rounds up to a millisecond, once a wave.
    assert!((wanted..wanted + 0.01).contains(&took), "{took} instead of {wanted}");
}

#[tokio::test(start_paused = true)]
async fn a_serial_batch_runs_one_call_after_the_other() {
    let engine = engine(&Log::default());
    let start = Instant::now();
    let calls = (0..4).map(|_| call("get_thing", 1000));
    let results = engine.call_batch(Batch::new(calls).parallel(false)).await;
    assert!(results.iter().all(windlass::CallResult::is_success));
    close_to(start.elapsed().as_secs_f64(), 4.0);
}

#[tokio::test(start_paused = true)]
async fn the_documents_three_scenarios() {
    close_to(seconds(vec![call("get_thing", 3000), call("save_thing", 2000)]).await, 5.0);
    close_to(
        seconds(vec![call("get_thing", 4000), call("get_thing", 2000), call("get_thing", 2000)])
            .await,
        4.0,
    );
    close_to(
        seconds(vec![call("get_thing", 1000), call("save_thing", 4000), call("get_thing", 2000)])
            .await,
        7.0,
    );
}

#[tokio::test(start_paused = true)]
async fn safety_is_declared_by_input_by_resource_or_by_name() {
    // Nothing is known of these: one after the other.
    close_to(seconds(vec![call("unnamed", 1000), call("unnamed", 1000)]).await, 2.0);
    // The name says safe, the declaration says no.
    close_to(seconds(vec![call("get_exclusive", 1000), call("get_exclusive", 1000)]).await, 2.0);
    // Different resources together, the same one in order.
    let different = vec![at("save_memory", 1000, "a"), at("save_memory", 1000, "b")];
    close_to(seconds(different).await, 1.0);
    let same = vec![at("save_memory", 1000, "a"), at("save_memory", 1000, "a")];
    close_to(seconds(same).await, 2.0);
    // Safe when it loads, not when it saves.
    let loads = vec![at("memory_manager", 1000, "load"), at("memory_manager", 1000, "load")];
    close_to(seconds(loads).await, 1.0);
    let saves = vec![at("memory_manager", 1000, "save"), at("memory_manager", 1000, "load")];
    close_to(seconds(saves).await, 2.0);
}

#[tokio::test(start_paused = true)]
async fn results_are_in_call_order_and_failures_stay_alone() {
    let engine = engine(&Log::default());
    let mut events = engine.events();
    let results = engine
        .call_batch([
            call("get_thing", 300).call_ref("a"),
            CallRequest::new("get_nothing", json!({})).call_ref("b"),
            CallRequest::new("get_thing", json!({"ms": 100, "fail": true})).call_ref("c"),
            CallRequest::new("save_thing", "{\"ms\": 50}").call_ref("d"),
            CallRequest::new("get_thing", json!({"ms": "x"})).call_ref("e"),
        ])
        .await;
    let seen: Vec<(&str, Option<ErrorKind>)> = results
        .iter()
        .map(|result| {
            (result.call_ref.as_deref().unwrap(), result.error().map(windlass::Error::kind))
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("a", None),
            ("b", Some(ErrorKind::ToolNotFound)),
            ("c", Some(ErrorKind::ToolError)),
            ("d", None),
            ("e", Some(ErrorKind::InvalidArguments)),
        ]
    );
    let mut names = Vec::new();
    while names.last() != Some(&"queue_drained") {
        names.push(events.next().await.unwrap().body.name());
    }
    assert_eq!(names[..5], ["tool_queued"; 5]);
    assert_eq!(names.iter().filter(|name| name.starts_with("execution_c")).count(), 2);
    assert_eq!(names.iter().filter(|name| **name == "execution_failed").count(), 3);
    assert!(engine.call_batch([]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_batch_beyond_the_limit_gets_errors_not_silence() {
    let engine = engine(&Log::default());
    let results = engine.call_batch((0..51).map(|_| call("get_thing", 100))).await;
    assert_eq!(results.len(), 51);
    assert!(results[..50].iter().all(windlass::CallResult::is_success));
    assert_eq!(results[50].error().unwrap().kind(), ErrorKind::BatchLimit);
    assert!(results[50].to_text(Lang::En).contains("at most 50"));
}

/// Planning so many would take minutes.
#[tokio::test]
async fn a_batch_far_beyond_the_limit_is_not_planned() {
    let engine = Engine::builder()
        .tool(sleeper("save_thing", &Log::default()))
        .settings(|settings| settings.max_batch = 1)
        .build()
        .unwrap();
    let start = std::time::Instant::now();
    let results = engine.call_batch((0..20_000).map(|_| call("save_thing", 0))).await;
    assert_eq!(results.len(), 20_000);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_others_does_not_eat_a_calls_own_time() {
    let engine = engine(&Log::default());
    let patient = call("save_thing", 2000).timeout(Duration::from_secs(3));
    let results = engine.call_batch([call("save_thing", 20_000), patient]).await;
    assert!(results.iter().all(windlass::CallResult::is_success), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_batch_leaves_a_record_of_every_call() {
    let engine = engine(&Log::default());
    let calls: Vec<_> = (0..5).map(|_| call("save_thing", 1000)).collect();
    let running = tokio::time::timeout(Duration::from_millis(1500), engine.call_batch(calls));
    assert!(running.await.is_err());
    // The first has ended, the second has begun to change something and is
    // finished, the others never begin.
    engine.finish().await;
    let page = engine
        .records()
        .query(&TenantId::default(), &RecordFilter::default(), PageRequest::first(10))
        .await
        .unwrap();
    let ended = |status| page.records.iter().filter(|record| record.status == status).count();
    assert_eq!((ended(Status::Succeeded), ended(Status::Cancelled)), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_sliding_window_not_waves() {
    let log = Log::default();
    let engine = engine(&log);
    // Ten at once: the eleventh begins when the first ends, not when all do.
    let calls = (0..11).map(|n| call("get_thing", if n == 0 { 100 } else { 1000 }));
    let start = Instant::now();
    engine.call_batch(calls).await;
    close_to(start.elapsed().as_secs_f64(), 1.1);
}

#[test]
fn nothing_else_overlaps_an_exclusive_call() {
    let running = Arc::new(AtomicUsize::new(0));
    let tool = |name: &str, alone: bool| {
        let running = Arc::clone(&running);
        ToolBuilder::from_fn(name, move |_: Value| {
            let running = Arc::clone(&running);
            async move {
                let others = running.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                let still = running.fetch_sub(1, Ordering::SeqCst) - 1;
                if alone && others + still > 0 { Err("not alone") } else { Ok("fine") }
            }
        })
    };
    let engine =
        Engine::builder().tool(tool("get_x", false)).tool(tool("save_x", true)).build().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let calls =
        (0..40).map(|n| CallRequest::new(if n % 7 == 3 { "save_x" } else { "get_x" }, json!({})));
    let results = runtime.block_on(engine.call_batch(calls));
    assert!(results.iter().all(windlass::CallResult::is_success), "{results:?}");
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Look,
    Change,
    Write(u8),
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![3 => Just(Kind::Look), 1 => Just(Kind::Change), 2 => (0u8..3).prop_map(Kind::Write)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Against a brute-force model: every call begins when all that it must
    /// wait for have ended, and not a moment later.
    #[test]
    fn wall_time_is_the_critical_path(batch in prop::collection::vec((kind(), 1u64..50), 1..10)) {
        let conflicts = |a: Kind, b: Kind| match (a, b) {
            (Kind::Look, Kind::Look) => false,
            (Kind::Write(x), Kind::Write(y)) => x == y,
            _ => true,
        };
        let mut ends: Vec<u64> = Vec::new();
        for (later, &(kind, ms)) in batch.iter().enumerate() {
            let begin = (0..later)
                .filter(|&earlier| conflicts(kind, batch[earlier].0))
                .map(|earlier| ends[earlier])
                .max()
                .unwrap_or_default();
            ends.push(begin + ms * 1000);
        }
        let ideal = *ends.iter().max().unwrap();
        let calls: Vec<CallRequest> = batch
            .iter()
            .map(|&(kind, ms)| match kind {
                Kind::Look => call("get_thing", ms * 1000),
                Kind::Change => call("save_thing", ms * 1000),
                Kind::Write(place) => at("save_memory", ms * 1000, &place.to_string()),
            })
            .map(|call| call.timeout(Duration::from_secs(3600)))
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let took = runtime.block_on(async {
            let engine = engine(&Log::default());
            let start = Instant::now();
            engine.call_batch(calls).await;
            start.elapsed().as_millis() as u64
        });
        prop_assert!(took >= ideal && took <= ideal + 2 * batch.len() as u64, "{took} {ideal}");
    }
}
