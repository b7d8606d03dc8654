//! Retry budget: keeps retries from overloading a failing upstream (retry
//! storm).

use std::time::Duration;

use tokio::time::Instant;

/// Settings of the retry budget of an upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RetryBudget {
    /// Retries per first attempt within the window: 0.2 is one per five calls.
    pub share: f64,
    /// Minimum number of retries within the window, also for a quiet upstream.
    pub reserve: u64,
    /// Window in which attempts count.
    pub window: Duration,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { share: 0.2, reserve: 10, window: Duration::from_secs(10) }
    }
}

/// Spent part of the budget.
#[derive(Default)]
pub(super) struct SpentBudget {
    since: Option<Instant>,
    /// First attempts before this window.
    calls_before: u64,
    /// Retries in this window.
    extra: u64,
}

impl SpentBudget {
    /// Takes one retry, if one is left. `calls` counts all first attempts so
    /// far.
    pub(super) fn take(&mut self, budget: &RetryBudget, calls: u64, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.duration_since(since) >= budget.window) {
            // First attempts before this moment are unknown per window; only
            // later ones count.
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
