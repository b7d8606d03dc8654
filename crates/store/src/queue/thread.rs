//! Queue for a writer on a thread of its own.

use std::time::{Duration, Instant};

use parking_lot::Condvar;

use super::{Next, Queue, Wake, Work};

/// The queue of such a writer.
pub(crate) type ThreadQueue = Queue<Condvar>;

impl Wake for Condvar {
    fn wake(&self) {
        self.notify_one();
    }
}

impl ThreadQueue {
    /// Called by the writer: waits for work, gathers for the commit interval, and swaps
    /// the work into the given empty lists. Work that is pending already has arrived at
    /// `earliest` or later.
    pub(crate) fn next(&self, work: &mut Work, earliest: Instant) -> Next {
        let mut inbox = self.inbox.lock();
        let mut first = earliest;
        loop {
            match inbox.next() {
                Some(Next::End) => return Next::End,
                Some(Next::Write) => break,
                None => self.wake.wait(&mut inbox),
            }
            first = Instant::now();
        }
        let until = first + self.commit_interval;
        while !self.is_due(&inbox) {
            if self.wake.wait_until(&mut inbox, until).timed_out() {
                break;
            }
        }
        inbox.hand_over(work);
        Next::Write
    }

    /// Called by the writer: backs off after a failure, but not if a flush is requested,
    /// and in a closing store no longer than `close_timeout`. Returns new work that must
    /// not wait for the end of an outage.
    pub(crate) fn pause(&self, time: Duration, close_timeout: Duration) -> Work {
        let mut until = Instant::now() + time;
        let mut inbox = self.inbox.lock();
        while !inbox.hurry {
            until = inbox.closing.map_or(until, |since| until.min(since + close_timeout));
            if self.wake.wait_until(&mut inbox, until).timed_out() {
                break;
            }
        }
        inbox.hand_over_impatient()
    }

    /// Called by the writer: whether the store has been closing for this long.
    pub(crate) fn closes_for(&self, time: Duration) -> bool {
        self.inbox.lock().closing.is_some_and(|since| since.elapsed() >= time)
    }
}
