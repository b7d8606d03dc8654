//! Many tasks that call one engine from two threads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::Barrier;
use windlass::{Engine, MemoryStore};

use crate::adder::{call_all, requests, tool};
use crate::report::{Figure, quickest};

const TASKS: usize = 64;
const CALLS: usize = 12_800;
/// Requests that a task builds at once.
const PART: usize = 50;
const ROUNDS: usize = 200;
/// Records that an engine keeps: few, so that many engines fit into the CPU cache as one
/// does.
const KEPT: usize = 16;

/// Measures calls of many tasks, against those of one.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let shared = engine()?;
    let own = (0..TASKS).map(|_| engine()).collect::<anyhow::Result<Vec<Engine>>>()?;
    let alone = std::slice::from_ref(&shared);
    let together = vec![shared.clone(); TASKS];
    let [one, many, apart] = quickest(
        ROUNDS,
        [
            &mut || runtime.block_on(hammer(&runtime, alone)),
            &mut || runtime.block_on(hammer(&runtime, &together)),
            &mut || runtime.block_on(hammer(&runtime, &own)),
        ],
    )
    .map(|seconds| CALLS as f64 / seconds);
    Ok(vec![
        Figure::new("64 tasks / 1 task, 2 threads", "calls/s", many, one).at_least(1.5),
        // The upper bound of the two CPUs: nothing is shared here.
        Figure::new("the same, an engine for each task", "calls/s", apart, one),
    ])
}

fn engine() -> anyhow::Result<Engine> {
    let builder = Engine::builder().tool(tool()).store(MemoryStore::with_capacity(KEPT));
    Ok(builder.settings(|settings| settings.limits.max_concurrent = TASKS).build()?)
}

/// The time of all calls, with one task for each of these engines. Each task builds its
/// own requests: allocating on one thread and freeing on another would cost more than the
/// calls.
async fn hammer(runtime: &Runtime, engines: &[Engine]) -> Duration {
    let ready = Arc::new(Barrier::new(engines.len() + 1));
    let tasks: Vec<_> = engines
        .iter()
        .map(|engine| {
            let (engine, ready) = (engine.clone(), Arc::clone(&ready));
            let parts = CALLS / PART / engines.len();
            runtime.spawn(async move {
                ready.wait().await;
                let began = Instant::now();
                for _ in 0..parts {
                    call_all(&engine, requests(PART)).await;
                }
                (began, Instant::now())
            })
        })
        .collect();
    ready.wait().await;
    let mut spans = Vec::new();
    for task in tasks {
        spans.push(task.await.unwrap());
    }
    // From the first start to the last end.
    let began = spans.iter().map(|span| span.0).min();
    let ended = spans.iter().map(|span| span.1).max();
    ended.zip(began).map_or(Duration::ZERO, |(ended, began)| ended - began)
}
