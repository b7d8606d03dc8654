//! How many attempts may be repeated: a dead upstream must not be stormed by
//! those who try again.

use std::time::Duration;

use tokio::time::Instant;

/// How many extra attempts an upstream gets.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RetryBudget {
    /// Extra attempts for each first one within the window: 0.2 is one for
    /// five calls.
    pub share: f64,
    /// Extra attempts within the window that a quiet upstream gets in any case.
    pub reserve: u64,
    /// How long attempts count.
    pub window: Duration,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { share: 0.2, reserve: 10, window: Duration::from_secs(10) }
    }
}

/// What has been spent.
#[derive(Default)]
pub(super) struct SpentBudget {
    since: Option<Instant>,
    /// First attempts before this window.
    calls_before: u64,
    /// Extra attempts in this window.
    extra: u64,
}

impl SpentBudget {
    /// Takes one extra attempt, if there is one left. `calls` counts all first
    /// attempts so far.
    pub(super) fn take(&mut self, budget: &RetryBudget, calls: u64, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.duration_since(since) >= budget.window) {
            // The calls of the window that has just begun are not known apart
            // from earlier ones; only those that come from now on count.
            *self = Self { since: Some(now), calls_before: calls, extra: 0 };
        }
        let earned = calls.saturating_sub(self.calls_before) as f64 * budget.share;
        let left = (self.extra as f64) < earned.floor().max(budget.reserve as f64);
        self.extra += u64::from(left);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_upstream_gets_one_extra_attempt_for_five_calls() {
        let (budget, now) = (RetryBudget::default(), Instant::now());
        let mut spent = SpentBudget::default();
        let taken = (1..=1_000).filter(|&calls| spent.take(&budget, calls, now)).count();
        assert!((190..=200).contains(&taken), "{taken}");
    }

    #[test]
    fn a_quiet_upstream_gets_its_reserve_once_a_window() {
        let (budget, now) = (RetryBudget::default(), Instant::now());
        let mut spent = SpentBudget::default();
        let mut take = |seconds| spent.take(&budget, 1, now + Duration::from_secs(seconds));
        assert_eq!((0..30).filter(|_| take(0)).count(), 10);
        assert!(!take(9));
        assert!(take(10));
    }
}
