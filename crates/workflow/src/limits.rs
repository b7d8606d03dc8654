//! [`RunLimits`]: what a definition and a run may use.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::duration;

/// Limits of workflows. A definition may lower them for itself, by `limits`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunLimits {
    /// Maximum number of steps in a definition.
    pub steps: usize,
    /// Maximum nesting of blocks in a definition.
    pub depth: usize,
    /// Maximum number of steps that a run executes.
    pub steps_run: usize,
    /// Maximum number of items of a `map`.
    pub map_items: usize,
    /// Number of items of a `map` that run at once, unless it says `at_once`.
    pub map_at_once: usize,
    /// Maximum number of calls of a run at once.
    pub at_once: usize,
    /// Maximum number of rounds of a `loop`.
    pub rounds: usize,
    /// Maximum size of the value of a step, as JSON.
    pub value_bytes: usize,
    /// Maximum size of all values of a run, as JSON.
    pub state_bytes: usize,
    /// Maximum number of steps that evaluating the expressions of a step takes.
    pub expression_steps: u64,
    /// Maximum number of bytes that the expressions of a step make.
    pub expression_bytes: u64,
    /// Maximum number of instructions of a template.
    pub template_fuel: u64,
    /// Maximum size of what a template writes.
    pub template_bytes: usize,
    /// How long a run waits for a person or a signal, unless its step says so.
    #[serde(with = "duration::required")]
    pub waiting: Duration,
    /// Maximum number of runs of a tenant that have not ended.
    pub open_runs: u64,
    /// Maximum number of messages for a run that it has not read.
    pub signals: usize,
    /// Maximum number of `undo` steps that a failed run executes.
    pub undo: usize,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            steps: 200,
            depth: 8,
            steps_run: 2_000,
            map_items: 1_000,
            map_at_once: 10,
            at_once: 32,
            rounds: 100,
            value_bytes: 1 << 20,
            state_bytes: 32 << 20,
            expression_steps: 100_000,
            expression_bytes: 1 << 20,
            template_fuel: 100_000,
            template_bytes: 400 << 10,
            waiting: Duration::from_secs(30 * 86_400),
            open_runs: 20_000,
            signals: 100,
            undo: 100,
        }
    }
}

impl RunLimits {
    /// These limits, but nowhere above those of the operator.
    #[must_use]
    pub fn at_most(self, most: &Self) -> Self {
        Self {
            steps: self.steps.min(most.steps),
            depth: self.depth.min(most.depth),
            steps_run: self.steps_run.min(most.steps_run),
            map_items: self.map_items.min(most.map_items),
            map_at_once: self.map_at_once.min(most.map_at_once),
            at_once: self.at_once.min(most.at_once),
            rounds: self.rounds.min(most.rounds),
            value_bytes: self.value_bytes.min(most.value_bytes),
            state_bytes: self.state_bytes.min(most.state_bytes),
            expression_steps: self.expression_steps.min(most.expression_steps),
            expression_bytes: self.expression_bytes.min(most.expression_bytes),
            template_fuel: self.template_fuel.min(most.template_fuel),
            template_bytes: self.template_bytes.min(most.template_bytes),
            waiting: self.waiting.min(most.waiting),
            open_runs: self.open_runs.min(most.open_runs),
            signals: self.signals.min(most.signals),
            undo: self.undo.min(most.undo),
        }
    }
}
