//! What has ended, as little of it as spans need.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Method;
use jiff::Timestamp;
use windlass::{CallId, CallRecord, Caller, TenantId, TraceContext};

/// Something that has ended.
pub(super) enum Finished {
    Call(Box<CallSpan>),
    Request(Box<RequestSpan>),
}

/// A call: all of its spans.
pub(super) struct CallSpan {
    pub(super) id: CallId,
    pub(super) trace_id: u128,
    pub(super) parent: Option<u64>,
    pub(super) tool: Arc<str>,
    pub(super) caller: Arc<Caller>,
    pub(super) status: &'static str,
    pub(super) error: Option<&'static str>,
    pub(super) attempts: u32,
    pub(super) began: Timestamp,
    pub(super) queue_wait: Duration,
    pub(super) run_time: Duration,
    /// Attempts that failed before the last one: why, how long each ran, and
    /// how long the next one was put off.
    pub(super) failed: Vec<(&'static str, Duration, Duration)>,
}

impl CallSpan {
    pub(super) fn new(record: &CallRecord) -> Self {
        let details = record.details.as_deref();
        let trace = details.and_then(|details| details.trace.as_ref());
        let failed = details.map_or(&[][..], |details| &details.failed_attempts);
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Self {
            id: record.id,
            // A call that names no trace begins one of its own.
            trace_id: trace.map_or_else(|| record.id.uuid().as_u128(), TraceContext::trace_id),
            parent: match (record.caller.parent, trace) {
                (Some(parent), _) => Some(TraceContext::span_of(parent)),
                (None, trace) => trace.map(TraceContext::span_id),
            },
            tool: record.counted_as(),
            caller: Arc::clone(&record.caller),
            status: record.status.name(),
            error: record.error.as_ref().map(|error| error.kind.name()),
            attempts: record.attempts,
            began: record.created_at,
            queue_wait: record.queue_wait,
            run_time: record.run_time,
            failed: (failed.iter())
                .map(|one| (one.error.kind.name(), seconds(one.execution_time), seconds(one.delay)))
                .collect(),
        }
    }
}

/// An HTTP request.
pub(crate) struct RequestSpan {
    pub(super) trace: TraceContext,
    pub(super) parent: Option<u64>,
    pub(super) began: Timestamp,
    clock: Instant,
    pub(super) took: Duration,
    pub(super) method: Method,
    pub(super) route: Arc<str>,
    pub(super) status: u16,
    pub(super) tenant: Option<TenantId>,
}

impl RequestSpan {
    pub(super) fn new(trace: TraceContext, parent: Option<u64>) -> Self {
        Self {
            trace,
            parent,
            began: Timestamp::now(),
            clock: Instant::now(),
            took: Duration::ZERO,
            method: Method::GET,
            route: "".into(),
            status: 0,
            tenant: None,
        }
    }

    /// It has been answered.
    pub(crate) fn end(
        mut self,
        method: Method,
        route: Arc<str>,
        status: u16,
        tenant: Option<TenantId>,
    ) -> Self {
        self.took = self.clock.elapsed();
        (self.method, self.route, self.status, self.tenant) = (method, route, status, tenant);
        self
    }
}
