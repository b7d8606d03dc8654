//! A batch of read-only calls with a single call with side effects among them, on a real
//! clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windlass::{Batch, Behaviour, CallRequest, Engine, ToolBuilder};

use crate::report::{Figure, medians, timed};

const WORK: Duration = Duration::from_millis(50);
/// Read-only calls before the one with side effects, and after it.
const LOOKS: usize = 10;
/// Waves: the first ten in parallel, the single one alone, the last ten in parallel.
const WAVES: u32 = 3;
const ROUNDS: usize = 15;
/// Greater than the number of read-only calls that run in parallel.
const ALONE: usize = 1_000;

/// Detects whether anything ran in parallel with the call that must run alone.
#[derive(Default)]
struct Watch {
    running: AtomicUsize,
    overlapped: AtomicBool,
}

impl Watch {
    /// `weight` is 1 for a read-only call and [`ALONE`] for the other.
    async fn work(&self, weight: usize) {
        let running = self.running.fetch_add(weight, Ordering::SeqCst) + weight;
        if running > ALONE {
            self.overlapped.store(true, Ordering::SeqCst);
        }
        tokio::time::sleep(WORK).await;
        self.running.fetch_sub(weight, Ordering::SeqCst);
    }
}

/// Measures a batch with default settings.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let watch = Arc::new(Watch::default());
    let worker = |name: &str, weight: usize| {
        let watch = Arc::clone(&watch);
        ToolBuilder::from_fn(name, move |_: Value| {
            let watch = Arc::clone(&watch);
            async move { watch.work(weight).await }
        })
    };
    let engine = Engine::builder()
        .tool(worker("look", 1).behaviour(Behaviour::READ_ONLY))
        .tool(worker("change", ALONE))
        .build()?;
    let looks = || std::iter::repeat_n("look", LOOKS);
    let names: Vec<&str> = looks().chain(["change"]).chain(looks()).collect();
    let once = || {
        let batch = Batch::new(names.iter().map(|&name| CallRequest::new(name, json!({}))));
        timed(|| {
            // In a task, so that a worker waits and not this thread.
            let engine = engine.clone();
            let calls = runtime.spawn(async move { engine.call_batch(batch).await });
            let results = runtime.block_on(calls).unwrap();
            assert_eq!(results.len(), names.len());
            assert!(results.iter().all(windlass::CallResult::is_success));
        })
    };
    let [took] = medians(ROUNDS, [&mut { once }]);
    let overlapped = watch.overlapped.load(Ordering::SeqCst);
    anyhow::ensure!(!overlapped, "a call ran beside the one that must run alone");
    let ideal = (WORK * WAVES).as_secs_f64();
    Ok(vec![Figure::new("21 calls in a batch / plan", "ms", took * 1e3, ideal * 1e3).at_most(1.04)])
}
