//! Fairness: one tenant floods the engine, and the others hardly notice.
//!
//! Twenty tenants share ten slots. Nineteen of them are modest: together they would keep
//! half of the slots busy. The last one sends a hundred times as much as each of them.

use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use windlass::{
    Behaviour, CallRequest, Caller, Context, Engine, ErrorKind, JsonSchema, TenantId, ToolBuilder,
};

const SLOTS: usize = 10;
const MODEST: u64 = 19;
const FLOOD: u64 = 100;
/// Calls of each modest tenant.
const CALLS: u64 = 80;
/// What a call takes: 100 ms on average.
const MIXED_MS: Range<u64> = 50..151;
const EQUAL_MS: Range<u64> = 100..101;
/// How far apart the calls of a modest tenant are: with 19 such tenants, one
/// comes every 20 ms, and five of ten slots are busy.
const APART_MS: u64 = 20 * MODEST;

#[derive(Deserialize, JsonSchema)]
struct Work {
    ms: u64,
}

/// What the calls of some tenants came to.
struct Seen {
    /// From the moment a call was made until its result, in order of length.
    latencies: Vec<Duration>,
    errors: Vec<ErrorKind>,
}

impl Seen {
    fn p99(&self) -> Duration {
        self.latencies[self.latencies.len() * 99 / 100]
    }
}

/// Calls of a tenant: when, and how long each works. A call comes at a random
/// moment of its part of the time.
fn calls(seed: u64, apart_us: u64, count: u64, work_ms: &Range<u64>) -> Vec<(Duration, u64)> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..count)
        .map(|n| {
            (Duration::from_micros(n * apart_us + rng.u64(..apart_us)), rng.u64(work_ms.clone()))
        })
        .collect()
}

async fn make(engine: &Engine, tenant: u64, calls: Vec<(Duration, u64)>) -> Seen {
    let start = Instant::now();
    let mut running = Vec::new();
    for (at, ms) in calls {
        tokio::time::sleep_until(start + at).await;
        let caller = Caller { tenant: TenantId::new(format!("t{tenant}")), ..Caller::default() };
        let request = CallRequest::new("work", json!({"ms": ms})).context(Context::new(caller));
        let engine = engine.clone();
        running.push(tokio::spawn(async move {
            let made = Instant::now();
            let result = engine.call(request).await;
            (made.elapsed(), result.error().map(windlass::Error::kind))
        }));
    }
    let mut seen = Seen { latencies: Vec::new(), errors: Vec::new() };
    for call in running {
        let (latency, error) = call.await.unwrap();
        seen.latencies.push(latency);
        seen.errors.extend(error);
    }
    seen
}

/// What the modest tenants see, and what the flooder sees if there is one.
async fn load(queue_size: usize, work_ms: &Range<u64>, flooded: bool) -> (Seen, Seen) {
    let work = |work: Work| tokio::time::sleep(Duration::from_millis(work.ms));
    let engine = Engine::builder()
        .tool(
            ToolBuilder::from_fn("work", move |input: Work| async move { work(input).await })
                .behaviour(Behaviour::READ_ONLY),
        )
        .settings(|settings| {
            settings.limits.max_concurrent = SLOTS;
            settings.limits.queue_size = queue_size;
        })
        .build()
        .unwrap();
    let flood = if flooded { CALLS * FLOOD } else { 0 };
    let flood = calls(0, APART_MS * 1000 / FLOOD, flood, work_ms);
    let flooder = {
        let engine = engine.clone();
        tokio::spawn(async move { make(&engine, 0, flood).await })
    };
    let tenants: Vec<_> = (1..=MODEST)
        .map(|tenant| {
            let engine = engine.clone();
            let calls = calls(tenant, APART_MS * 1000, CALLS, work_ms);
            tokio::spawn(async move { make(&engine, tenant, calls).await })
        })
        .collect();
    let mut modest = Seen { latencies: Vec::new(), errors: Vec::new() };
    for tenant in tenants {
        let seen = tenant.await.unwrap();
        modest.latencies.extend(seen.latencies);
        modest.errors.extend(seen.errors);
    }
    modest.latencies.sort_unstable();
    (modest, flooder.await.unwrap())
}

async fn the_others_hardly_notice(queue_size: usize, work_ms: Range<u64>) -> Seen {
    let (quiet, _) = load(queue_size, &work_ms, false).await;
    let (modest, flooder) = load(queue_size, &work_ms, true).await;
    assert_eq!(quiet.errors, []);
    assert_eq!(modest.errors, [], "none of the others is refused");
    let (quiet, modest) = (quiet.p99(), modest.p99());
    assert!(modest <= quiet * 3 / 2, "{modest:?} in a flood, {quiet:?} without");
    flooder
}

#[tokio::test(start_paused = true)]
async fn a_flood_that_may_wait_hardly_slows_the_others() {
    the_others_hardly_notice(1_000_000, MIXED_MS).await;
    the_others_hardly_notice(1_000_000, EQUAL_MS).await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_that_fills_the_queue_is_refused_and_nobody_else() {
    for work_ms in [MIXED_MS, EQUAL_MS] {
        let flooder = the_others_hardly_notice(100, work_ms).await;
        assert!(flooder.errors.contains(&ErrorKind::QueueFull));
    }
}
