//! Circuit breaker for failing upstreams.

use std::time::Duration;

use tokio::time::Instant;

/// Settings of the circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BreakerSettings {
    /// Failures within the window that open the circuit…
    pub failures: u32,
    /// …if they are at least this share of all attempts since the first
    /// failure.
    pub share: f64,
    /// Window in which failures count.
    pub window: Duration,
    /// How long the circuit stays open before a probe; doubled after each
    /// failed probe.
    pub open_for: Duration,
    /// Maximum time that the circuit stays open.
    pub max_open_for: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            failures: 10,
            share: 0.5,
            window: Duration::from_secs(30),
            open_for: Duration::from_secs(5),
            max_open_for: Duration::from_secs(60),
        }
    }
}

/// The circuit between a tenant and an upstream.
pub(super) enum Breaker {
    /// Closed, with some failures.
    Closed { since: Instant, failures: u32, successes: u32 },
    /// Open: no attempts.
    Open { until: Instant, open_for: Duration },
    /// Half-open: one call probes whether the upstream has recovered.
    Probing { open_for: Duration },
}

/// Decision about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerDecision {
    /// Proceed.
    Pass,
    /// Proceed as the probe.
    Probe,
    /// Refused; retry after this.
    Wait(Duration),
}

impl Breaker {
    pub(super) fn new(now: Instant) -> Self {
        Self::Closed { since: now, failures: 0, successes: 0 }
    }

    /// Whether an attempt may start now.
    pub(super) fn enter(&mut self, now: Instant) -> BreakerDecision {
        match *self {
            Self::Closed { .. } => BreakerDecision::Pass,
            Self::Open { until, open_for } if now >= until => {
                *self = Self::Probing { open_for };
                BreakerDecision::Probe
            }
            Self::Open { until, .. } => BreakerDecision::Wait(until - now),
            Self::Probing { open_for } => BreakerDecision::Wait(open_for),
        }
    }

    /// How long the circuit stays open; `None` if an attempt may start.
    pub(super) fn closed_for(&self, now: Instant) -> Option<Duration> {
        match *self {
            Self::Open { until, .. } if now < until => Some(until - now),
            Self::Probing { open_for } => Some(open_for),
            Self::Open { .. } | Self::Closed { .. } => None,
        }
    }

    /// Reports a failure. Attempts that started before the circuit opened are
    /// ignored.
    pub(super) fn failed(&mut self, probe: bool, settings: &BreakerSettings, now: Instant) {
        match self {
            Self::Probing { open_for } if probe => {
                let open_for = (*open_for * 2).min(settings.max_open_for);
                *self = Self::Open { until: now + open_for, open_for };
            }
            Self::Closed { since, failures, successes } => {
                if now.duration_since(*since) > settings.window {
                    (*since, *failures, *successes) = (now, 0, 0);
                }
                *failures += 1;
                let all = f64::from(*failures + *successes);
                if *failures >= settings.failures && f64::from(*failures) >= all * settings.share {
                    let open_for = settings.open_for;
                    *self = Self::Open { until: now + open_for, open_for };
                }
            }
            Self::Open { .. } | Self::Probing { .. } => {}
        }
    }

    /// Reports a success. Returns whether the circuit is healthy again, with
    /// nothing left to remember.
    pub(super) fn succeeded(
        &mut self,
        probe: bool,
        settings: &BreakerSettings,
        now: Instant,
    ) -> bool {
        match self {
            Self::Probing { .. } => probe,
            Self::Closed { since, successes, .. } => {
                *successes += 1;
                now.duration_since(*since) > settings.window
            }
            Self::Open { .. } => false,
        }
    }

    /// Whether there is nothing left to remember.
    pub(super) fn is_over(&self, settings: &BreakerSettings, now: Instant) -> bool {
        match *self {
            Self::Closed { since, .. } => now.duration_since(since) > settings.window,
            Self::Open { until, .. } => now > until + settings.max_open_for,
            Self::Probing { .. } => false,
        }
    }

    /// The probe ended without an answer: the next call probes.
    pub(super) fn undecided(&mut self, now: Instant) {
        if let Self::Probing { open_for } = *self {
            *self = Self::Open { until: now, open_for };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: BreakerSettings = BreakerSettings {
        failures: 3,
        share: 0.5,
        window: Duration::from_secs(10),
        open_for: Duration::from_secs(5),
        max_open_for: Duration::from_secs(12),
    };

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    fn opened(start: Instant) -> Breaker {
        let mut breaker = Breaker::new(start);
        (0..3).for_each(|_| breaker.failed(false, &SETTINGS, start));
        breaker
    }

    #[test]
    fn it_opens_and_lets_one_probe_through() {
        let start = Instant::now();
        let mut breaker = opened(start);
        assert_eq!(breaker.enter(start), BreakerDecision::Wait(Duration::from_secs(5)));
        assert_eq!(breaker.enter(after(start, 5)), BreakerDecision::Probe);
        assert!(
            matches!(breaker.enter(after(start, 5)), BreakerDecision::Wait(_)),
            "one probe at a time"
        );
        assert!(!breaker.succeeded(false, &SETTINGS, after(start, 5)), "a late answer is no proof");
        assert!(breaker.succeeded(true, &SETTINGS, after(start, 6)));
    }

    #[test]
    fn a_failed_probe_doubles_the_time_up_to_the_longest() {
        let start = Instant::now();
        let mut breaker = opened(start);
        let mut now = start;
        let mut waits = Vec::new();
        for _ in 0..4 {
            let BreakerDecision::Wait(wait) = breaker.enter(now) else { panic!("it is open") };
            waits.push(wait.as_secs());
            now += wait;
            assert_eq!(breaker.enter(now), BreakerDecision::Probe);
            breaker.failed(true, &SETTINGS, now);
        }
        assert_eq!(waits, [5, 10, 12, 12]);
    }

    #[test]
    fn a_probe_without_an_answer_leaves_the_turn_to_the_next() {
        let start = Instant::now();
        let mut breaker = opened(start);
        assert_eq!(breaker.enter(after(start, 5)), BreakerDecision::Probe);
        breaker.undecided(after(start, 6));
        assert_eq!(breaker.enter(after(start, 6)), BreakerDecision::Probe);
    }

    #[test]
    fn few_failures_among_many_successes_open_nothing() {
        let start = Instant::now();
        let mut breaker = Breaker::new(start);
        for _ in 0..100 {
            breaker.failed(false, &SETTINGS, start);
            breaker.succeeded(false, &SETTINGS, start);
            breaker.succeeded(false, &SETTINGS, start);
        }
        assert_eq!(breaker.enter(start), BreakerDecision::Pass);
        let mut breaker = Breaker::new(start);
        for second in 0..10 {
            breaker.failed(false, &SETTINGS, after(start, second * 6));
        }
        assert_eq!(breaker.enter(after(start, 60)), BreakerDecision::Pass, "too far apart");
    }
}
