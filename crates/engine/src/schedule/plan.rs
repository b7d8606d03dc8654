//! Which calls of a batch may run together.
//!
//! A pure function of what the calls do to the world: calls that only look run
//! together; a call that changes something waits for all before it, and all
//! after it wait for it; calls that name what they write wait only for those
//! that write the same. So effects happen in the order of the calls, and
//! nothing waits without a reason.

/// What a call does to the world, as far as other calls are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It may run beside any other that is shared.
    Shared,
    /// It runs alone.
    Exclusive,
    /// It writes these resources, and nothing else.
    Writes(Vec<String>),
}

impl Access {
    /// Whether two calls have to keep their order.
    fn conflicts(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Shared, Self::Shared) => false,
            (Self::Writes(own), Self::Writes(others)) => {
                own.iter().any(|resource| others.contains(resource))
            }
            _ => true,
        }
    }
}

/// The order of a batch: who waits for whom.
#[derive(Debug)]
pub(crate) struct Plan {
    /// How many calls each call still waits for.
    waiting_for: Vec<usize>,
    /// The calls that wait for each call.
    unlocks: Vec<Vec<usize>>,
}

impl Plan {
    /// Plans a batch. A call waits for every earlier call that it conflicts
    /// with.
    pub(crate) fn new(calls: &[Access]) -> Self {
        let mut plan =
            Self { waiting_for: vec![0; calls.len()], unlocks: vec![Vec::new(); calls.len()] };
        for (later, access) in calls.iter().enumerate() {
            for (earlier, before) in calls[..later].iter().enumerate() {
                if access.conflicts(before) {
                    plan.waiting_for[later] += 1;
                    plan.unlocks[earlier].push(later);
                }
            }
        }
        plan
    }

    /// The calls that wait for nothing, in call order.
    pub(crate) fn first(&self) -> impl Iterator<Item = usize> {
        (0..self.waiting_for.len()).filter(|&call| self.waiting_for[call] == 0)
    }

    /// A call is done: the calls that now wait for nothing, in call order.
    pub(crate) fn done(&mut self, call: usize) -> Vec<usize> {
        let mut ready = std::mem::take(&mut self.unlocks[call]);
        ready.retain(|&waiting| {
            self.waiting_for[waiting] -= 1;
            self.waiting_for[waiting] == 0
        });
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs a plan on a clock of whole ticks; gives begin and end of each call.
    fn simulate(accesses: &[Access], ticks: &[u64]) -> Vec<(u64, u64)> {
        let mut plan = Plan::new(accesses);
        let mut spans = vec![(0, 0); accesses.len()];
        let mut running: Vec<(u64, usize)> = plan.first().map(|call| (ticks[call], call)).collect();
        for &(end, call) in &running {
            spans[call] = (0, end);
        }
        while let Some(at) = (0..running.len()).min_by_key(|&at| running[at]) {
            let (now, call) = running.swap_remove(at);
            for next in plan.done(call) {
                spans[next] = (now, now + ticks[next]);
                running.push((now + ticks[next], next));
            }
        }
        spans
    }

    fn access() -> impl Strategy<Value = Access> {
        prop_oneof![
            3 => Just(Access::Shared),
            1 => Just(Access::Exclusive),
            2 => prop::collection::vec("[a-c]", 1..3).prop_map(Access::Writes),
        ]
    }

    proptest! {
        #[test]
        fn conflicting_calls_keep_their_order_and_nobody_waits_without_reason(
            calls in prop::collection::vec((access(), 1u64..20), 0..30)
        ) {
            let (accesses, ticks): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
            let spans = simulate(&accesses, &ticks);
            for later in 0..accesses.len() {
                let mut earliest = 0;
                for earlier in 0..later {
                    if accesses[later].conflicts(&accesses[earlier]) {
                        prop_assert!(spans[earlier].1 <= spans[later].0);
                        earliest = earliest.max(spans[earlier].1);
                    }
                }
                // It begins the moment the last one it waits for has ended.
                prop_assert_eq!(spans[later].0, earliest);
            }
        }
    }

    #[test]
    fn the_documents_scenarios() {
        use Access::{Exclusive, Shared};
        let end = |accesses: &[Access], ticks: &[u64]| {
            simulate(accesses, ticks).iter().map(|span| span.1).max().unwrap_or_default()
        };
        assert_eq!(end(&[Shared, Exclusive], &[3, 2]), 5);
        assert_eq!(end(&[Shared, Shared, Shared], &[4, 2, 2]), 4);
        assert_eq!(end(&[Shared, Exclusive, Shared], &[1, 4, 2]), 7);
        assert_eq!(end(&[], &[]), 0);
    }
}
