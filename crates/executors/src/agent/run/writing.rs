//! An answer while the model writes it, and who pays for it however that ends.

use windlass::Usage;

use super::Run;
use crate::model::{Price, Tally};

/// What is known of an answer that is being written.
pub(super) struct Writing {
    price: Price,
    pub(super) tally: Tally,
    /// What listeners were told.
    pub(super) text: String,
}

impl Writing {
    pub(super) fn at(price: Price) -> Self {
        Self { price, tally: Tally::default(), text: String::new() }
    }

    /// What was used by now, with its cost.
    pub(super) fn usage(&self) -> Usage {
        self.price.of(self.tally.usage)
    }

    fn so_far(&self) -> Usage {
        self.price.of(self.tally.so_far())
    }
}

impl Run<'_> {
    /// Pays for an answer that was written to its end.
    pub(super) fn pay(&mut self, writing: &Writing) -> Usage {
        self.spend(writing.usage())
    }

    /// Pays for an answer that broke off.
    pub(super) fn pay_so_far(&mut self, writing: &Writing) -> Usage {
        self.spend(writing.so_far())
    }

    /// The run gives up in the middle: what was written by then is what there is,
    /// and it is paid for, with what agents below have taken.
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

    /// Takes what the run used itself.
    fn spend(&mut self, usage: Usage) -> Usage {
        self.call.charge(usage);
        self.usage += usage;
        self.shared_budget.pay(usage);
        usage
    }

    /// Takes what calls used that the run made.
    pub(super) fn spend_below(&mut self, usage: Usage) {
        if !usage.is_zero() {
            self.call.charge_nested(usage);
            self.usage += usage;
        }
        self.shared_budget.settle(self.usage);
    }
}
