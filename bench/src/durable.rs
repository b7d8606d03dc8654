//! Durable calls, which are on disk before they run and before they are answered: many at
//! once (group commit), against one commit for each.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use windlass::Engine;
use windlass_store::{Options, SqliteStore, Synchronous};

use crate::adder::call_all;
use crate::records::{Bare, example, greeter, requests};
use crate::report::{Figure, medians};

const CALLERS: usize = 64;
/// Calls of each caller in a round.
const CALLS: usize = 16;
/// Commits in a round.
const COMMITS: usize = 64;
const ROUNDS: usize = 15;

/// Measures durable calls.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let folder = on_disk()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let options = Options { synchronous: Synchronous::Full, ..Options::default() };
    let store = SqliteStore::open_with(folder.path().join("durable.db"), options.clone())?;
    let engine = Engine::builder()
        .store(store)
        .tool(greeter())
        .settings(|settings| settings.limits.max_concurrent = CALLERS)
        .build()?;
    anyhow::ensure!(engine.records().keeps_intents(), "the store answers before the disk has it");
    let template = runtime.block_on(example(&engine))?;
    let mut bare = Bare::open(&folder.path().join("bare.db"), &options, template)?;
    let [commits, calls] = medians(
        ROUNDS,
        [&mut || bare.write(COMMITS, 1).unwrap(), &mut || {
            runtime.block_on(all_callers(&runtime, &engine))
        }],
    );
    let (calls, commits) = ((CALLERS * CALLS) as f64 / calls, COMMITS as f64 / commits);
    Ok(vec![
        Figure::new("64 durable callers / commit a call", "calls/s", calls, commits).at_least(8.0),
    ])
}

/// A directory beside this program: the one for temporary files may be in memory, where a
/// commit costs nothing.
fn on_disk() -> anyhow::Result<tempfile::TempDir> {
    let program = std::env::current_exe()?;
    Ok(tempfile::tempdir_in(program.parent().unwrap_or(&program))?)
}

async fn all_callers(runtime: &Runtime, engine: &Engine) -> Duration {
    let all: Vec<_> = (0..CALLERS).map(|_| requests(CALLS)).collect();
    let start = Instant::now();
    let callers: Vec<_> = all
        .into_iter()
        .map(|requests| {
            let engine = engine.clone();
            runtime.spawn(async move { call_all(&engine, requests).await })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    start.elapsed()
}
