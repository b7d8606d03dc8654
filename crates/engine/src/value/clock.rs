//! Wall clock derived from the monotonic clock, so that a call reads the time
//! once, not twice.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Resynchronisation interval.
const TRUSTED: Duration = Duration::from_secs(1);

/// Converts monotonic instants to wall-clock time.
pub(crate) struct Clock {
    start: Instant,
    /// Wall-clock time at `start`, in microseconds, as of the last
    /// synchronisation.
    start_us: AtomicI64,
    /// Last synchronisation, in microseconds after `start`.
    seen_us: AtomicI64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            start_us: AtomicI64::new(Timestamp::now().as_microsecond()),
            seen_us: AtomicI64::new(0),
        }
    }

    /// Wall-clock time of an instant, which should be about now.
    pub(crate) fn at(&self, moment: Instant) -> Timestamp {
        let passed = moment.saturating_duration_since(self.start);
        let passed_us = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
        let since_seen = passed_us.saturating_sub(self.seen_us.load(Ordering::Relaxed));
        if since_seen > TRUSTED.as_micros() as i64 {
            let now_us = Timestamp::now().as_microsecond();
            self.start_us.store(now_us.saturating_sub(passed_us), Ordering::Relaxed);
            self.seen_us.store(passed_us, Ordering::Relaxed);
        }
        let at_us = self.start_us.load(Ordering::Relaxed).saturating_add(passed_us);
        Timestamp::from_microsecond(at_us).unwrap_or_else(|_| Timestamp::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_tells_the_time_of_day() {
        let clock = Clock::new();
        for _ in 0..3 {
            let off = Timestamp::now().duration_since(clock.at(Instant::now())).abs();
            assert!(off.as_millis() < 200, "{off:?}");
            std::thread::sleep(Duration::from_millis(600));
        }
    }
}
