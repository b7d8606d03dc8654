//! Queue for a writer that is a Tokio task.

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
    /// Called by the writer: waits for work, gathers for the commit interval, and swaps
    /// the work into the given empty lists. Work that is pending already has arrived at
    /// `earliest` or later. `None` if nothing arrives until `rest`.
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

    /// Called by the writer: backs off after a failure, but only for `least` if a flush
    /// is requested or the store closes. Returns new work that must not wait for the end
    /// of an outage, and whether the store closes.
    pub(crate) async fn pause(&self, least: Duration, time: Duration) -> (Work, bool) {
        let until = Instant::now() + time;
        sleep(least).await;
        self.wait_for(Inbox::is_pressed, until).await;
        let mut inbox = self.inbox.lock();
        (inbox.hand_over_impatient(), inbox.closing.is_some())
    }

    /// Called by the writer: takes pending work that must not wait for the end of an
    /// outage.
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
