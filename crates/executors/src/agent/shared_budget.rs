//! What a run may take, with the agents below it: a shared_budget out of which all of
//! them pay, and which those above have a look into.

use std::iter;
use std::sync::Arc;

use parking_lot::Mutex;
use windlass::Usage;

use super::log::Stop;
use super::spec::Budget;

/// A run's shared_budget. What is taken from it is taken from all above, too. Cheap to
/// clone; a context object of the calls that the run makes.
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
    /// What agents below had taken before, in earlier calls, which have paid.
    before: Usage,
    calls: u64,
}

impl SharedBudget {
    pub(super) fn new(budget: &Budget, above: Option<Self>) -> Self {
        let (budget, taken) = (budget.clone(), Mutex::default());
        Self(Arc::new(BudgetState { budget, above, taken }))
    }

    /// This one and those above.
    fn all(&self) -> impl Iterator<Item = &BudgetState> {
        iter::successors(Some(&*self.0), |own| own.above.as_ref().map(|above| &*above.0))
    }

    /// Pays for what a model took.
    pub(super) fn pay(&self, usage: Usage) {
        self.all().for_each(|own| own.taken.lock().usage += usage);
    }

    /// Takes what was paid in an earlier call of the run.
    pub(super) fn recall(&self, usage: Usage) {
        self.pay(usage);
        self.all().skip(1).for_each(|above| above.taken.lock().before += usage);
    }

    /// Pays for what a run took in all, as far as nobody has: agents below have
    /// paid themselves, other tools that ask models have not.
    pub(super) fn settle(&self, total: Usage) {
        let more = beyond(total, self.0.taken.lock().usage);
        self.pay(more);
    }

    /// What was taken that the run does not know of: agents below it have not
    /// come to their end.
    pub(super) fn unknown(&self, known: Usage) -> Usage {
        let taken = self.0.taken.lock();
        beyond(beyond(taken.usage, taken.before), known)
    }

    /// Takes a call, if there is one left.
    pub(super) fn take_call(&self) -> bool {
        let is_left =
            |own: &BudgetState| own.budget.calls.is_none_or(|most| own.taken.lock().calls < most);
        let may = self.all().all(is_left);
        if may {
            self.take_calls(1);
        }
        may
    }

    /// Takes calls that were made before.
    pub(super) fn take_calls(&self, calls: u64) {
        self.all().for_each(|own| own.taken.lock().calls += calls);
    }

    /// What is used up, here or above.
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

/// What is in one and not in the other.
fn beyond(all: Usage, known: Usage) -> Usage {
    Usage {
        input_tokens: all.input_tokens.saturating_sub(known.input_tokens),
        output_tokens: all.output_tokens.saturating_sub(known.output_tokens),
        cache_read_tokens: all.cache_read_tokens.saturating_sub(known.cache_read_tokens),
        cache_write_tokens: all.cache_write_tokens.saturating_sub(known.cache_write_tokens),
        // Sums in another order differ in their last digits.
        cost_usd: Some(all.cost_usd - known.cost_usd).filter(|more| *more > 1e-9).unwrap_or(0.0),
    }
}
