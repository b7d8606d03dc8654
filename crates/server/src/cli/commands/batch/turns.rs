//! How long each call of a batch waited.
//!
//! A result knows how long its call waited for a slot. Before that a call may wait
//! for other calls of the batch, which only the events report.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use windlass::{CallId, CallResult, Engine, EventBody, EventSubject};

/// The last event comes with the results; it is not waited for.
const LATE: Duration = Duration::from_millis(100);

/// Listens.
pub(super) struct Listening(JoinHandle<Turns>);

/// When calls began to run.
#[derive(Debug, Default)]
pub(super) struct Turns(HashMap<CallId, Timestamp>);

/// Listens until a batch has ended. Begin before it does.
pub(super) fn listen(engine: &Engine) -> Listening {
    let mut events = engine.events();
    Listening(tokio::spawn(async move {
        let mut turns = Turns::default();
        while let Some(event) = events.next().await {
            if let EventBody::ExecutionStarted { call } = &event.body {
                turns.0.insert(call.call_id, event.at);
            }
            if matches!(event.body.subject(), EventSubject::EndedBatch(..)) {
                break;
            }
        }
        turns
    }))
}

impl Listening {
    pub(super) async fn collect(self) -> Turns {
        timeout(LATE, self.0).await.ok().and_then(Result::ok).unwrap_or_default()
    }
}

impl Turns {
    /// How long a call waited: for its turn, then for a slot.
    pub(super) fn waited(&self, result: &CallResult) -> Duration {
        self.0
            .get(&result.id)
            .and_then(|began| began.duration_since(result.created_at).try_into().ok())
            .unwrap_or(result.queue_wait)
    }
}
