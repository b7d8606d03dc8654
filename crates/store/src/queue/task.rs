//! A writer that waits in a task.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Inbox, Next, Queue, Wake, Work};

/// The queue of such a writer.
pub(crate) type TaskQueue = Queue<Notify>;

impl Wake for Notify {
    fn wake(&self) {
        self.notify_one();
    }
}

impl TaskQueue {
    /// The writer's side: waits until there is something to write, gathers for
    /// the commit interval, and swaps it into the given empty lists. Whatever
    /// waits already has come at `earliest` or later. Nothing where nothing has
    /// come until `rest`.
    pub(crate) async fn next(
        &self,
        work: &mut Work,
        earliest: Instant,
        rest: Instant,
    ) -> Option<Next> {
        let mut first = earliest;
        loop {
            let next = self.inbox.lock().next();
            match next {
                Some(Next::End) => return Some(Next::End),
                Some(Next::Write) => break,
                None => timeout_at(rest, self.wake.notified()).await.ok()?,
            }
            first = Instant::now();
        }
        self.wait_for(|inbox| self.is_due(inbox), first + self.commit_interval).await;
        self.inbox.lock().hand_over(work);
        Some(Next::Write)
    }

    /// The writer's side: waits after a failure, but only for `least` when
    /// somebody is in a hurry or the store closes. Returns what came in the
    /// meantime and does not wait for better times, and whether the store
    /// closes.
    pub(crate) async fn pause(&self, least: Duration, time: Duration) -> (Work, bool) {
        let until = Instant::now() + time;
        sleep(least).await;
        self.wait_for(Inbox::is_pressed, until).await;
        let mut inbox = self.inbox.lock();
        (inbox.hand_over_impatient(), inbox.closing.is_some())
    }

    /// The writer's side: what waits, but not for better times.
    pub(crate) fn impatient(&self) -> Work {
        self.inbox.lock().hand_over_impatient()
    }

    async fn wait_for(&self, holds: impl Fn(&Inbox) -> bool, until: Instant) {
        while !holds(&self.inbox.lock()) {
            if timeout_at(until, self.wake.notified()).await.is_err() {
                break;
            }
        }
    }
}
