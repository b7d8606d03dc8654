//! An open call: from its acceptance to its one result.

mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use crate::call::content::Output;
use crate::call::context::{Caller, Context};
use crate::call::{CallEnvironment, CallOptions, CallRequest, CallResult};
use crate::error::{Error, ErrorKind};
use crate::journal::event::{CallInfo, EventBody};
use crate::journal::record::{
    CallRecord, Details, FailedAttempt, IdempotencyKey, Intent, RecordedError, Status,
};
use crate::stage::{output_size, preview_output, preview_value};
use crate::tool::{Kind, Tool};
use crate::value::duration;
use crate::value::name::{BatchId, CallId, MAX_TOOL_NAME};
use crate::value::secret::HIDDEN;
use crate::value::text::Text;
use crate::value::usage::CallUsage;

/// How long a call past its deadline waits for its record to be written.
const LAST_WRITE: Duration = Duration::from_secs(5);
/// Maximum number of failed attempts in a record.
const MAX_FAILED_ATTEMPTS: usize = 20;
/// Maximum length of the name of an unknown tool in a record; no tool has a
/// longer one.
const MAX_NAME: usize = MAX_TOOL_NAME * 4;
/// How much is kept of a longer name.
const MAX_SHOWN: usize = 256;

/// A call that was accepted and has no result yet.
pub(crate) struct OpenCall {
    shared: Arc<CallEnvironment>,
    pub(crate) id: CallId,
    call_ref: Option<Arc<str>>,
    /// The tool's name, as asked for; the result takes it.
    tool_name: Option<Arc<str>>,
    /// Kind of the tool, once it is resolved.
    kind: Option<Kind>,
    /// Whether the call is safe to repeat.
    repeatable: bool,
    context: Arc<Context>,
    /// The tool, if it has hidden parameters to mask.
    masks: Option<Arc<Tool>>,
    /// The arguments, until the record takes them.
    arguments: Option<Arc<Value>>,
    /// Size of the output, once it is known to be small.
    pub(crate) output_size: Option<usize>,
    created_at: Timestamp,
    pub(crate) began: Instant,
    queue_wait: Duration,
    attempts: u32,
    details: Option<Box<Details>>,
    /// The batch that it belongs to.
    pub(crate) batch: Option<BatchId>,
    /// The deadline, once it is known.
    deadline: Option<Instant>,
    /// Set when the call begins to take effect.
    pub(crate) effect: Option<Arc<AtomicBool>>,
    /// Whether an intent was stored before the call ran.
    pub(crate) intended: bool,
    /// The result for the finished event, between record and event.
    unreported: Option<Box<CallResult>>,
    closed: bool,
}

impl OpenCall {
    /// Opens a call. What is left of its request says how it is to run.
    pub(crate) fn new(shared: Arc<CallEnvironment>, request: CallRequest) -> (Self, CallOptions) {
        let CallRequest { tool, arguments, context, call_ref, options } = request;
        let began = Instant::now();
        let created_at = shared.journal.clock.at(began);
        let open = Self {
            shared,
            id: options.own_id().unwrap_or_else(|| CallId::at(created_at)),
            call_ref,
            tool_name: Some(kept_name(tool)),
            kind: None,
            repeatable: true,
            masks: None,
            arguments: Some(arguments),
            output_size: None,
            created_at,
            began,
            queue_wait: Duration::ZERO,
            attempts: 0,
            details: context.trace.as_ref().map(|trace| {
                Box::new(Details { trace: Some(trace.clone()), ..Details::default() })
            }),
            context,
            batch: None,
            deadline: None,
            effect: None,
            intended: false,
            unreported: None,
            closed: false,
        };
        (open, options)
    }

    /// The tool's name, as asked for; empty once the call has its result.
    pub(crate) fn tool_name(&self) -> &str {
        self.tool_name.as_deref().unwrap_or_default()
    }

    /// The id that the model gave the call.
    pub(crate) fn call_ref(&self) -> Option<&Arc<str>> {
        self.call_ref.as_ref()
    }

    /// The context.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The caller.
    pub(crate) fn caller(&self) -> &Caller {
        &self.context.caller
    }

    /// The environment, shared per thread.
    pub(crate) fn shared(&self) -> &Arc<CallEnvironment> {
        &self.shared
    }

    /// The call waits for its turn in a batch.
    pub(crate) fn queued(&self, batch_id: BatchId, position: usize) {
        self.shared.journal.bus.emit(|| EventBody::ToolQueued {
            call: self.info(),
            batch_id,
            position,
        });
    }

    /// The tool was resolved; from here on its hidden parameters are masked.
    pub(crate) fn resolved(&mut self, tool: &Arc<Tool>) {
        self.kind = Some(tool.spec().kind);
        self.repeatable = tool.spec().behaviour.may_be_repeated();
        // The caller may have used the wire name.
        if self.tool_name() != tool.name().as_str() {
            self.tool_name = Some(tool.name().shared());
        }
        if !tool.hidden().is_empty() {
            self.masks = Some(Arc::clone(tool));
        }
    }

    /// The arguments, while they are being prepared.
    pub(crate) fn arguments(&mut self) -> &mut Arc<Value> {
        self.arguments.get_or_insert_default()
    }

    /// The same, beside the context.
    pub(crate) fn context_and_arguments(&mut self) -> (&Context, &mut Arc<Value>) {
        (&self.context, self.arguments.get_or_insert_default())
    }

    /// Sets the deadline: the timeout from now, but not after `latest`.
    pub(crate) fn until(&mut self, timeout: Duration, latest: Option<Instant>) -> Instant {
        let own = self.began + timeout.min(duration::MAX);
        let deadline = latest.map_or(own, |latest| own.min(latest));
        self.deadline = Some(deadline);
        deadline
    }

    /// The intent for the store.
    pub(crate) fn intent(&mut self, key: Option<IdempotencyKey>) -> Intent {
        if let Some(key) = &key {
            self.details().idempotency_key = Some(Arc::clone(&key.key));
        }
        Intent {
            id: self.id,
            call_ref: self.call_ref.clone(),
            tool_name: self.shared_name(),
            arguments: self.redacted(self.arguments.clone().unwrap_or_default()),
            caller: Arc::clone(&self.context.caller),
            created_at: self.created_at,
            key,
        }
    }

    /// The call has its slot and starts to run.
    pub(crate) fn started(&mut self, waited: bool) {
        if waited {
            self.queue_wait = self.began.elapsed();
        }
        self.attempts += 1;
        if let Some(effect) = &self.effect {
            effect.store(true, Ordering::Relaxed);
        }
        self.shared.journal.bus.emit(|| EventBody::ExecutionStarted { call: self.info() });
    }

    /// When it began to run.
    pub(crate) fn run_began(&self) -> Instant {
        self.began + self.queue_wait
    }

    /// Number of attempts so far.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// An attempt failed and will be retried.
    pub(crate) fn retried(&mut self, error: &Error, run_time: Duration, delay: Duration) {
        let attempt = self.attempts;
        self.shared.journal.bus.emit(|| EventBody::ExecutionRetried {
            call: self.info(),
            attempt,
            error_kind: error.kind(),
            error: error.message().to_owned(),
            delay: delay.as_secs_f64(),
        });
        if self.details().failed_attempts.len() == MAX_FAILED_ATTEMPTS {
            return;
        }
        self.details().failed_attempts.push(FailedAttempt {
            error: RecordedError::from(&error.clone().bounded()),
            execution_time: run_time.as_secs_f64(),
            delay: delay.as_secs_f64(),
        });
    }

    /// The next attempt starts.
    pub(crate) fn tried_again(&mut self) {
        self.attempts += 1;
    }

    /// A hook rewrote the arguments.
    pub(crate) fn rewritten(&mut self, arguments: &Arc<Value>) {
        self.arguments = Some(Arc::clone(arguments));
    }

    /// The call has the result of an earlier call.
    pub(crate) fn same_as(&mut self, earlier: CallId) {
        self.details().same_as = Some(earlier);
    }

    /// Sets the model usage.
    pub(crate) fn used(&mut self, bill: CallUsage) {
        let nested = bill.total != bill.own;
        let details = self.details();
        details.usage = Some(bill.own).filter(|own| !nested || !own.is_zero());
        details.total_usage = nested.then_some(bill.total);
    }

    /// Closes the call with its outcome.
    pub(crate) fn close(&mut self, outcome: Result<Arc<Output>, Error>) -> CallResult {
        let result = self.end(outcome);
        self.report(&result);
        result
    }

    /// Closes the call once its record is stored durably. If that takes too
    /// long, the caller gets an error instead of the result.
    pub(crate) async fn close_durably(
        &mut self,
        outcome: Result<Arc<Output>, Error>,
    ) -> CallResult {
        let mut result = self.end(outcome);
        self.unreported = Some(Box::new(result.clone()));
        let last = Instant::now() + LAST_WRITE;
        let patience = self.deadline.map_or(last, |deadline| deadline.max(last));
        if let Err(error) = self.shared.journal.kept(patience).await {
            result.outcome = Err(not_recorded(self.id, &error));
        }
        // Other processes on the same store may have ended meanwhile.
        self.shared.journal.interrupted();
        self.unreported = None;
        self.report(&result);
        result
    }

    /// Appends the record to the store.
    fn end(&mut self, outcome: Result<Arc<Output>, Error>) -> CallResult {
        self.closed = true;
        let outcome = outcome.map_err(|error| {
            let error = error.bounded();
            if self.attempts > 0 && !self.repeatable { error.after_begin() } else { error }
        });
        let run_time = match self.attempts {
            0 => Duration::ZERO,
            _ => self.began.elapsed().saturating_sub(self.queue_wait),
        };
        let record = self.record(&outcome, run_time);
        self.shared.journal.keep(record);
        let name = self.tool_name.take().unwrap_or_default();
        self.result(name, outcome, run_time)
    }

    /// The result for the caller. For a call that continues without its caller,
    /// this is all that happens here.
    pub(crate) fn answer(
        &self,
        outcome: Result<Arc<Output>, Error>,
        run_time: Duration,
    ) -> CallResult {
        self.result(self.shared_name(), outcome, run_time)
    }

    fn result(
        &self,
        tool_name: Arc<str>,
        outcome: Result<Arc<Output>, Error>,
        run_time: Duration,
    ) -> CallResult {
        CallResult {
            id: self.id,
            call_ref: self.call_ref.clone(),
            tool_name,
            outcome,
            attempts: self.attempts,
            same_as: self.details.as_ref().and_then(|details| details.same_as),
            queue_wait: self.queue_wait,
            run_time,
            created_at: self.created_at,
            usage: self
                .details
                .as_ref()
                .and_then(|details| details.total_usage.or(details.usage).map(Box::new)),
        }
    }

    fn record(&mut self, outcome: &Result<Arc<Output>, Error>, run_time: Duration) -> CallRecord {
        let arguments = self.arguments.take().unwrap_or_default();
        let arguments = self.redacted(arguments);
        // Duplicates get this result again, so it is recorded whole.
        let max_bytes = match self.details.as_ref().and_then(|it| it.idempotency_key.as_ref()) {
            Some(_) => usize::MAX,
            None => self.shared.journal.max_record_bytes,
        };
        let (status, result, error) = match outcome {
            Ok(output) if self.size(output, max_bytes) <= max_bytes => {
                (Status::Succeeded, Some(Arc::clone(output)), None)
            }
            Ok(output) => {
                (Status::Succeeded, Some(Arc::new(preview_output(output, max_bytes))), None)
            }
            Err(error) => (self.status(error.kind()), None, Some(Box::new(error.into()))),
        };
        CallRecord {
            id: self.id,
            call_ref: self.call_ref.clone(),
            tool_name: self.shared_name(),
            arguments,
            result,
            status,
            error,
            caller: Arc::clone(&self.context.caller),
            attempts: self.attempts,
            queue_wait: self.queue_wait,
            run_time,
            created_at: self.created_at,
            details: self.details.clone(),
        }
    }

    /// Size of the output; stops counting at the limit.
    fn size(&self, output: &Output, limit: usize) -> usize {
        self.output_size.unwrap_or_else(|| output_size(output, limit))
    }

    fn shared_name(&self) -> Arc<str> {
        self.tool_name.clone().unwrap_or_default()
    }

    /// The arguments, redacted and truncated.
    fn redacted(&self, mut arguments: Arc<Value>) -> Arc<Value> {
        if let Some(tool) = &self.masks {
            arguments = Arc::new(masked(tool, &arguments));
        }
        preview_value(&arguments, self.shared.journal.max_record_bytes).map_or(arguments, Arc::new)
    }

    fn report(&self, result: &CallResult) {
        let bus = &self.shared.journal.bus;
        let (outcome, run_time) = (&result.outcome, result.run_time);
        let execution_time = run_time.as_secs_f64();
        let info = || CallInfo { tool_name: Arc::clone(&result.tool_name), ..self.info() };
        match outcome {
            Ok(_) => {
                bus.emit(|| EventBody::ExecutionCompleted { call: info(), execution_time });
            }
            Err(error) => {
                if !error.violations().is_empty() {
                    bus.emit(|| EventBody::ValidationError {
                        call: info(),
                        errors: error.violations().to_vec(),
                    });
                }
                bus.emit(|| EventBody::ExecutionFailed {
                    call: info(),
                    status: self.status(error.kind()),
                    error_kind: error.kind(),
                    error: error.message().to_owned(),
                    execution_time,
                });
            }
        }
        tracing::debug!(
            call = %self.id,
            tool = &*result.tool_name,
            run_time_us = run_time.as_micros() as u64,
            error = outcome.as_ref().err().map(|error| error.kind().name()),
            "call closed"
        );
    }

    fn status(&self, kind: ErrorKind) -> Status {
        let ran_before = || self.details.as_ref().is_some_and(|details| details.same_as.is_some());
        Status::of(kind, self.attempts > 0 || ran_before())
    }

    fn details(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }

    fn info(&self) -> CallInfo {
        CallInfo {
            call_id: self.id,
            call_ref: self.call_ref.clone(),
            tool_name: self.shared_name(),
            kind: self.kind,
            caller: Arc::clone(&self.context.caller),
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if let Some(result) = self.unreported.take() {
            self.report(&result);
        }
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

/// The error of a call that ran and could not be recorded.
fn not_recorded(id: CallId, cause: &Error) -> Error {
    let why = format!(
        "the call ran, but its result could not be recorded: {cause}; it is written as soon as \
         that is possible: look for call {id}"
    );
    Error::new(ErrorKind::StorageUnavailable, why).with_feedback(Text::both(
        "The call ran, but its result could not be recorded. Do not repeat it; check what it did.",
        "调用已执行,但结果无法记录。请勿重复调用;请确认其效果。",
    ))
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

/// Truncates a name that no tool can have: names of tools are bounded, but
/// callers may ask for anything. The ellipsis is part of no name, so nothing is
/// found by what is left.
fn kept_name(name: Arc<str>) -> Arc<str> {
    if name.len() <= MAX_NAME {
        return name;
    }
    format!("{}…", &name[..name.floor_char_boundary(MAX_SHOWN)]).into()
}
