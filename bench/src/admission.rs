//! Overhead of admission control for a call that no limit delays.

use windlass::{Category, Engine, LimitSettings};

use crate::adder::{call_all, requests, tool};
use crate::report::{Figure, medians, timed};

const CALLS: usize = 500;
const ROUNDS: usize = 1_000;
const CATEGORY: &str = "arithmetic";
/// A limit that is never reached.
const PLENTY: usize = 1_000_000;

/// Measures a call with every kind of limit, against one without.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let free = engine(None, |_| {})?;
    let limited = engine(Some(PLENTY), |limits| {
        limits.bucket_limits.insert(CATEGORY.into(), PLENTY);
        limits.per_tenant = Some(PLENTY);
        limits.per_agent = Some(PLENTY);
        limits.calls_per_second = Some(100_000_000);
    })?;
    let once = |engine: &Engine| {
        let requests = requests(CALLS);
        timed(|| runtime.block_on(call_all(engine, requests)))
    };
    let [free, limited] = medians(ROUNDS, [&mut || once(&free), &mut || once(&limited)])
        .map(|seconds| seconds * 1e9 / CALLS as f64);
    Ok(vec![Figure::new("call with all limits / without", "ns", limited, free).at_most(1.3)])
}

fn engine(of_tool: Option<usize>, limit: fn(&mut LimitSettings)) -> anyhow::Result<Engine> {
    let tool = tool().with(|spec| {
        spec.category = Category::new(CATEGORY);
        spec.max_concurrent = of_tool;
    });
    Ok(Engine::builder()
        .tool(tool)
        .settings(|settings| {
            settings.limits.max_concurrent = PLENTY;
            limit(&mut settings.limits);
        })
        .build()?)
}
