//! Ten times as many calls as the server can make, for a minute.
//!
//! How quickly a refusal comes is a matter of milliseconds, and whoever else uses
//! the processors for that long is measured with it. So the minute is looked at
//! second by second, and what others did is left out, as far as it can be told.

use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Load, closed_loop};
use super::client_runtime;
use super::offered::open_loop;
use super::processors::Processors;
use super::serve::Server;
use crate::report::Figure;

/// Slots are scarce here, as they are where tools wait for others.
const SETTINGS: &str = "concurrency:\n  max_concurrent: 10\n  queue_size: 100\n";
/// Enough to keep all slots busy, and few enough that nobody is refused.
const CONNECTIONS: usize = 32;
const PEAK: Duration = Duration::from_secs(5);
const TIMES: f64 = 10.0;
const OVERLOAD: Duration = Duration::from_secs(60);
/// How often the machine is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The share of the processors that others may use in a second that counts.
const OTHERS: f64 = 0.05;
/// The seconds that have to count.
const ENOUGH: usize = 20;
const MAX_REFUSAL_MS: f64 = 10.0;
/// A load without any trouble, as a share of the peak.
const EASY: f64 = 0.5;
const EASY_TIME: Duration = Duration::from_secs(3);
const WINDOW: Duration = Duration::from_millis(500);
const MAX_RECOVERY: f64 = 5.0;
/// The p99 that counts as normal, as a multiple of what it was before.
const NORMAL: f64 = 1.5;

/// Measures what becomes of calls, refusals and memory.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("windlass.yaml"), SETTINGS)?;
    let server = Server::start(folder.path())?;
    let call = server.call(&json!({"tool": "wait", "arguments": {"seconds": 0.01}}));
    client_runtime()?.block_on(async {
        let peak = closed_loop(server.address, &call, CONNECTIONS, PEAK).await?.per_second();
        let before = open_loop(server.address, &call, peak * EASY, EASY_TIME).await?;
        let offered = open_loop(server.address, &call, peak * TIMES, OVERLOAD);
        let (offered, seen) = tokio::join!(offered, watch(&server));
        let (offered, seen) = (offered?, seen?);
        let ended = Instant::now();
        let normal = before.admitted.p99() * NORMAL;
        let recovery = loop {
            let took = ended.elapsed().as_secs_f64();
            let now = open_loop(server.address, &call, peak * EASY, WINDOW).await?;
            if now.refused.is_empty() && now.admitted.p99() <= normal || took > 60.0 {
                break took;
            }
        };
        // In the first third, caches fill up to their bounds.
        let third = seen.len() / 3;
        let most = |part: &[Second]| part.iter().map(|it| it.memory).fold(0.0, f64::max) / 1024.0;
        let (early, late) = (most(&seen[third..2 * third]), most(&seen[2 * third..]));
        let goodput = offered.admitted.per_second();
        let quiet = seen.iter().filter(|second| second.is_quiet).count();
        anyhow::ensure!(
            quiet >= ENOUGH,
            "others used the processors in all but {quiet} of {} seconds: run it again when the \
             machine is quiet",
            seen.len()
        );
        let counts = |(asked, _): &&(Duration, Duration)| {
            let covers = |second: &&Second| second.from <= *asked && *asked < second.to;
            seen.iter().find(covers).is_some_and(|second| second.is_quiet)
        };
        let refused = offered.refused.iter().filter(counts).map(|(_, took)| *took).collect();
        let refusal = Load::new(refused, OVERLOAD).p99();
        Ok(vec![
            Figure::new("calls/s in overload / at the peak", "calls/s", goodput, peak)
                .at_least(0.9),
            Figure::new("p99 of a refusal / 10 ms", "ms", refusal, MAX_REFUSAL_MS).at_most(1.0),
            Figure::new("seconds without others / all", "s", quiet as f64, seen.len() as f64),
            Figure::new("its memory, last third / second", "MB", late, early).at_most(1.1),
            Figure::new("time until all is normal / 5 s", "s", recovery, MAX_RECOVERY).at_most(1.0),
        ])
    })
}

/// A second of the overload.
struct Second {
    from: Duration,
    to: Duration,
    /// The server's memory at its end, in KB.
    memory: f64,
    /// Whether the processors were ours.
    is_quiet: bool,
}

/// Looks at the machine while the server is overloaded.
async fn watch(server: &Server) -> anyhow::Result<Vec<Second>> {
    let began = Instant::now();
    let mut seen = Vec::<Second>::new();
    let mut before = Processors::now(server.id())?;
    while began.elapsed() < OVERLOAD {
        let from = began.elapsed();
        tokio::time::sleep(LOOK).await;
        let now = Processors::now(server.id())?;
        let is_quiet = now.others_since(&before) <= OTHERS;
        seen.push(Second { from, to: began.elapsed(), memory: server.resident_kb(), is_quiet });
        before = now;
    }
    Ok(seen)
}
