//! Opens and closes calls: the only place that records and reports them.
//!
//! A call is opened before anything about it is known to be right, and closed
//! exactly once. If its future is dropped (the caller went away), the guard
//! closes it as cancelled.

pub(crate) mod event;
mod open_call;
pub(crate) mod record;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use open_call::OpenCall;

use crate::call::context::Caller;
use crate::error::{Error, ErrorKind};
use crate::journal::event::{CallInfo, EventBody, EventBus};
use crate::journal::record::{CallRecord, RecordStore};
use crate::value::clock::Clock;
use crate::value::name::BatchId;

/// How long it takes until a store that could not write is asked again.
const BETWEEN_WRITES: Duration = Duration::from_millis(100);

/// Where calls are recorded and reported.
#[derive(Clone)]
pub(crate) struct Journal {
    pub(crate) store: Arc<dyn RecordStore>,
    pub(crate) bus: Arc<EventBus>,
    pub(crate) clock: Arc<Clock>,
    /// How much of the arguments and of the result a record keeps.
    pub(crate) max_record_bytes: usize,
    /// Who sees records before they are kept.
    pub(crate) observer: Option<RecordObserver>,
}

/// Sees every record once.
pub(crate) type RecordObserver = Arc<dyn Fn(&CallRecord) + Send + Sync>;

impl Journal {
    /// Keeps the record of a call that ended.
    fn keep(&self, record: CallRecord) {
        if let Some(look) = &self.observer {
            look(&record);
        }
        self.store.append(record);
    }

    /// All calls of a batch have their results.
    pub(crate) fn drained(&self, batch_id: BatchId, caller: &Arc<Caller>, calls: usize) {
        let caller = || Arc::clone(caller);
        self.bus.emit(|| EventBody::QueueDrained { batch_id, caller: caller(), calls });
    }

    /// Reports the calls that other processes left behind; the store has closed
    /// them.
    pub(crate) fn interrupted(&self) {
        for record in self.store.take_interrupted() {
            self.observer.iter().for_each(|look| look(&record));
            self.bus.emit(|| EventBody::ExecutionFailed {
                call: CallInfo {
                    call_id: record.id,
                    call_ref: record.call_ref.clone(),
                    tool_name: Arc::clone(&record.tool_name),
                    kind: None,
                    caller: Arc::clone(&record.caller),
                },
                status: record.status,
                error_kind: ErrorKind::Interrupted,
                error: record.error.map_or_else(String::new, |error| error.message),
                execution_time: record.run_time.as_secs_f64(),
            });
        }
    }

    /// Waits until everything that was recorded is kept for good.
    async fn kept(&self, deadline: Instant) -> Result<(), Error> {
        loop {
            let Ok(flushed) = tokio::time::timeout_at(deadline, self.store.flush()).await else {
                return Err(Error::new(ErrorKind::StorageUnavailable, "the store does not answer"));
            };
            match flushed {
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => tokio::time::sleep(BETWEEN_WRITES).await,
                Ok(()) => return Ok(()),
            }
        }
    }
}
