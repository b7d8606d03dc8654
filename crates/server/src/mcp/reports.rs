//! [`CallReports`]: progress of running calls, delivered to the client of each.
//!
//! One event subscription serves all clients: one for each call would copy every
//! event to every waiting client.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use windlass::{CallId, Content, Engine, EventSubject, Subscription};

/// What a slow client may be behind; then reports are left out.
const BEHIND: usize = 128;

/// A report of a call.
pub(super) enum CallReport {
    /// How far it is.
    Progress(Content),
    /// It has ended; nothing comes after this.
    Ended,
}

type ReportSenders = Arc<Mutex<HashMap<CallId, mpsc::Sender<CallReport>>>>;

/// All calls whose progress clients follow.
#[derive(Default)]
pub(super) struct CallReports {
    followed: ReportSenders,
    started: OnceLock<()>,
}

/// One call whose progress a client follows.
pub(super) struct FollowedCall {
    id: CallId,
    followed: ReportSenders,
    pub(super) reports: mpsc::Receiver<CallReport>,
}

impl CallReports {
    /// Follows a call from before it begins.
    pub(super) fn follow(&self, engine: &Engine, id: CallId) -> FollowedCall {
        self.started.get_or_init(|| {
            // Subscribes before the task runs: the call may report progress earlier.
            tokio::spawn(deliver(engine.events(), Arc::clone(&self.followed)));
        });
        let (sender, reports) = mpsc::channel(BEHIND);
        self.followed.lock().insert(id, sender);
        FollowedCall { id, followed: Arc::clone(&self.followed), reports }
    }
}

impl Drop for FollowedCall {
    fn drop(&mut self) {
        self.followed.lock().remove(&self.id);
    }
}

async fn deliver(mut events: Subscription, followed: ReportSenders) {
    while let Some(event) = events.next().await {
        let (id, report) = match event.body.subject() {
            EventSubject::Progress(call, progress) => {
                (call.call_id, CallReport::Progress(progress.clone()))
            }
            EventSubject::EndedCall(call) => (call.call_id, CallReport::Ended),
            EventSubject::QueuedCall(..)
            | EventSubject::Call(_)
            | EventSubject::EndedBatch(..)
            | EventSubject::Tools(_)
            | EventSubject::Definitions(_)
            | EventSubject::Missed(_) => continue,
        };
        let sender = followed.lock().get(&id).cloned();
        if let Some(sender) = sender {
            let _ = sender.try_send(report);
        }
    }
}
