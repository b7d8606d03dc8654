//! The answer being streamed, and the accounting for it, however it ends.

use windlass::Usage;

use super::Run;
use crate::model::{Price, Tally};

/// State of an answer that is being streamed.
pub(super) struct Writing {
    price: Price,
    pub(super) tally: Tally,
    /// The text that was emitted.
    pub(super) text: String,
}

impl Writing {
    pub(super) fn at(price: Price) -> Self {
        Self { price, tally: Tally::default(), text: String::new() }
    }

    /// Usage and cost so far.
    pub(super) fn usage(&self) -> Usage {
        self.price.of(self.tally.usage)
    }

    fn so_far(&self) -> Usage {
        self.price.of(self.tally.so_far())
    }
}

impl Run<'_> {
    /// Pays for a complete answer.
    pub(super) fn pay(&mut self, writing: &Writing) -> Usage {
        self.spend(writing.usage())
    }

    /// Pays for an answer that broke off.
    pub(super) fn pay_so_far(&mut self, writing: &Writing) -> Usage {
        self.spend(writing.so_far())
    }

    /// The run was dropped in the middle of a stream: pays for what was written so far,
    /// and adds the usage of agents below.
    pub(super) fn break_off(&mut self) {
        if let Some(writing) = self.writing.take() {
            self.pay_so_far(&writing);
            if !writing.text.trim().is_empty() {
                self.last_text = writing.text;
            }
        }
        let below = self.shared_budget.unknown(self.usage);
        self.spend_below(below);
    }

    /// Adds the run's own usage.
    fn spend(&mut self, usage: Usage) -> Usage {
        self.call.charge(usage);
        self.usage += usage;
        self.shared_budget.pay(usage);
        usage
    }

    /// Adds the usage of calls that the run made.
    pub(super) fn spend_below(&mut self, usage: Usage) {
        if !usage.is_zero() {
            self.call.charge_nested(usage);
            self.usage += usage;
        }
        self.shared_budget.settle(self.usage);
    }
}
