//! Traces: what calls and requests took, sent to a collector over OTLP/HTTP.
//!
//! ```text
//! records ─┐                 queue, bounded
//! requests ┴─ Tracer ─ sampled ─► Finished ─ otlp ─► JSON ─ sender ─► collector
//! ```
//!
//! A call's spans are made from its record, which every call passes once; a
//! span never holds arguments, results or texts of errors. Nobody waits for the
//! collector: what does not fit into the queue is dropped and counted.

mod otlp;
mod sender;
mod span;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass::{CallRecord, Engine, TraceContext};

use crate::random;
use crate::settings::TelemetrySettings;
use otlp::Resource;
use sender::Sender;
pub(crate) use span::RequestSpan;
use span::{CallSpan, Finished};

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
    queue: mpsc::Sender<Finished>,
    /// A trace that begins here is sampled where the last 63 bits of its id are
    /// below this.
    below: u64,
    counts: Arc<Counts>,
}

/// What became of it.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) sent: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// Sends what the tracer took.
pub(crate) struct Exporter {
    queue: mpsc::Receiver<Finished>,
    sender: Sender,
    resource: Resource,
    counts: Arc<Counts>,
}

/// A tracer and what sends for it, where a collector was named.
pub(crate) fn start(
    settings: &TelemetrySettings,
    counts: &Arc<Counts>,
) -> Option<(Arc<Tracer>, Exporter)> {
    let endpoint = settings.endpoint.as_ref()?;
    let (sending, queue) = mpsc::channel(WAITING);
    let below = (settings.sample_ratio.0 * (1_u64 << 63) as f64) as u64;
    let tracer = Tracer { queue: sending, below, counts: Arc::clone(counts) };
    let exporter = Exporter {
        queue,
        sender: Sender::new(&endpoint.0, &settings.headers),
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
            self.take(Finished::Request(Box::new(span)));
        }
    }

    /// A call has ended.
    pub(crate) fn call(&self, record: &CallRecord) {
        let trace = record.details.as_ref().and_then(|details| details.trace.as_ref());
        let sampled = trace.map_or_else(
            || record.id.uuid().as_u64_pair().1 << 2 >> 1 < self.below,
            TraceContext::is_sampled,
        );
        if sampled {
            self.take(Finished::Call(Box::new(CallSpan::new(record))));
        }
    }

    fn take(&self, finished: Finished) {
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
            batch.push(first);
            self.gather(&mut batch, &stop).await;
            self.send(&batch, &engine, &stop).await;
            batch.clear();
        }
    }

    async fn gather(&mut self, batch: &mut Vec<Finished>, stop: &CancellationToken) {
        let enough = tokio::time::sleep(GATHER);
        let mut enough = std::pin::pin!(enough);
        while batch.len() < BATCH {
            let more = tokio::select! {
                more = self.queue.recv() => more,
                () = &mut enough => return,
                () = stop.cancelled() => self.queue.try_recv().ok(),
            };
            let Some(more) = more else { return };
            batch.push(more);
        }
    }

    async fn send(&mut self, batch: &[Finished], engine: &Engine, stop: &CancellationToken) {
        let body = otlp::document(&self.resource, batch, engine);
        let count = batch.len() as u64;
        match self.sender.send(body, stop).await {
            true => self.counts.sent.fetch_add(count, Ordering::Relaxed),
            false => self.counts.dropped.fetch_add(count, Ordering::Relaxed),
        };
    }
}
