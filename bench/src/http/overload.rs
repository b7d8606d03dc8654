//! Ten times as many calls as the server can make, for a minute.

use std::time::{Duration, Instant};

use serde_json::json;

use super::client::closed_loop;
use super::client_runtime;
use super::offered::open_loop;
use super::serve::Server;
use crate::report::Figure;

/// Slots are scarce here, as they are where tools wait for others.
const SETTINGS: &str = "concurrency:\n  max_concurrent: 10\n  queue_size: 100\n";
/// Enough to keep all slots busy, and few enough that nobody is refused.
const CONNECTIONS: usize = 32;
const PEAK: Duration = Duration::from_secs(5);
const TIMES: f64 = 10.0;
const OVERLOAD: Duration = Duration::from_secs(60);
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(250);
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
        let (offered, memory) = tokio::join!(offered, watch(&server));
        let offered = offered?;
        let ended = Instant::now();
        let normal = before.admitted.p99() * NORMAL;
        let recovery = loop {
            let took = ended.elapsed().as_secs_f64();
            let now = open_loop(server.address, &call, peak * EASY, WINDOW).await?;
            if now.refused.count() == 0 && now.admitted.p99() <= normal || took > 60.0 {
                break took;
            }
        };
        // In the first third, caches fill up to their bounds.
        let third = memory.len() / 3;
        let most = |part: &[f64]| part.iter().copied().fold(0.0, f64::max) / 1024.0;
        let (early, late) = (most(&memory[third..2 * third]), most(&memory[2 * third..]));
        let goodput = offered.admitted.per_second();
        let refusal = offered.refused.p99();
        Ok(vec![
            Figure::new("calls/s in overload / at the peak", "calls/s", goodput, peak)
                .at_least(0.9),
            Figure::new("p99 of a refusal / 10 ms", "ms", refusal, MAX_REFUSAL_MS).at_most(1.0),
            Figure::new("its memory, last third / second", "MB", late, early).at_most(1.1),
            Figure::new("time until all is normal / 5 s", "s", recovery, MAX_RECOVERY).at_most(1.0),
        ])
    })
}

/// The memory of a server while it is overloaded.
async fn watch(server: &Server) -> Vec<f64> {
    let began = Instant::now();
    let mut seen = Vec::new();
    while began.elapsed() < OVERLOAD {
        seen.push(server.resident_kb());
        tokio::time::sleep(LOOK).await;
    }
    seen
}
