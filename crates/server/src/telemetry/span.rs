//! Finished operations, holding only what their spans need.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Method;
use jiff::Timestamp;
use serde_json::Value;
use windlass::{CallId, CallRecord, Caller, Engine, Output, TenantId, Tool, TraceContext, Usage};

/// Something that has ended.
pub(super) enum FinishedSpan {
    Call(Box<CallSpan>),
    Request(Box<RequestSpan>),
    Mcp(Box<McpSpan>),
    Chat(Box<ChatSpan>),
}

impl FinishedSpan {
    /// The same, with the tool that was called. Not left until the batch is sent,
    /// since tools of a server go with it.
    pub(super) fn resolved(mut self, engine: &Engine) -> Self {
        if let Self::Call(call) = &mut self {
            call.definition = engine.registry().get_for(&call.caller.tenant, &call.tool);
        }
        self
    }
}

/// A call: all of its spans.
pub(super) struct CallSpan {
    pub(super) id: CallId,
    pub(super) trace_id: u128,
    pub(super) parent: Option<u64>,
    pub(super) tool: Arc<str>,
    /// The tool itself, if there still is one when the exporter takes this.
    pub(super) definition: Option<Arc<Tool>>,
    /// The id that the model gave the call.
    pub(super) call_ref: Option<Arc<str>>,
    /// What models took to answer it.
    pub(super) usage: Option<Usage>,
    /// Its arguments and its result, where spans hold them.
    pub(super) content: Option<(Arc<Value>, Option<Arc<Output>>)>,
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
    pub(super) fn new(record: &CallRecord, with_content: bool) -> Self {
        let details = record.details.as_deref();
        let trace = details.and_then(|details| details.trace.as_ref());
        let failed = details.map_or(&[][..], |details| &details.failed_attempts);
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Self {
            id: record.id,
            // A call without a trace context starts a new trace.
            trace_id: trace.map_or_else(|| record.id.uuid().as_u128(), TraceContext::trace_id),
            parent: match (record.caller.parent, trace) {
                (Some(parent), _) => Some(TraceContext::span_of(parent)),
                (None, trace) => trace.map(TraceContext::span_id),
            },
            tool: record.counted_as(),
            definition: None,
            call_ref: record.call_ref.clone(),
            usage: details.and_then(|details| details.usage),
            content: with_content.then(|| (Arc::clone(&record.arguments), record.result.clone())),
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

/// A request of the Model Context Protocol, as the server of it sees it.
pub(crate) struct McpSpan {
    pub(super) trace: TraceContext,
    pub(super) parent: Option<u64>,
    /// The HTTP request that brought it, where that is not its parent.
    pub(super) link: Option<TraceContext>,
    pub(super) began: Timestamp,
    clock: Instant,
    pub(super) took: Duration,
    /// What is asked for.
    pub(super) about: McpRequest,
    pub(super) failure: Option<McpFailure>,
}

/// What a request of the protocol asks for.
pub(crate) struct McpRequest {
    pub(crate) target: McpTarget,
    pub(crate) id: String,
    pub(crate) session: Option<String>,
    pub(crate) version: Option<String>,
}

/// What a request is about.
pub(crate) enum McpTarget {
    /// A tool, if there is one of the name.
    Tool(Option<String>),
    /// A prompt, as the client names it.
    Prompt(String),
    /// A resource by its URI.
    Resource(String),
}

impl McpTarget {
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Tool(_) => "tools/call",
            Self::Prompt(_) => "prompts/get",
            Self::Resource(_) => "resources/read",
        }
    }
}

/// How an answer tells of a failure.
#[derive(Clone, Copy)]
pub(crate) enum McpFailure {
    /// As an error of JSON-RPC, with its code.
    Protocol(i32),
    /// As the result of a tool.
    Tool,
}

impl McpSpan {
    pub(super) fn new(
        trace: TraceContext,
        parent: Option<u64>,
        link: Option<TraceContext>,
        about: McpRequest,
    ) -> Self {
        let (began, clock) = (Timestamp::now(), Instant::now());
        Self { trace, parent, link, began, clock, took: Duration::ZERO, about, failure: None }
    }

    /// Where in the trace that belongs what is done for it.
    pub(crate) fn within(&self) -> TraceContext {
        self.trace.clone().reported()
    }

    /// It has been answered.
    pub(crate) fn end(mut self, failure: Option<McpFailure>) -> Self {
        (self.took, self.failure) = (self.clock.elapsed(), failure);
        self
    }
}

/// A question to a model.
pub(super) struct ChatSpan {
    pub(super) trace_id: u128,
    pub(super) id: u64,
    pub(super) parent: u64,
    pub(super) began: Timestamp,
    pub(super) took: Duration,
    pub(super) provider: String,
    pub(super) model: String,
    /// Who answered: the model that was asked, or the one in its place.
    pub(super) answered: Option<String>,
    pub(super) host: Option<(String, u16)>,
    pub(super) max_tokens: u64,
    pub(super) temperature: Option<f64>,
    pub(super) conversation: Option<Arc<str>>,
    pub(super) usage: Option<Usage>,
    pub(super) finish: Option<&'static str>,
    pub(super) error: Option<&'static str>,
}
