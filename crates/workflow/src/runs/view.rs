//! [`RunView`]: a run as people see it.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use windlass::CallId;

use crate::log::{Entry, Failure, RunHead, StepEnd, Wait, Wake};

/// A run, with the state of each place.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunView {
    /// What it is, and where it stands.
    #[serde(flatten)]
    pub head: RunHead,
    /// Its steps, in the order in which they were first heard of.
    pub places: Vec<PlaceView>,
}

/// A step of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlaceView {
    /// Where it is: `pages[3].lookup`.
    pub place: Arc<str>,
    /// Its state.
    pub status: PlaceStatus,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Arc<Value>>,
    /// Why it failed, also if that was handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// What it waits for, or waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// Who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// Its call, if that may change something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlaceStatus {
    /// It runs.
    Running,
    /// It waits.
    Waiting,
    /// It ended with a value.
    Succeeded,
    /// It failed, and the failure was handled.
    Handled,
    /// It was skipped.
    Skipped,
    /// It failed.
    Failed,
}

impl RunView {
    pub(super) fn new(head: RunHead, entries: &[Entry]) -> Self {
        let mut places: Vec<PlaceView> = Vec::new();
        let mut known = std::collections::HashMap::new();
        let mut at = |places: &mut Vec<PlaceView>, place: &Arc<str>| {
            *known.entry(Arc::clone(place)).or_insert_with(|| {
                places.push(PlaceView {
                    place: Arc::clone(place),
                    status: PlaceStatus::Running,
                    value: None,
                    error: None,
                    wait: None,
                    since: None,
                    answered_by: None,
                    call: None,
                });
                places.len() - 1
            })
        };
        for entry in entries {
            match entry {
                Entry::Started { place, call } => {
                    let at = at(&mut places, place);
                    places[at].call = Some(*call);
                }
                Entry::Waiting { place, wait, since } => {
                    let at = at(&mut places, place);
                    let one = &mut places[at];
                    one.status = PlaceStatus::Waiting;
                    (one.wait, one.since) = (Some(wait.clone()), Some(*since));
                }
                Entry::Woken { place, wake, .. } => {
                    let at = at(&mut places, place);
                    places[at].status = PlaceStatus::Running;
                    if let Wake::Message { who, .. } = wake {
                        places[at].answered_by.clone_from(who);
                    }
                }
                Entry::Ended { place, end, .. } => {
                    let at = at(&mut places, place);
                    places[at].end(end);
                }
                Entry::Resumed { .. } | Entry::Undoing { .. } | Entry::Finished { .. } => {}
            }
        }
        if head.status.has_ended() {
            // What was given up did not end.
            places.retain(|place| {
                !matches!(place.status, PlaceStatus::Running) || place.call.is_some()
            });
        }
        Self { head, places }
    }
}

impl PlaceView {
    fn end(&mut self, end: &StepEnd) {
        match end {
            StepEnd::Succeeded { value, handled, .. } => {
                self.status =
                    if handled.is_some() { PlaceStatus::Handled } else { PlaceStatus::Succeeded };
                (self.value, self.error) = (Some(Arc::clone(value)), handled.clone());
            }
            StepEnd::Skipped { handled } => {
                self.status = PlaceStatus::Skipped;
                self.error.clone_from(handled);
            }
            StepEnd::Failed { error } => {
                self.status = PlaceStatus::Failed;
                self.error = Some(error.clone());
            }
            StepEnd::Returned { value } => {
                self.status = PlaceStatus::Succeeded;
                self.value = Some(Arc::clone(value));
            }
        }
    }
}
