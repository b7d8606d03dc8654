//! The journal opens and closes calls. It is the only place that writes records
//! and emits events of calls.
//!
//! A call is opened before anything about it has been checked, and closed
//! exactly once. If its future is dropped because the caller went away, a guard
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

/// Retry interval of a store that failed to write.
const BETWEEN_WRITES: Duration = Duration::from_millis(100);

/// Record store, event bus and clock of an engine.
#[derive(Clone)]
pub(crate) struct Journal {
    pub(crate) store: Arc<dyn RecordStore>,
    pub(crate) bus: Arc<EventBus>,
    pub(crate) clock: Arc<Clock>,
    /// Maximum size of arguments and result in a record.
    pub(crate) max_record_bytes: usize,
    /// Observer of records, called before they are stored.
    pub(crate) observer: Option<RecordObserver>,
}

/// Observer that sees every record once.
pub(crate) type RecordObserver = Arc<dyn Fn(&CallRecord) + Send + Sync>;

impl Journal {
    /// Stores the record of a finished call.
    fn keep(&self, record: CallRecord) {
        if let Some(look) = &self.observer {
            look(&record);
        }
        self.store.append(record);
    }

    /// Emits that all calls of a batch have their results.
    pub(crate) fn drained(&self, batch_id: BatchId, caller: &Arc<Caller>, calls: usize) {
        let caller = || Arc::clone(caller);
        self.bus.emit(|| EventBody::QueueDrained { batch_id, caller: caller(), calls });
    }

    /// Reports calls that other processes left behind and the store has closed.
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

    /// Waits until all records so far are stored durably.
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
