//! Admission control: concurrency limits, queueing, priority and refusal (backpressure).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use windlass::{
    CallRequest, CallResult, Caller, CallerType, Category, Context, Engine, ErrorKind, JsonSchema,
    LimitSettings, Strategy, TenantId, ToolBuilder,
};

use crate::support::kind;

#[derive(Deserialize, JsonSchema)]
struct Sleep {
    ms: u64,
    #[serde(default)]
    name: String,
}

/// The names of calls, in the order in which they began.
type Began = Arc<Mutex<Vec<String>>>;

fn engine(began: &Began, limit: impl FnOnce(&mut LimitSettings)) -> Engine {
    let sleeper = |name: &str, category: &'static str| {
        let began = Arc::clone(began);
        ToolBuilder::from_fn(name, move |sleep: Sleep| {
            began.lock().push(sleep.name);
            async move { tokio::time::sleep(Duration::from_millis(sleep.ms)).await }
        })
        .with(|spec| spec.category = Category::new(category))
    };
    Engine::builder()
        .tool(sleeper("web", "http"))
        .tool(sleeper("sql", "database"))
        .tool(sleeper("single", "custom").with(|spec| spec.max_concurrent = Some(1)))
        .settings(|settings| limit(&mut settings.limits))
        .build()
        .unwrap()
}

fn call(tool: &str, ms: u64, name: &str) -> CallRequest {
    CallRequest::new(tool, json!({"ms": ms, "name": name}))
}

fn of_tenant(tenant: &str) -> Context {
    Context::new(Caller { tenant: TenantId::new(tenant), ..Caller::default() })
}

/// Begins calls one after the other, without waiting for them.
async fn begin(
    engine: &Engine,
    calls: impl IntoIterator<Item = CallRequest>,
) -> Vec<tokio::task::JoinHandle<CallResult>> {
    let mut running = Vec::new();
    for call in calls {
        let engine = engine.clone();
        running.push(tokio::spawn(async move { engine.call(call).await }));
        tokio::task::yield_now().await;
    }
    running
}

async fn kinds(running: Vec<tokio::task::JoinHandle<CallResult>>) -> Vec<Option<ErrorKind>> {
    let mut kinds = Vec::new();
    for one in running {
        kinds.push(one.await.unwrap().error().map(windlass::Error::kind));
    }
    kinds
}

#[tokio::test(start_paused = true)]
async fn reject_lets_nobody_wait() {
    let engine = engine(&Began::default(), |limits| {
        limits.max_concurrent = 2;
        limits.strategy = Strategy::Reject;
    });
    let running = begin(&engine, (0..3).map(|_| call("web", 100, ""))).await;
    assert_eq!(kinds(running).await, [None, None, Some(ErrorKind::QueueFull)]);
    let metrics = engine.limit_metrics();
    assert_eq!((metrics.total_acquired, metrics.total_rejected), (2, 1));
    assert_eq!((metrics.current_concurrent, metrics.queue_length), (0, 0));
    assert!((metrics.avg_execution_time - 0.1).abs() < 0.01, "{metrics:?}");
}

#[tokio::test(start_paused = true)]
async fn waiting_is_bounded_in_number_and_by_the_deadline() {
    let engine = engine(&Began::default(), |limits| {
        limits.max_concurrent = 1;
        limits.queue_size = 1;
    });
    let call = |ms: u64, timeout: u64| {
        engine.call(call("web", ms, "").timeout(Duration::from_millis(timeout)))
    };
    let (first, waits, refused) =
        tokio::join!(call(1_000, 5_000), call(10, 500), async { call(10, 500).await });
    assert!(first.is_success());
    assert_eq!(kind(&waits), ErrorKind::Timeout);
    assert_eq!(waits.run_time, Duration::ZERO, "an expired waiter never runs");
    assert_eq!(kind(&refused), ErrorKind::QueueFull);
    let (first, second) = tokio::join!(call(1_000, 5_000), call(10, 5_000));
    assert!(first.is_success() && second.is_success());
    assert!(second.queue_wait >= Duration::from_secs(1), "{:?}", second.queue_wait);
}

#[tokio::test(start_paused = true)]
async fn buckets_and_tools_have_limits_of_their_own() {
    let engine = engine(&Began::default(), |limits| {
        limits.bucket_limits.insert("http".into(), 2);
    });
    let start = Instant::now();
    let running = begin(&engine, (0..4).map(|_| call("web", 1000, ""))).await;
    let other = begin(&engine, (0..4).map(|_| call("sql", 1000, ""))).await;
    let bucket = engine.limit_metrics().buckets["http"];
    assert_eq!((bucket.current, bucket.limit, bucket.queue), (2, 2, 2));
    assert!(kinds(other).await.iter().all(Option::is_none));
    assert_eq!(start.elapsed().as_secs(), 1, "a full bucket holds up nobody else");
    assert!(kinds(running).await.iter().all(Option::is_none));
    assert_eq!(start.elapsed().as_secs(), 2);
    let single = begin(&engine, (0..3).map(|_| call("single", 1000, ""))).await;
    assert!(kinds(single).await.iter().all(Option::is_none));
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn priority_comes_first_and_nobody_starves() {
    let began = Began::default();
    let engine = engine(&began, |limits| {
        limits.max_concurrent = 1;
        limits.strategy = Strategy::Priority;
        limits.ageing = Duration::from_secs(1);
    });
    let mut running = begin(&engine, [call("web", 1000, "first")]).await;
    running.extend(
        begin(
            &engine,
            [call("web", 1000, "low").priority(0), call("web", 1000, "high").priority(5)],
        )
        .await,
    );
    // A steady stream of calls that are more important than `low`.
    for n in 0..8 {
        running.extend(begin(&engine, [call("web", 1000, &format!("mid{n}")).priority(3)]).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(kinds(running).await.iter().all(Option::is_none));
    let began = began.lock();
    assert_eq!(began[..2], ["first", "high"]);
    let low = began.iter().position(|name| name == "low").unwrap();
    assert!((3..8).contains(&low), "{began:?}");
}

#[tokio::test(start_paused = true)]
async fn tenants_take_turns_and_a_flood_crowds_out_itself() {
    let began = Began::default();
    let engine = engine(&began, |limits| {
        limits.max_concurrent = 1;
        limits.queue_size = 20;
    });
    let flood =
        begin(&engine, (0..100).map(|_| call("web", 10, "flood").context(of_tenant("greedy"))))
            .await;
    let modest = begin(
        &engine,
        (0..5).map(|n| call("web", 10, &format!("modest{n}")).context(of_tenant(&format!("t{n}")))),
    )
    .await;
    assert!(kinds(modest).await.iter().all(Option::is_none), "none of the others is rejected");
    let refused = kinds(flood).await.iter().filter(|kind| kind.is_some()).count();
    assert!(refused >= 79, "{refused}");
    let began = began.lock();
    let last = (0..5)
        .map(|n| format!("modest{n}"))
        .map(|name| began.iter().position(|own| *own == name).unwrap());
    assert!(last.max().unwrap() <= 12, "{began:?}");
}

#[tokio::test(start_paused = true)]
async fn tenants_and_agents_may_be_capped() {
    let engine = engine(&Began::default(), |limits| {
        limits.per_tenant = Some(1);
        limits.per_agent = Some(2);
    });
    let start = Instant::now();
    let one = begin(&engine, (0..2).map(|_| call("web", 1000, "").context(of_tenant("a")))).await;
    assert!(kinds(one).await.iter().all(Option::is_none));
    assert_eq!(start.elapsed().as_secs(), 2);
    let agent = |tenant: &str| {
        Context::new(Caller {
            tenant: TenantId::new(tenant),
            caller_id: Some("agent".into()),
            caller_type: CallerType::ConversationAgent,
            ..Caller::default()
        })
    };
    let tenants = ["a", "b", "c"];
    let three =
        begin(&engine, tenants.map(|tenant| call("web", 1000, "").context(agent(tenant)))).await;
    assert!(kinds(three).await.iter().all(Option::is_none));
    assert_eq!(start.elapsed().as_secs(), 3, "agents of several tenants may share a name");
    engine.set_limits({
        let mut limits = engine.limits();
        limits.per_tenant = None;
        limits
    });
    let three = begin(&engine, (0..3).map(|_| call("web", 1000, "").context(agent("a")))).await;
    assert!(kinds(three).await.iter().all(Option::is_none));
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn agents_of_two_tenants_do_not_share_a_cap() {
    let engine = engine(&Began::default(), |limits| limits.per_agent = Some(1));
    let of = |tenant: &str| {
        let caller = Caller {
            tenant: TenantId::new(tenant),
            caller_id: Some("assistant".into()),
            caller_type: CallerType::ConversationAgent,
            ..Caller::default()
        };
        engine.call(call("web", 10_000, "").context(Context::new(caller)))
    };
    let (one, two) = tokio::join!(of("a"), of("b"));
    assert!(one.is_success() && two.is_success());
    assert_eq!(two.queue_wait, Duration::ZERO);
}

/// Twice as much comes as can run, for longer than anybody waits.
#[tokio::test(start_paused = true)]
async fn a_flood_of_high_priority_does_not_starve_another_tenant() {
    let engine = engine(&Began::default(), |limits| {
        limits.max_concurrent = 1;
        limits.strategy = Strategy::Priority;
    });
    let flood = tokio::spawn({
        let engine = engine.clone();
        async move {
            for _ in 0..200 {
                begin(&engine, (0..2).map(|_| call("web", 1000, "").priority(1000))).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let low = engine.call(call("web", 1000, "").context(of_tenant("other"))).await;
    flood.abort();
    assert!(low.is_success(), "{:?}", low.error());
}

#[tokio::test(start_paused = true)]
async fn workflow_nodes_take_no_slot() {
    let engine = engine(&Began::default(), |limits| {
        limits.max_concurrent = 1;
        limits.strategy = Strategy::Reject;
    });
    let node = Context::for_workflow("flow", "node");
    let node = Arc::new(node);
    let running =
        begin(&engine, (0..5).map(|_| call("web", 100, "").context(Arc::clone(&node)))).await;
    let metrics = engine.limit_metrics();
    assert_eq!((metrics.bypassing, metrics.current_concurrent), (5, 0));
    assert!(kinds(running).await.iter().all(Option::is_none));
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept_and_says_when_to_come_back() {
    let engine = engine(&Began::default(), |limits| limits.calls_per_second = Some(10));
    let results = engine.call_batch((0..12).map(|_| call("web", 0, ""))).await;
    let refused: Vec<_> = results.iter().filter_map(CallResult::error).collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert_eq!(refused[0].kind(), ErrorKind::RateLimited);
    let after = refused[0].retry_after().unwrap();
    tokio::time::sleep(after + Duration::from_millis(1)).await;
    assert!(engine.call(call("web", 0, "")).await.is_success());
}

#[tokio::test(start_paused = true)]
async fn limits_change_while_calls_run() {
    let engine = engine(&Began::default(), |limits| limits.max_concurrent = 1);
    let start = Instant::now();
    let running = begin(&engine, (0..4).map(|_| call("web", 1000, ""))).await;
    let mut limits = engine.limits();
    limits.max_concurrent = 4;
    engine.set_limits(limits);
    assert_eq!(engine.limit_metrics().queue_length, 0);
    assert!(kinds(running).await.iter().all(Option::is_none));
    assert_eq!(start.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancels_and_timeouts_at_random_moments_leave_nothing_behind() {
    let engine = engine(&Began::default(), |limits| {
        limits.max_concurrent = 3;
        limits.queue_size = 50;
    });
    let mut running = Vec::new();
    for n in 0..2000u64 {
        let (engine, token) = (engine.clone(), windlass::CancellationToken::new());
        let wait = Duration::from_millis(fastrand::u64(0..40));
        let request = call("web", fastrand::u64(0..20), "");
        let request = match n % 2 {
            0 => request.timeout(wait + Duration::from_millis(1)),
            _ => request.cancel_token(token.clone()),
        };
        running.push(tokio::spawn(async move {
            let (result, ()) = tokio::join!(engine.call(request), async {
                tokio::time::sleep(wait).await;
                token.cancel();
            });
            result
        }));
        if n % 3 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let ended = kinds(running).await;
    assert_eq!(ended.len(), 2000);
    let metrics = engine.limit_metrics();
    assert_eq!((metrics.current_concurrent, metrics.queue_length), (0, 0), "{metrics:?}");
    let statistics = engine.records().statistics(&TenantId::default()).await.unwrap();
    assert_eq!(statistics.total.calls, 1000, "the memory store keeps the last 1,000");
    assert!(engine.call(call("web", 1, "")).await.is_success());
}

/// Calls that end at once take slots without the lock; those that do not take
/// the same slots with it. Together they are never too many, nobody is forgotten,
/// and the limits may change at any moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_way_to_a_slot_passes_the_limit_by() {
    const TASKS: usize = 32;
    const CALLS: usize = 400;
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let tool = ToolBuilder::from_fn("busy", |sleep: Sleep| async move {
        MOST.fetch_max(RUNNING.fetch_add(1, SeqCst) + 1, SeqCst);
        for _ in 0..sleep.ms {
            tokio::task::yield_now().await;
        }
        RUNNING.fetch_sub(1, SeqCst);
    });
    let engine = Engine::builder()
        .tool(tool.behaviour(windlass::Behaviour::READ_ONLY))
        .settings(|settings| settings.limits.queue_size = TASKS)
        .build()
        .unwrap();
    for max in [64, 16, 9] {
        MOST.store(0, SeqCst);
        let mut limits = engine.limits();
        limits.max_concurrent = max;
        engine.set_limits(limits);
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    for _ in 0..CALLS {
                        // Mostly quick ones, so that the quick way opens again.
                        let yields = fastrand::u64(0..40).saturating_sub(34);
                        assert!(engine.call(call("busy", yields, "")).await.is_success());
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let most = MOST.load(SeqCst);
        assert!((2..=max).contains(&most), "{most} of {max} ran at once");
    }
    let metrics = engine.limit_metrics();
    assert_eq!((metrics.current_concurrent, metrics.queue_length), (0, 0), "{metrics:?}");
    assert_eq!(metrics.total_acquired, (3 * TASKS * CALLS) as u64, "{metrics:?}");
}
