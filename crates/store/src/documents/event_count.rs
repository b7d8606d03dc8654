//! [`EventCount`]: how many events there are, and whose are too many.

use windlass::fair_level;

/// Maximum number of events deleted in one transaction.
const STEP: u64 = 5000;

/// An upper bound of the number of events, so that they are not counted again while they
/// cannot be too many.
#[derive(Default)]
pub(crate) struct EventCount {
    /// What was counted last, and the newest position then.
    counted: Option<(u64, u64)>,
}

/// Events of a tenant that are too many.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventSurplus {
    pub(crate) tenant: String,
    /// How many it keeps in the end.
    pub(crate) level: u64,
    /// How many go at most in this step.
    pub(crate) gone: u64,
}

impl EventCount {
    /// Whether there may be more than `keep`. Positions have no gaps when they are given
    /// out.
    pub(crate) fn may_exceed(&self, keep: u64, newest: u64) -> bool {
        self.counted.is_none_or(|(count, then)| count + newest.saturating_sub(then) > keep)
    }

    /// What there is, by tenant. Returns the tenants that lose their oldest events in the
    /// next step: those with the most, down to a common level.
    pub(crate) fn counted(
        &mut self,
        counts: Vec<(String, u64)>,
        keep: u64,
        newest: u64,
    ) -> Vec<EventSurplus> {
        self.counted = Some((counts.iter().map(|(_, count)| count).sum(), newest));
        let level = fair_level(counts.iter().map(|(_, count)| *count), keep.max(1));
        let mut left = STEP;
        let surplus = counts.into_iter().filter_map(|(tenant, count)| {
            let gone = count.saturating_sub(level).min(left);
            left -= gone;
            (gone > 0).then_some(EventSurplus { tenant, level, gone })
        });
        surplus.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_when_they_may_be_too_many() {
        let mut count = EventCount::default();
        assert!(count.may_exceed(10, 3));
        let of = |counts: &[(&str, u64)]| {
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<Vec<_>>()
        };
        assert!(count.counted(of(&[("a", 2), ("b", 6)]), 10, 100).is_empty());
        assert!(!count.may_exceed(10, 102) && count.may_exceed(10, 103));
        let surplus = |level, gone| vec![EventSurplus { tenant: "b".to_owned(), level, gone }];
        assert_eq!(count.counted(of(&[("a", 2), ("b", 9)]), 10, 103), surplus(8, 1));
        assert!(count.may_exceed(10, 103));
        let huge = count.counted(of(&[("a", 2), ("b", 20_000), ("c", 9_000)]), 10, 30_000);
        assert_eq!(huge, surplus(4, STEP));
    }
}
