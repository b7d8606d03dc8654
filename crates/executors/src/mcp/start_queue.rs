//! Start queue: limits how many servers load at once ahead of need.
//!
//! A process that loads keeps a processor busy, for a second if it is a large one; dozens
//! of them together leave nothing to the one that somebody waits for. So there is a slot
//! for each processor. A start holds one until the server is up, or until its processes
//! do not run any more: a server that waits for something does not block the next.
//! Tenants share the slots fairly: one with hundreds of servers does not delay those of
//! others. Calls never wait here, and servers elsewhere load nothing.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use windlass::definition::McpTransport;
use windlass::{FairSlot, FairSlots};

use super::server::{Server, State};

/// Minimum number of processors that load servers. One more slot is always kept free for
/// tenants that have none.
const FEWEST: usize = 2;
/// How often the processes of a start are looked at, and how often in a row they have to
/// be idle: one that loads pauses, too.
const LOOK: Duration = Duration::from_millis(5);
const IN_A_ROW: usize = 3;
/// How long a start holds its slot at most, and where nothing is known of its processes.
const LONGEST: Duration = Duration::from_secs(1);
const UNKNOWN: Duration = Duration::from_millis(250);
/// Maximum depth of the processes that are looked at: a shell, `npx`, its shell, the
/// server.
const MAX_DEPTH: usize = 6;

pub(super) struct StartQueue(Arc<FairSlots>);

impl Default for StartQueue {
    fn default() -> Self {
        Self::of(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl StartQueue {
    fn of(processors: usize) -> Self {
        Self(FairSlots::new(processors.max(FEWEST) + 1))
    }

    /// Waits for a slot, or until a call needs the server.
    pub(super) async fn turn(&self, server: &Server) {
        tokio::select! {
            biased;
            () = server.needed.notified() => {}
            () = self.place(server) => {}
        }
    }

    /// Waits for a slot.
    pub(super) async fn place(&self, server: &Server) {
        if matches!(server.settings().transport, McpTransport::Url { .. }) {
            return;
        }
        let slot = self.0.take(server.owner()).await;
        if server.state() == State::Idle {
            let process = Arc::clone(&server.process);
            // Not the one of an earlier start.
            process.store(0, Ordering::Relaxed);
            tokio::spawn(hold(slot, server.started(), move || is_loading(&process)));
        }
    }
}

/// Holds a slot while a server loads.
async fn hold(
    slot: FairSlot,
    started: impl Future<Output = ()>,
    is_loading: impl Fn() -> Option<bool>,
) {
    let idle = async {
        let mut row = 0;
        while row < IN_A_ROW {
            sleep(LOOK).await;
            row = match is_loading() {
                Some(true) => 0,
                Some(false) => row + 1,
                None => return sleep(UNKNOWN).await,
            };
        }
    };
    tokio::select! {
        () = started => {}
        _ = timeout(LONGEST, idle) => {}
    }
    drop(slot);
}

/// Whether the process of a start runs, or will in a moment; known where there is `/proc`.
fn is_loading(process: &AtomicI32) -> Option<bool> {
    match process.load(Ordering::Relaxed) {
        0 => Some(true),
        process => runs(process, MAX_DEPTH),
    }
}

/// Whether a process or one that it has started runs, or waits for the disk.
fn runs(process: i32, depth: usize) -> Option<bool> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, facts) = stat.rsplit_once(')')?;
    if facts.trim_start().starts_with(['R', 'D']) {
        return Some(true);
    }
    let Some(deeper) = depth.checked_sub(1) else { return Some(false) };
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    let children = children.unwrap_or_default();
    let mut children = children.split_whitespace().filter_map(|child| child.parse().ok());
    Some(children.any(|child| runs(child, deeper) == Some(true)))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;

    impl StartQueue {
        async fn slot(&self) -> FairSlot {
            self.0.take(None).await
        }

        /// How long it takes until so many servers have had a slot, none of which comes up.
        async fn taking(&self, starts: usize, is_loading: fn() -> Option<bool>) -> Duration {
            let begin = Instant::now();
            for _ in 0..starts {
                tokio::spawn(hold(self.slot().await, pending(), is_loading));
            }
            begin.elapsed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn servers_that_wait_do_not_block_each_other() {
        assert!(StartQueue::of(2).taking(33, || Some(false)).await < Duration::from_millis(300));
        assert!(StartQueue::of(8).taking(33, || None).await < Duration::from_millis(1_200));
    }

    #[tokio::test(start_paused = true)]
    async fn while_all_processors_load_servers_the_next_waits_until_one_is_up() {
        let queue = StartQueue::of(2);
        let begin = Instant::now();
        let (up, started) = oneshot::channel::<()>();
        let first = async { drop(started.await) };
        tokio::spawn(hold(queue.slot().await, first, || Some(true)));
        tokio::spawn(hold(queue.slot().await, pending(), || Some(true)));
        tokio::spawn(async move {
            sleep(Duration::from_millis(100)).await;
            up.send(()).unwrap();
        });
        drop(queue.slot().await);
        assert_eq!(begin.elapsed(), Duration::from_millis(100));
        // Not for ever.
        assert!(queue.taking(4, || Some(true)).await <= 2 * LONGEST);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_runs_is_told_from_one_that_waits() {
        use std::os::unix::process::CommandExt;
        use std::process::Command;

        use rustix::process::{Pid, Signal, kill_process_group};

        let becomes = |process: &AtomicI32, wanted: Option<bool>| {
            let looks = (0..2_000).map(|_| {
                std::thread::sleep(LOOK);
                is_loading(process)
            });
            looks.into_iter().any(|seen| seen == wanted)
        };
        for (script, runs) in [
            ("sleep 60; true", false),
            ("while :; do :; done", true),
            // One that it has started.
            ("sh -c 'while :; do :; done'; true", true),
        ] {
            let mut child =
                Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap();
            let process = AtomicI32::new(child.id().cast_signed());
            assert!(becomes(&process, Some(runs)), "{script}");
            kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
            child.wait().unwrap();
            assert!(becomes(&process, None), "{script}");
        }
        assert_eq!(is_loading(&AtomicI32::new(0)), Some(true));
    }
}
