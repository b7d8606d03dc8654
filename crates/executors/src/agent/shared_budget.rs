//! Budget of a run, shared with the agents below it: each of them pays from its own
//! budget and from all budgets above.

use std::iter;
use std::sync::Arc;

use parking_lot::Mutex;
use windlass::Usage;

use super::log::Stop;
use super::spec::Budget;

/// The budget of a run. What is spent is deducted from all budgets above, too. Cheap to
/// clone; a context object of the run's calls.
#[derive(Clone)]
pub(super) struct SharedBudget(Arc<BudgetState>);

struct BudgetState {
    budget: Budget,
    above: Option<SharedBudget>,
    taken: Mutex<Spent>,
}

#[derive(Default)]
struct Spent {
    usage: Usage,
    /// Usage of agents below in earlier calls, which have been paid for.
    before: Usage,
    calls: u64,
}

impl SharedBudget {
    pub(super) fn new(budget: &Budget, above: Option<Self>) -> Self {
        let (budget, taken) = (budget.clone(), Mutex::default());
        Self(Arc::new(BudgetState { budget, above, taken }))
    }

    /// This budget and those above.
    fn all(&self) -> impl Iterator<Item = &BudgetState> {
        iter::successors(Some(&*self.0), |own| own.above.as_ref().map(|above| &*above.0))
    }

    /// Pays for a model request.
    pub(super) fn pay(&self, usage: Usage) {
        self.all().for_each(|own| own.taken.lock().usage += usage);
    }

    /// Adds usage that an earlier call of the run has paid for.
    pub(super) fn recall(&self, usage: Usage) {
        self.pay(usage);
        self.all().skip(1).for_each(|above| above.taken.lock().before += usage);
    }

    /// Pays for the rest of a run's total usage: agents below have paid for themselves,
    /// other tools that use models have not.
    pub(super) fn settle(&self, total: Usage) {
        let more = beyond(total, self.0.taken.lock().usage);
        self.pay(more);
    }

    /// Usage that the run does not know of yet, because agents below it have not
    /// finished.
    pub(super) fn unknown(&self, known: Usage) -> Usage {
        let taken = self.0.taken.lock();
        beyond(beyond(taken.usage, taken.before), known)
    }

    /// Takes one call from the budget, if there is one left.
    pub(super) fn take_call(&self) -> bool {
        let is_left =
            |own: &BudgetState| own.budget.calls.is_none_or(|most| own.taken.lock().calls < most);
        let may = self.all().all(is_left);
        if may {
            self.take_calls(1);
        }
        may
    }

    /// Deducts calls that were made before.
    pub(super) fn take_calls(&self, calls: u64) {
        self.all().for_each(|own| own.taken.lock().calls += calls);
    }

    /// Which limit is reached, here or above.
    pub(super) fn is_empty(&self) -> Option<Stop> {
        self.all().find_map(|own| {
            let usage = own.taken.lock().usage;
            match own.budget {
                Budget { tokens: Some(most), .. } if usage.total_tokens() >= most => {
                    Some(Stop::Tokens)
                }
                Budget { cost: Some(most), .. } if usage.cost_usd >= most => Some(Stop::Cost),
                _ => None,
            }
        })
    }
}

/// The difference of two usages.
fn beyond(all: Usage, known: Usage) -> Usage {
    Usage {
        input_tokens: all.input_tokens.saturating_sub(known.input_tokens),
        output_tokens: all.output_tokens.saturating_sub(known.output_tokens),
        cache_read_tokens: all.cache_read_tokens.saturating_sub(known.cache_read_tokens),
        cache_write_tokens: all.cache_write_tokens.saturating_sub(known.cache_write_tokens),
        // Tolerates rounding: floating-point sums depend on their order.
        cost_usd: Some(all.cost_usd - known.cost_usd).filter(|more| *more > 1e-9).unwrap_or(0.0),
    }
}
