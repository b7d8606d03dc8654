//! Opens and closes calls: the only place that records and reports them.
//!
//! A call is opened before anything about it is known to be right, and closed
//! exactly once. If its future is dropped (the caller went away), the guard
//! closes it as cancelled.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use crate::call::{CallRequest, CallResult};
use crate::clock::Clock;
use crate::content::Output;
use crate::context::Caller;
use crate::error::{Error, ErrorKind};
use crate::event::{CallInfo, EventBody, EventBus};
use crate::name::CallId;
use crate::record::{CallRecord, RecordStore, RecordedError, Status};
use crate::stage::{output_size, preview_output, preview_value};
use crate::tool::Tool;

/// What stands in a record in place of a hidden value.
const HIDDEN: &str = "[hidden]";
/// The longest tool name that is kept of a call for a tool that does not exist.
const MAX_UNKNOWN_NAME: usize = 256;

/// Where calls are recorded and reported.
pub(crate) struct Journal {
    pub(crate) store: Arc<dyn RecordStore>,
    pub(crate) bus: Arc<EventBus>,
    pub(crate) clock: Clock,
    /// How much of the arguments and of the result a record keeps.
    pub(crate) max_record_bytes: usize,
}

impl Journal {
    /// All calls of a batch have their results.
    pub(crate) fn drained(&self, calls: usize) {
        self.bus.emit(|| EventBody::QueueDrained { calls });
    }

    /// Opens a call.
    pub(crate) fn open(&self, request: &mut CallRequest) -> OpenCall<'_> {
        let began = Instant::now();
        let created_at = self.clock.at(began);
        OpenCall {
            journal: self,
            id: CallId::at(created_at),
            call_ref: request.call_ref.clone(),
            tool_name: kept_name(&request.tool),
            caller: Arc::clone(&request.context.caller),
            masks: None,
            arguments: Kept::Own(std::mem::take(&mut request.arguments)),
            created_at,
            began,
            queue_wait: Duration::ZERO,
            attempts: 0,
            closed: false,
        }
    }
}

/// A call that has been accepted and has no result yet.
pub(crate) struct OpenCall<'a> {
    journal: &'a Journal,
    pub(crate) id: CallId,
    call_ref: Option<Arc<str>>,
    tool_name: Arc<str>,
    caller: Arc<Caller>,
    /// The tool whose hidden parameters are masked, if it has any.
    masks: Option<Arc<Tool>>,
    arguments: Kept,
    created_at: Timestamp,
    pub(crate) began: Instant,
    queue_wait: Duration,
    attempts: u32,
    closed: bool,
}

/// Arguments: the call's own while they are prepared, then shared with it.
enum Kept {
    Own(Value),
    Shared(Arc<Value>),
}

impl Kept {
    fn share(self) -> Arc<Value> {
        match self {
            Self::Own(value) => Arc::new(value),
            Self::Shared(value) => value,
        }
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self::Own(Value::Null)
    }
}

impl OpenCall<'_> {
    /// The call waits for its turn in a batch.
    pub(crate) fn queued(&self, position: usize) {
        self.journal.bus.emit(|| EventBody::ToolQueued { call: self.info(), position });
    }

    /// The tool is known; its hidden parameters are masked from here on.
    pub(crate) fn resolved(&mut self, tool: &Arc<Tool>) {
        // The caller may have used the wire name.
        if *self.tool_name != *tool.name().as_str() {
            self.tool_name = tool.name().shared();
        }
        if !tool.hidden().is_empty() {
            self.masks = Some(Arc::clone(tool));
        }
    }

    /// The arguments, while they are being prepared.
    pub(crate) fn arguments(&mut self) -> &mut Value {
        match &mut self.arguments {
            Kept::Own(value) => value,
            Kept::Shared(value) => Arc::make_mut(value),
        }
    }

    /// The arguments, to be shared between the call and its record.
    pub(crate) fn share_arguments(&mut self) -> Arc<Value> {
        let shared = std::mem::take(&mut self.arguments).share();
        self.arguments = Kept::Shared(Arc::clone(&shared));
        shared
    }

    /// A hook has changed the arguments.
    pub(crate) fn rewritten(&mut self, arguments: &Arc<Value>) {
        self.arguments = Kept::Shared(Arc::clone(arguments));
    }

    /// The call has its slot and begins to run.
    pub(crate) fn started(&mut self, waited: bool) {
        if waited {
            self.queue_wait = self.began.elapsed();
        }
        self.attempts += 1;
        self.journal.bus.emit(|| EventBody::ExecutionStarted { call: self.info() });
    }

    /// Closes the call with what came of it.
    pub(crate) fn close(&mut self, outcome: Result<Arc<Output>, Error>) -> CallResult {
        self.closed = true;
        let outcome = outcome.map_err(Error::bounded);
        let run_time = match self.attempts {
            0 => Duration::ZERO,
            _ => self.began.elapsed().saturating_sub(self.queue_wait),
        };
        self.report(&outcome, run_time);
        self.journal.store.append(self.record(&outcome, run_time));
        CallResult {
            id: self.id,
            call_ref: self.call_ref.take(),
            tool_name: Arc::clone(&self.tool_name),
            outcome,
            queue_wait: self.queue_wait,
            run_time,
            created_at: self.created_at,
        }
    }

    fn report(&self, outcome: &Result<Arc<Output>, Error>, run_time: Duration) {
        let bus = &self.journal.bus;
        let execution_time = run_time.as_secs_f64();
        match outcome {
            Ok(_) => {
                bus.emit(|| EventBody::ExecutionCompleted { call: self.info(), execution_time });
            }
            Err(error) => {
                if !error.violations().is_empty() {
                    bus.emit(|| EventBody::ValidationError {
                        call: self.info(),
                        errors: error.violations().to_vec(),
                    });
                }
                bus.emit(|| EventBody::ExecutionFailed {
                    call: self.info(),
                    status: self.status(error.kind()),
                    error_kind: error.kind(),
                    error: error.message().to_owned(),
                    execution_time,
                });
            }
        }
        tracing::debug!(
            call = %self.id,
            tool = &*self.tool_name,
            run_time_us = run_time.as_micros() as u64,
            error = outcome.as_ref().err().map(|error| error.kind().name()),
            "call closed"
        );
    }

    fn record(&mut self, outcome: &Result<Arc<Output>, Error>, run_time: Duration) -> CallRecord {
        let max_bytes = self.journal.max_record_bytes;
        let arguments = self.recorded_arguments();
        let (status, result, error) = match outcome {
            Ok(output) if output_size(output, max_bytes) <= max_bytes => {
                (Status::Succeeded, Some(Arc::clone(output)), None)
            }
            Ok(output) => {
                (Status::Succeeded, Some(Arc::new(preview_output(output, max_bytes))), None)
            }
            Err(error) => (self.status(error.kind()), None, Some(RecordedError::from(error))),
        };
        CallRecord {
            id: self.id,
            call_ref: self.call_ref.clone(),
            tool_name: Arc::clone(&self.tool_name),
            arguments,
            result,
            status,
            error,
            caller: Arc::clone(&self.caller),
            attempts: self.attempts,
            queue_wait: self.queue_wait,
            run_time,
            created_at: self.created_at,
            details: None,
        }
    }

    /// The arguments, redacted and capped.
    fn recorded_arguments(&mut self) -> Arc<Value> {
        let mut arguments = std::mem::take(&mut self.arguments).share();
        if let Some(tool) = &self.masks {
            arguments = Arc::new(masked(tool, &arguments));
        }
        preview_value(&arguments, self.journal.max_record_bytes).map_or(arguments, Arc::new)
    }

    fn status(&self, kind: ErrorKind) -> Status {
        Status::of(kind, self.attempts > 0)
    }

    fn info(&self) -> CallInfo {
        CallInfo {
            call_id: self.id,
            call_ref: self.call_ref.clone(),
            tool_name: Arc::clone(&self.tool_name),
            caller: Arc::clone(&self.caller),
        }
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        if !self.closed {
            let error = if std::thread::panicking() {
                Error::new(ErrorKind::Panicked, "a panic ended the call")
            } else {
                Error::new(ErrorKind::Cancelled, "the caller went away")
            };
            let _ = self.close(Err(error));
        }
    }
}

/// The arguments with hidden values masked.
fn masked(tool: &Tool, arguments: &Value) -> Value {
    let mut masked = arguments.clone();
    if let Value::Object(map) = &mut masked {
        for parameter in tool.hidden().iter().filter(|parameter| !parameter.overridable) {
            if let Some(value) = map.get_mut(&parameter.name) {
                *value = HIDDEN.into();
            }
        }
    }
    masked
}

/// A tool's name is bounded, but a caller may ask for anything.
fn kept_name(name: &Arc<str>) -> Arc<str> {
    if name.len() <= MAX_UNKNOWN_NAME {
        return Arc::clone(name);
    }
    name[..name.floor_char_boundary(MAX_UNKNOWN_NAME)].into()
}
