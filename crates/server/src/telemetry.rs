//! Traces: spans of calls and requests, exported over OTLP/HTTP.
//!
//! ```text
//! records ─┐                 bounded queue
//! requests ┴─ Tracer ─ sampled ─► FinishedSpan ─ otlp ─► JSON ─ sender ─► collector
//! ```
//!
//! Names and attributes follow OpenTelemetry's semantic conventions for generative
//! AI, MCP and HTTP, in the version of [`otlp::SCHEMA`]. The spans of a call are made
//! from its record, which every call passes once; they have arguments and results
//! only if that is configured, and never the texts of errors. Exporting never blocks
//! a call: what does not fit into the queue is dropped and counted.

mod otlp;
mod sender;
mod span;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass::{CallId, CallRecord, Engine, TraceContext};
use windlass_executors::model::Chat;

use crate::random;
use crate::settings::TelemetrySettings;
use otlp::Resource;
use sender::SpanSender;
use span::{CallSpan, ChatSpan, FinishedSpan};
pub(crate) use span::{McpFailure, McpRequest, McpSpan, McpTarget, RequestSpan};

/// What may wait to be sent.
const WAITING: usize = 8192;
/// What is sent at once.
const BATCH: usize = 512;
/// How long something waits for company.
const GATHER: Duration = Duration::from_secs(1);

/// The headers of the W3C's Trace Context.
const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");

/// Takes what has ended.
pub(crate) struct Tracer {
    queue: mpsc::Sender<FinishedSpan>,
    /// A trace that begins here is sampled where the last 63 bits of its id are
    /// below this.
    below: u64,
    /// Whether spans hold arguments and results.
    content: bool,
    counts: Arc<ExportCounts>,
}

/// What became of it.
#[derive(Default)]
pub(crate) struct ExportCounts {
    pub(crate) sent: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// Sends what the tracer took.
pub(crate) struct Exporter {
    queue: mpsc::Receiver<FinishedSpan>,
    sender: SpanSender,
    resource: Resource,
    counts: Arc<ExportCounts>,
}

/// A tracer and what sends for it, where a collector was named.
pub(crate) fn start(
    settings: &TelemetrySettings,
    counts: &Arc<ExportCounts>,
) -> Option<(Arc<Tracer>, Exporter)> {
    let endpoint = settings.endpoint.as_ref()?;
    let (sending, queue) = mpsc::channel(WAITING);
    let below = (settings.sample_ratio.0 * (1_u64 << 63) as f64) as u64;
    let content = settings.content;
    let tracer = Tracer { queue: sending, below, content, counts: Arc::clone(counts) };
    let exporter = Exporter {
        queue,
        sender: SpanSender::new(&endpoint.0, &settings.headers),
        resource: Resource { service: settings.service_name.clone() },
        counts: Arc::clone(counts),
    };
    Some((Arc::new(tracer), exporter))
}

impl Tracer {
    /// A request begins: its span is a part of the trace that it names, or
    /// begins one. From here on its headers name the request's own span.
    pub(crate) fn begin(&self, headers: &mut HeaderMap) -> Option<RequestSpan> {
        let given = from_headers(headers);
        let own = random::number().ok()?;
        let trace = match &given {
            Some(parent) => parent.within(own),
            None => {
                let id =
                    u128::from(random::number().ok()?) << 64 | u128::from(random::number().ok()?);
                TraceContext::new(id, own, id as u64 >> 1 < self.below)
            }
        };
        if let Ok(value) = HeaderValue::try_from(trace.to_string()) {
            headers.insert(PARENT, value);
        }
        Some(RequestSpan::new(trace, given.map(|parent| parent.span_id())))
    }

    /// A request has been answered.
    pub(crate) fn request(&self, span: RequestSpan) {
        if span.trace.is_sampled() {
            self.take(FinishedSpan::Request(Box::new(span)));
        }
    }

    /// A call has ended.
    pub(crate) fn call(&self, record: &CallRecord) {
        let trace = record.details.as_ref().and_then(|details| details.trace.as_ref());
        if self.samples(record.id, trace) {
            self.take(FinishedSpan::Call(Box::new(CallSpan::new(record, self.content))));
        }
    }

    /// A request of the Model Context Protocol begins. `named` is where the
    /// request itself says that it belongs, `around` the HTTP request.
    pub(crate) fn begin_mcp(
        &self,
        named: Option<&TraceContext>,
        around: Option<TraceContext>,
        about: McpRequest,
    ) -> Option<McpSpan> {
        let parent = named.or(around.as_ref())?;
        let trace = parent.within(random::number().ok()?);
        let (parent, link) = (parent.span_id(), around.filter(|_| named.is_some()));
        Some(McpSpan::new(trace, Some(parent), link, about))
    }

    /// It has been answered.
    pub(crate) fn mcp(&self, span: McpSpan) {
        if span.trace.is_sampled() {
            self.take(FinishedSpan::Mcp(Box::new(span)));
        }
    }

    /// A model has answered a question of a call, or has not.
    pub(crate) fn chat(&self, chat: &Chat<'_>) {
        let (call, trace) = (chat.call, chat.call.trace());
        let Ok(id) = random::number() else { return };
        if !self.samples(call.id(), trace.as_ref()) {
            return;
        }
        let own = || call.id().uuid().as_u128();
        self.take(FinishedSpan::Chat(Box::new(ChatSpan {
            trace_id: trace.as_ref().map_or_else(own, TraceContext::trace_id),
            id,
            parent: TraceContext::span_of(call.id()),
            began: jiff::Timestamp::try_from(chat.began).unwrap_or_default(),
            took: chat.took,
            provider: chat.model.provider.clone(),
            model: chat.model.name.clone(),
            answered: chat.answered.map(|model| model.name.clone()),
            host: chat.model.host(),
            max_tokens: chat.max_tokens,
            temperature: chat.temperature,
            conversation: call.caller().conversation.clone(),
            usage: chat.usage,
            finish: chat.finish,
            error: chat.error.map(windlass::ErrorKind::name),
        })));
    }

    fn samples(&self, call: CallId, trace: Option<&TraceContext>) -> bool {
        let own = || call.uuid().as_u64_pair().1 << 2 >> 1 < self.below;
        trace.map_or_else(own, TraceContext::is_sampled)
    }

    fn take(&self, finished: FinishedSpan) {
        if self.queue.try_send(finished).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Where in a trace a request belongs.
pub(crate) fn from_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let text =
        |name: &HeaderName| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    TraceContext::parse(text(&PARENT)?, text(&STATE))
}

/// Where in a trace a request of the Model Context Protocol says that it belongs.
pub(crate) fn from_meta(meta: &serde_json::Map<String, serde_json::Value>) -> Option<TraceContext> {
    let text = |name: &str| meta.get(name).and_then(serde_json::Value::as_str);
    TraceContext::parse(text(PARENT.as_str())?, text(STATE.as_str()))
}

impl Exporter {
    /// Sends until the server ends, and then what is left.
    pub(crate) async fn run(mut self, engine: Engine, stop: CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let first = tokio::select! {
                first = self.queue.recv() => first,
                () = stop.cancelled() => self.queue.try_recv().ok(),
            };
            let Some(first) = first else { return };
            batch.push(first.resolved(&engine));
            self.gather(&mut batch, &engine, &stop).await;
            self.send(&batch, &stop).await;
            batch.clear();
        }
    }

    async fn gather(
        &mut self,
        batch: &mut Vec<FinishedSpan>,
        engine: &Engine,
        stop: &CancellationToken,
    ) {
        let enough = tokio::time::sleep(GATHER);
        let mut enough = std::pin::pin!(enough);
        while batch.len() < BATCH {
            let more = tokio::select! {
                more = self.queue.recv() => more,
                () = &mut enough => return,
                () = stop.cancelled() => self.queue.try_recv().ok(),
            };
            let Some(more) = more else { return };
            batch.push(more.resolved(engine));
        }
    }

    async fn send(&mut self, batch: &[FinishedSpan], stop: &CancellationToken) {
        let body = otlp::document(&self.resource, batch);
        let count = batch.len() as u64;
        match self.sender.send(body, stop).await {
            true => self.counts.sent.fetch_add(count, Ordering::Relaxed),
            false => self.counts.dropped.fetch_add(count, Ordering::Relaxed),
        };
    }
}
