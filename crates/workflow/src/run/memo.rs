//! [`Memo`]: what the log says of a run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use windlass::{CallId, Usage};

use crate::log::{Entry, RunEnd, StepEnd, Wait, Wake};

/// The fold of a log, and what the run adds to it.
#[derive(Default)]
pub(crate) struct Memo {
    pub(crate) ends: HashMap<Arc<str>, EndedStep>,
    pub(crate) started: HashMap<Arc<str>, CallId>,
    pub(crate) waits: HashMap<Arc<str>, (Wait, Timestamp)>,
    pub(crate) wakes: HashMap<Arc<str>, Wake>,
    /// Keys of the messages that were read.
    pub(crate) read: HashSet<String>,
    pub(crate) undoing: Option<RunEnd>,
    pub(crate) finished: Option<RunEnd>,
    pub(crate) usage: Usage,
    /// Ended steps of the run that this one repeats.
    pub(crate) earlier: HashMap<Arc<str>, EarlierStep>,
}

/// A step that has ended.
pub(crate) struct EndedStep {
    pub(crate) end: StepEnd,
    /// The number of steps that ended before it.
    pub(crate) order: usize,
}

/// A step of an earlier run.
pub(crate) struct EarlierStep {
    pub(crate) asked: Arc<str>,
    pub(crate) end: StepEnd,
}

impl Memo {
    pub(crate) fn of(entries: Vec<Entry>) -> Self {
        let mut memo = Self::default();
        entries.into_iter().for_each(|entry| memo.add(entry));
        memo
    }

    fn add(&mut self, entry: Entry) {
        match entry {
            Entry::Started { place, call } => {
                self.started.insert(place, call);
            }
            Entry::Ended { place, end, usage, .. } => {
                self.usage += usage;
                let order = self.ends.len();
                self.ends.insert(place, EndedStep { end, order });
            }
            Entry::Waiting { place, wait, since } => {
                self.waits.insert(place, (wait, since));
            }
            Entry::Woken { place, wake, message } => {
                self.wakes.insert(place, wake);
                self.read.extend(message);
            }
            Entry::Resumed { .. } => {}
            Entry::Undoing { end } => self.undoing = Some(end),
            Entry::Finished { end } => self.finished = Some(end),
        }
    }

    /// Takes over the ended steps of an earlier run: those before the place
    /// `from`, or all.
    pub(crate) fn take_over(&mut self, entries: Vec<Entry>, from: Option<&str>) {
        for entry in entries {
            let Entry::Ended { place, end, asked, .. } = entry else { continue };
            if from.is_some_and(|from| is_at(&place, from)) {
                break;
            }
            let (Some(asked), StepEnd::Succeeded { handled: None, .. }) = (asked, &end) else {
                continue;
            };
            self.earlier.insert(place, EarlierStep { asked, end });
        }
    }
}

/// Whether a place is a step, or within it.
pub(crate) fn is_at(place: &str, step: &str) -> bool {
    place
        .strip_prefix(step)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '#', '!']))
}
