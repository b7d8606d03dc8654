//! [`Frame`]: the values that steps can read.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::Value;

/// What is known of a step in a frame.
#[derive(Clone, Debug)]
pub enum StepValue {
    /// It ended with this value.
    Value(Arc<Value>),
    /// It was skipped: that is not null.
    Skipped,
}

/// The names of a block, with those of the blocks around it.
pub struct Frame {
    /// What places in this block begin with: `pages[3].`.
    prefix: Arc<str>,
    around: Option<Arc<Frame>>,
    /// Names that the block gives its steps: `item`, `index`.
    given: Vec<(Arc<str>, Arc<Value>)>,
    ended: Mutex<HashMap<Arc<str>, StepValue>>,
    acting: Acting,
}

impl Frame {
    /// The outermost frame of a run.
    pub(crate) fn outermost(given: Vec<(Arc<str>, Arc<Value>)>) -> Arc<Self> {
        let (prefix, around) = (Arc::from(""), None);
        Arc::new(Self { prefix, around, given, ended: Mutex::default(), acting: Acting::default() })
    }

    /// The frame of a block within this one.
    pub(crate) fn within(
        self: &Arc<Self>,
        prefix: impl Into<Arc<str>>,
        given: Vec<(Arc<str>, Arc<Value>)>,
        acting: &Acting,
    ) -> Arc<Self> {
        let (around, acting) = (Some(Arc::clone(self)), acting.clone());
        Arc::new(Self { prefix: prefix.into(), around, given, ended: Mutex::default(), acting })
    }

    /// The place of a step of this block.
    pub(crate) fn place(&self, id: &str) -> Arc<str> {
        if self.prefix.is_empty() { id.into() } else { format!("{}{id}", self.prefix).into() }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn acting(&self) -> &Acting {
        &self.acting
    }

    pub(crate) fn end(&self, id: &Arc<str>, value: StepValue) {
        self.ended.lock().insert(Arc::clone(id), value);
    }

    /// The value of a name: of a step that has ended, or one that a block
    /// gives. The innermost wins.
    pub fn get(&self, name: &str) -> Option<StepValue> {
        let given = || self.given.iter().find(|(own, _)| **own == *name);
        if let Some(known) = self.ended.lock().get(name) {
            return Some(known.clone());
        }
        if let Some((_, value)) = given() {
            return Some(StepValue::Value(Arc::clone(value)));
        }
        self.around.as_ref()?.get(name)
    }
}

/// Whether calls that may change something are being made, within a step and
/// the blocks of it.
#[derive(Clone, Default)]
pub(crate) struct Acting(Arc<ActingCount>);

#[derive(Default)]
struct ActingCount {
    calls: AtomicUsize,
    around: Option<Acting>,
}

impl Acting {
    /// That of a step, within that of its block.
    pub(crate) fn within(around: &Self) -> Self {
        Self(Arc::new(ActingCount { calls: AtomicUsize::new(0), around: Some(around.clone()) }))
    }

    /// Counts a call until the guard is dropped.
    pub(crate) fn act(&self) -> ActingGuard {
        self.add(true);
        ActingGuard(self.clone())
    }

    pub(crate) fn is_acting(&self) -> bool {
        self.0.calls.load(Ordering::Relaxed) > 0
    }

    fn add(&self, more: bool) {
        match more {
            true => self.0.calls.fetch_add(1, Ordering::Relaxed),
            false => self.0.calls.fetch_sub(1, Ordering::Relaxed),
        };
        if let Some(around) = &self.0.around {
            around.add(more);
        }
    }
}

pub(crate) struct ActingGuard(Acting);

impl Drop for ActingGuard {
    fn drop(&mut self) {
        self.0.add(false);
    }
}
