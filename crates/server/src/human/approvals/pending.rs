//! [`PendingApproval`]: a call in the approval queue, and the guard that lets only
//! one server finish it.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use windlass::{CallId, OwnerId, SuspendedCall, Verdict};

/// A call that waits for an approval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PendingApproval {
    /// The call, whole.
    pub(crate) call: SuspendedCall,
    /// What was decided, by whom; none while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Verdict>,
    /// Whether it was cancelled.
    #[serde(default)]
    pub(crate) withdrawn: bool,
    /// The server that ends it, since it was decided or withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<OwnerId>,
}

impl PendingApproval {
    pub(crate) fn new(call: SuspendedCall) -> Self {
        Self { call, verdict: None, withdrawn: false, server: None }
    }

    /// Whether it can still be decided.
    pub(crate) fn is_open(&self) -> bool {
        self.verdict.is_none() && !self.withdrawn
    }
}

/// A call that is not open any more, and that this server is to end.
pub(crate) struct SettledCall {
    pub(super) waiting: PendingApproval,
    pub(super) _at_work: EndingGuard,
}

/// The calls that this server ends now, so that it does not take them for calls
/// that somebody left.
#[derive(Clone, Default)]
pub(super) struct EndingCalls(Arc<Mutex<HashSet<CallId>>>);

impl EndingCalls {
    /// The guard for finishing a call; none if it is taken in this process.
    pub(super) fn begin(&self, id: CallId) -> Option<EndingGuard> {
        let is_first = self.0.lock().insert(id);
        is_first.then(|| EndingGuard { ending: self.clone(), id })
    }
}

/// The right to end a call, until it is dropped.
pub(super) struct EndingGuard {
    ending: EndingCalls,
    id: CallId,
}

impl Drop for EndingGuard {
    fn drop(&mut self) {
        self.ending.0.lock().remove(&self.id);
    }
}
