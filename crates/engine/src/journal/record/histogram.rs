//! Histogram of execution times: percentiles over millions of calls need only a
//! few hundred counters, and histograms can be added.

use std::collections::BTreeMap;
use std::time::Duration;

/// Sub-buckets per power of two: the relative error of a percentile is at most
/// 1/32.
const STEPS: u64 = 32;

/// Counters of execution times by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(BTreeMap<u32, u64>);

impl Histogram {
    /// The bucket of a duration. Buckets are stable across releases, because
    /// stores keep them.
    pub fn bucket(duration: Duration) -> u32 {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(1 << 52);
        if micros < STEPS {
            return micros as u32;
        }
        let doublings = u64::from(micros.ilog2() - STEPS.ilog2());
        (STEPS * doublings + (micros >> doublings)) as u32
    }

    /// Upper bound of a bucket, in milliseconds.
    fn upper_ms(bucket: u32) -> f64 {
        let bucket = u64::from(bucket);
        let micros = if bucket < STEPS {
            bucket
        } else {
            let doublings = bucket / STEPS - 1;
            ((bucket % STEPS + STEPS + 1) << doublings) - 1
        };
        micros as f64 / 1000.0
    }

    /// Adds calls to a bucket.
    pub fn add(&mut self, bucket: u32, count: u64) {
        *self.0.entry(bucket).or_default() += count;
    }

    /// The quantile (0 to 1) of the execution times, in milliseconds; 0 without
    /// calls.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let total: u64 = self.0.values().sum();
        let wanted = ((total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (&bucket, &count) in &self.0 {
            seen += count;
            if seen >= wanted {
                return Self::upper_ms(bucket);
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_grow_and_stay_close_to_the_value() {
        let mut last = 0;
        for micros in (0..100_000).chain([1 << 30, 1 << 51, 1 << 60]) {
            let bucket = Histogram::bucket(Duration::from_micros(micros));
            assert!(bucket >= last, "{micros}");
            last = bucket;
            let upper = (Histogram::upper_ms(bucket) * 1000.0).round();
            if micros < 1 << 52 {
                let value = micros as f64;
                assert!(
                    upper >= value && upper <= value * (1.0 + 1.0 / 31.0) + 1.0,
                    "{micros} {upper}"
                );
            }
        }
    }

    #[test]
    fn quantiles_of_a_ramp() {
        let mut histogram = Histogram::default();
        for millis in 1..=1000 {
            histogram.add(Histogram::bucket(Duration::from_millis(millis)), 1);
        }
        for (share, wanted) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let found = histogram.quantile_ms(share);
            assert!((found - wanted).abs() / wanted < 0.04, "{share}: {found}");
        }
        assert_eq!(Histogram::default().quantile_ms(0.5), 0.0);
    }
}
