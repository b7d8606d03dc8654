//! Overload: ten times the capacity of the server, for a minute.
//!
//! How quickly a call is refused is a matter of milliseconds, so any other process on the
//! machine would be measured as well. The minute is therefore divided into seconds, and
//! those in which other processes used the CPU are left out.

use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Load, closed_loop};
use super::client_runtime;
use super::offered::open_loop;
use super::processors::Processors;
use super::serve::Server;
use crate::report::Figure;

/// Few slots, as on a server whose tools wait for others.
const SETTINGS: &str = "concurrency:\n  max_concurrent: 10\n  queue_size: 100\n";
/// Enough to keep all slots busy, and few enough that no request is refused.
const CONNECTIONS: usize = 32;
const PEAK: Duration = Duration::from_secs(5);
const TIMES: f64 = 10.0;
const OVERLOAD: Duration = Duration::from_secs(60);
/// Sampling interval.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum share of the CPU used by other processes in a second that counts.
const OTHERS: f64 = 0.05;
/// Minimum number of seconds that must count.
const ENOUGH: usize = 20;
const MAX_REFUSAL_MS: f64 = 10.0;
/// An easy load, as a share of the peak.
const EASY: f64 = 0.5;
const EASY_TIME: Duration = Duration::from_secs(3);
const WINDOW: Duration = Duration::from_millis(500);
const MAX_RECOVERY: f64 = 5.0;
/// The p99 that counts as recovered, as a multiple of the p99 before.
const NORMAL: f64 = 1.5;

/// Measures throughput, refusals and memory under overload.
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
        // In the first third, caches fill up to their limits.
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

/// One second of the overload.
struct Second {
    from: Duration,
    to: Duration,
    /// The server's memory at its end, in KB.
    memory: f64,
    /// Whether other processes left the CPU to us.
    is_quiet: bool,
}

/// Samples the machine during the overload.
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
