//! The bounds of evaluation.

use crate::error::{Fault, Faulty};

/// Counts the steps and bytes that evaluations may still use.
///
/// One meter may be shared by all expressions that belong together, for example by those
/// of one step of a workflow. A step is the evaluation of one node, the visit of one
/// element, or the work on 64 bytes of text. Bytes count everything that an evaluation
/// allocates, results included; they are never given back, so the memory in use is
/// bounded by them, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    steps: u64,
    bytes: u64,
    given: (u64, u64),
}

impl Meter {
    /// The steps that [`Meter::default`] grants.
    pub const STEPS: u64 = 100_000;
    /// The bytes that [`Meter::default`] grants.
    pub const BYTES: u64 = 1 << 20;

    /// Grants steps and bytes.
    pub const fn new(steps: u64, bytes: u64) -> Self {
        Self { steps, bytes, given: (steps, bytes) }
    }

    /// The steps that are left.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The bytes that are left.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes steps, before the work is done.
    pub(crate) fn step(&mut self, steps: u64) -> Faulty<()> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => {
                self.steps = 0;
                Err(Fault::limit(format!(
                    "the expression needs more than the {} steps that it may use",
                    self.given.0
                ))
                .hint("work on fewer elements, or divide the work among several steps"))
            }
        }
    }

    /// Takes bytes, before they are allocated.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Faulty<()> {
        match self.bytes.checked_sub(bytes as u64) {
            Some(left) => {
                self.bytes = left;
                Ok(())
            }
            None => {
                self.bytes = 0;
                Err(Fault::limit(format!(
                    "the expression needs more than the {} bytes of memory that it may use",
                    self.given.1
                ))
                .hint("select the parts that are needed before they are combined"))
            }
        }
    }

    /// Takes the steps for reading a text once.
    pub(crate) fn read(&mut self, bytes: usize) -> Faulty<()> {
        self.step(bytes as u64 / 64)
    }
}

impl Default for Meter {
    fn default() -> Self {
        Self::new(Self::STEPS, Self::BYTES)
    }
}
