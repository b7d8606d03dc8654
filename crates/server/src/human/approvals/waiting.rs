//! A call that waits for a person, and which server ends it.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use windlass::{CallId, OwnerId, SuspendedCall, Verdict};

/// A call that waits for a person.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Waiting {
    /// The call, whole.
    pub(crate) call: SuspendedCall,
    /// What was decided, by whom; none while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Verdict>,
    /// Whether nobody wants it any more.
    #[serde(default)]
    pub(crate) withdrawn: bool,
    /// The server that ends it, since it was decided or withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<OwnerId>,
}

impl Waiting {
    pub(crate) fn new(call: SuspendedCall) -> Self {
        Self { call, verdict: None, withdrawn: false, server: None }
    }

    /// Whether somebody can still decide.
    pub(crate) fn is_open(&self) -> bool {
        self.verdict.is_none() && !self.withdrawn
    }
}

/// A call that is not open any more, and that this server is to end.
pub(crate) struct Settled {
    pub(super) waiting: Waiting,
    pub(super) _at_work: AtWork,
}

/// The calls that this server ends now, so that it does not take them for calls
/// that somebody left.
#[derive(Clone, Default)]
pub(super) struct Ending(Arc<Mutex<HashSet<CallId>>>);

impl Ending {
    /// The right to end a call; none where somebody in this process has it.
    pub(super) fn begin(&self, id: CallId) -> Option<AtWork> {
        let is_first = self.0.lock().insert(id);
        is_first.then(|| AtWork { ending: self.clone(), id })
    }
}

/// The right to end a call, until it is dropped.
pub(super) struct AtWork {
    ending: Ending,
    id: CallId,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.ending.0.lock().remove(&self.id);
    }
}
