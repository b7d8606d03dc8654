//! Batch plan: which calls of a batch may run concurrently.
//!
//! A pure function of the calls' access: read-only calls run concurrently; a
//! call that changes something waits for all before it, and all after it wait
//! for it; calls that name the resources they write wait only for those with
//! the same ones. So effects keep the order of the calls, and nothing waits
//! without need.

/// The access of a call, as far as other calls are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It may run beside other shared calls.
    Shared,
    /// It must run alone.
    Exclusive,
    /// It writes these resources and nothing else.
    Writes(Vec<String>),
}

impl Access {
    /// Whether two calls must keep their order.
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

/// Dependency graph of a batch. Calls may be added while others run: a call
/// depends on earlier ones only.
#[derive(Debug, Default)]
pub(crate) struct BatchPlan {
    calls: Vec<Planned>,
}

#[derive(Debug)]
struct Planned {
    access: Access,
    /// Number of calls it still waits for.
    waiting_for: usize,
    /// Calls that wait for it.
    unlocks: Vec<usize>,
    is_done: bool,
}

impl BatchPlan {
    /// Appends a call, which waits for all unfinished calls that it conflicts
    /// with. Returns whether it is ready.
    pub(crate) fn add(&mut self, access: Access) -> bool {
        let own = self.calls.len();
        let mut waiting_for = 0;
        for earlier in self.calls.iter_mut().filter(|earlier| !earlier.is_done) {
            if access.conflicts(&earlier.access) {
                waiting_for += 1;
                earlier.unlocks.push(own);
            }
        }
        self.calls.push(Planned { access, waiting_for, unlocks: Vec::new(), is_done: false });
        waiting_for == 0
    }

    /// Marks a call as done; returns the calls that are now ready, in call
    /// order.
    pub(crate) fn done(&mut self, call: usize) -> Vec<usize> {
        self.calls[call].is_done = true;
        let mut ready = std::mem::take(&mut self.calls[call].unlocks);
        ready.retain(|&waiting| {
            let waiting = &mut self.calls[waiting];
            waiting.waiting_for -= 1;
            waiting.waiting_for == 0
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
        let mut plan = BatchPlan::default();
        let mut spans = vec![(0, 0); accesses.len()];
        let mut running: Vec<(u64, usize)> = (accesses.iter().cloned().enumerate())
            .filter_map(|(call, access)| plan.add(access).then_some((ticks[call], call)))
            .collect();
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

    proptest! {
        /// Calls that come one by one, some after others are done, keep the
        /// same order as if all had been there from the beginning.
        #[test]
        fn a_plan_that_grows_keeps_the_order(
            calls in prop::collection::vec((access(), any::<bool>()), 0..30),
            choices in prop::collection::vec(any::<prop::sample::Index>(), 60),
        ) {
            let accesses: Vec<Access> = calls.iter().map(|call| call.0.clone()).collect();
            let mut plan = BatchPlan::default();
            let mut ready = Vec::new();
            let mut done = Vec::new();
            let mut choices = choices.into_iter();
            for (call, (access, pause)) in calls.into_iter().enumerate() {
                if plan.add(access) {
                    ready.push(call);
                }
                if pause && !ready.is_empty() {
                    let next = ready.swap_remove(choices.next().unwrap().index(ready.len()));
                    done.push(next);
                    ready.extend(plan.done(next));
                }
            }
            while !ready.is_empty() {
                let at = choices.next().map_or(0, |choice| choice.index(ready.len()));
                let next = ready.swap_remove(at);
                done.push(next);
                ready.extend(plan.done(next));
            }
            prop_assert_eq!(done.len(), accesses.len());
            for (at, &later) in done.iter().enumerate() {
                for &earlier in &done[at + 1..] {
                    prop_assert!(later < earlier || !accesses[later].conflicts(&accesses[earlier]));
                }
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
