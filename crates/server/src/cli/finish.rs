//! Graceful end of a command that ran calls: background work is awaited unless the
//! user interrupts again, and results are printed after they were recorded.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use windlass::{Engine, Error};

use crate::cli::interrupt::Interrupts;
use crate::cli::output::Screen;
use crate::settings::DatabaseLocation;

/// How long something may take before it is explained.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long work that its caller has left may go on. As long as a call may
/// take if nobody says otherwise.
const GRACE: Duration = Duration::from_secs(30);

/// Waits for work that goes on although its caller has gone, such as a change
/// that a cancelled tool had begun, then until all records are kept.
pub(crate) async fn finish(
    engine: &Engine,
    database: &DatabaseLocation,
    screen: Screen,
    interrupts: &mut Interrupts,
) -> Result<(), Error> {
    let work = explained(engine.finish(), || {
        screen.note("a change that was begun is being finished; Ctrl-C does not wait for it");
    });
    let done = tokio::select! {
        () = work => true,
        () = interrupts.next() => false,
        () = sleep(GRACE) => false,
    };
    if !done {
        screen.warn("a change that was begun was not finished; it may or may not have happened");
    }
    explained(engine.records().flush(), || {
        let database = database.describe();
        screen.note(format_args!("waiting for the database {database} to keep the record"));
    })
    .await
}

/// Waits, and explains it where people begin to wonder.
async fn explained<T>(work: impl Future<Output = T>, explain: impl FnOnce()) -> T {
    let mut work = pin!(work);
    if let Ok(done) = timeout(PATIENCE, work.as_mut()).await {
        return done;
    }
    explain();
    work.await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use serde_json::{Value, json};
    use tokio::time::Instant;
    use windlass::{CallRequest, ToolBuilder};

    use super::*;

    /// Begins a change of this length, leaves it, and finishes; says whether
    /// the change was done by then, and how long that took.
    async fn left_behind(length: Duration) -> (bool, Duration) {
        let done = Arc::new(AtomicBool::new(false));
        let change = {
            let done = Arc::clone(&done);
            move |_: Value| {
                let done = Arc::clone(&done);
                async move {
                    sleep(length).await;
                    done.store(true, Ordering::Relaxed);
                    "changed"
                }
            }
        };
        let tool = ToolBuilder::from_fn("save_order", change);
        let engine = Engine::builder().tool(tool).build().unwrap();
        let request = CallRequest::new("save_order", json!({})).timeout(Duration::from_secs(600));
        assert!(timeout(Duration::from_millis(50), engine.call(request)).await.is_err());
        let began = Instant::now();
        let screen = Screen { json: false, quiet: true, verbose: false };
        finish(&engine, &DatabaseLocation::Memory, screen, &mut Interrupts::none()).await.unwrap();
        (done.load(Ordering::Relaxed), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_was_begun_is_finished_within_bounds() {
        let (done, _) = left_behind(Duration::from_secs(5)).await;
        assert!(done);
        let (done, took) = left_behind(Duration::from_secs(300)).await;
        assert!(!done && took < GRACE * 2, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_long_wait_is_explained() {
        for (millis, expected) in [(0, false), (900, false), (1100, true), (60_000, true)] {
            let mut told = false;
            explained(sleep(Duration::from_millis(millis)), || told = true).await;
            assert_eq!(told, expected, "{millis} ms");
        }
    }
}
