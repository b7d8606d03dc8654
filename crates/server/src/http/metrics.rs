//! Metrics in the Prometheus text format.
//!
//! Calls are counted from their records: every call passes there exactly once,
//! whoever made it.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use windlass::{CallRecord, Engine, Status, TenantId, Usage};

use super::app::App;
use crate::telemetry::ExportCounts;

/// Upper bounds of the buckets, in seconds.
const BUCKETS: [f64; 14] =
    [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];
/// Threads count apart from each other, so that none waits.
const SHARDS: usize = 8;
/// How many tools a shard tells apart: tenants register and delete them without
/// end.
const MOST_TOOLS: usize = 10_000;
/// A tenant may have this many times what is free of that.
const SHARE: usize = 4;
/// What is counted for all other tools.
const OTHERS: &str = "(others)";

/// The counts of a process.
#[derive(Default)]
pub(crate) struct Metrics {
    shards: [Mutex<HashMap<Arc<str>, ToolCounts>>; SHARDS],
    pub(crate) requests: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Connections that were refused or cut off.
    pub(crate) cut: AtomicU64,
    pub(crate) traces: Arc<ExportCounts>,
}

#[derive(Clone, Default)]
struct ToolCounts {
    by_status: [u64; Status::ALL.len()],
    errors: HashMap<&'static str, u64>,
    run: Times,
    queue: Times,
    /// Model usage: tokens and cost.
    usage: Usage,
    /// Who called last: the tool may be one that only a tenant has.
    tenant: Option<TenantId>,
}

#[derive(Clone, Default)]
struct Times {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Times {
    fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        if let Some(at) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            self.buckets[at] += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }

    fn merge(&mut self, other: &Self) {
        for (own, more) in self.buckets.iter_mut().zip(other.buckets) {
            *own += more;
        }
        self.count += other.count;
        self.sum += other.sum;
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let mut below = 0;
        let comma = if labels.is_empty() { "" } else { "," };
        for (bound, count) in BUCKETS.iter().zip(self.buckets) {
            below += count;
            let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {below}");
        }
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}", self.count);
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", self.sum);
        let _ = writeln!(out, "{name}_count{{{labels}}} {}", self.count);
    }
}

impl ToolCounts {
    fn add(&mut self, record: &CallRecord) {
        let at = Status::ALL.iter().position(|status| *status == record.status);
        self.by_status[at.unwrap_or_default()] += 1;
        if let Some(error) = &record.error {
            *self.errors.entry(error.kind.name()).or_default() += 1;
        }
        if record.attempts > 0 {
            self.run.add(record.run_time);
            self.queue.add(record.queue_wait);
        }
        self.usage += record.details.as_ref().and_then(|it| it.usage).unwrap_or_default();
        if self.tenant.as_ref() != Some(&record.caller.tenant) {
            self.tenant = Some(record.caller.tenant.clone());
        }
    }

    fn merge(&mut self, other: &Self) {
        for (own, more) in self.by_status.iter_mut().zip(other.by_status) {
            *own += more;
        }
        for (kind, more) in &other.errors {
            *self.errors.entry(kind).or_default() += more;
        }
        self.run.merge(&other.run);
        self.queue.merge(&other.queue);
        self.usage += other.usage;
        self.tenant = self.tenant.take().or_else(|| other.tenant.clone());
    }

    /// The kind of a tool; none of one that is gone.
    fn kind(&self, tool: &str, engine: &Engine) -> &'static str {
        let registry = engine.registry();
        let of_tenant = || registry.get_for(self.tenant.as_ref()?, tool);
        registry.get(tool).or_else(of_tenant).map_or("", |tool| tool.spec().kind.name())
    }
}

/// Whether one more tool of a tenant is told apart from the others.
fn has_room(shard: &HashMap<Arc<str>, ToolCounts>, tenant: &TenantId, most: usize) -> bool {
    let free = most.saturating_sub(shard.len());
    let own = shard.values().filter(|counts| counts.tenant.as_ref() == Some(tenant)).count();
    own < free.saturating_mul(SHARE)
}

fn shard() -> usize {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local!(static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) as usize % SHARDS);
    OWN.with(|own| *own)
}

impl Metrics {
    /// Counts a call that ended.
    pub(crate) fn count(&self, record: &CallRecord) {
        let name = record.counted_as();
        let mut shard = self.shards[shard()].lock();
        match shard.get_mut(&*name) {
            Some(counts) => counts.add(record),
            None => {
                let is_told = has_room(&shard, &record.caller.tenant, MOST_TOOLS);
                let name = if is_told { name } else { OTHERS.into() };
                shard.entry(name).or_default().add(record);
            }
        }
    }

    /// All of it, as text.
    pub(crate) fn render(&self, app: &App, writable: bool) -> String {
        let engine = &app.engine;
        let mut tools: HashMap<Arc<str>, ToolCounts> = HashMap::new();
        for shard in &self.shards {
            for (name, counts) in &*shard.lock() {
                tools.entry(Arc::clone(name)).or_default().merge(counts);
            }
        }
        let mut tools: Vec<(Arc<str>, ToolCounts)> = tools.into_iter().collect();
        tools.sort_by(|a, b| a.0.cmp(&b.0));
        let mut out = String::new();
        calls(&mut out, &tools, engine);
        limits(&mut out, engine);
        let gauge = |out: &mut String, name: &str, about: &str, kind: &str, value: u64| {
            head(out, name, about, kind);
            let _ = writeln!(out, "{name} {value}");
        };
        let under_way = engine.calls_under_way() as u64;
        gauge(&mut out, "windlass_calls_under_way", "Calls that wait or run.", "gauge", under_way);
        let requests = self.requests.load(Ordering::Relaxed);
        let about = "HTTP requests so far.";
        gauge(&mut out, "windlass_http_requests_total", about, "counter", requests);
        let refused = self.refused.load(Ordering::Relaxed);
        let about = "HTTP requests that were refused because there were too many.";
        gauge(&mut out, "windlass_http_refused_total", about, "counter", refused);
        let cut = self.cut.load(Ordering::Relaxed);
        let about = "Connections that were refused, or cut off because they took nothing.";
        gauge(&mut out, "windlass_http_connections_cut_total", about, "counter", cut);
        let sent = self.traces.sent.load(Ordering::Relaxed);
        let about = "Calls and requests whose spans were sent.";
        gauge(&mut out, "windlass_traces_sent_total", about, "counter", sent);
        let dropped = self.traces.dropped.load(Ordering::Relaxed);
        let about = "Calls and requests whose spans could not be sent.";
        gauge(&mut out, "windlass_traces_dropped_total", about, "counter", dropped);
        let lag = u64::from(!engine.records().keeps_up());
        let about = "1 while records cannot be written as quickly as calls end.";
        gauge(&mut out, "windlass_writer_behind", about, "gauge", lag);
        let (failed, limited) = app.failed_keys.totals();
        let about = "Requests with a key that does not work.";
        gauge(&mut out, "windlass_failed_keys_total", about, "counter", failed);
        let about = "Those of them that were refused because too many came from one address.";
        gauge(&mut out, "windlass_failed_keys_limited_total", about, "counter", limited);
        let unwritten = engine.records().unwritten() as u64;
        let about = "Records that wait in memory to be written.";
        gauge(&mut out, "windlass_records_unwritten", about, "gauge", unwritten);
        let about = "1 while the database can be read and written.";
        gauge(&mut out, "windlass_database_writable", about, "gauge", u64::from(writable));
        out
    }
}

fn head(out: &mut String, name: &str, about: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {about}\n# TYPE {name} {kind}");
}

/// A tool's name as the value of a label.
fn label(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn calls(out: &mut String, tools: &[(Arc<str>, ToolCounts)], engine: &Engine) {
    head(out, "windlass_calls_total", "Calls that ended, by tool, kind and status.", "counter");
    for (tool, counts) in tools {
        let kind = counts.kind(tool, engine);
        let tool = label(tool);
        for (status, count) in Status::ALL.iter().zip(counts.by_status).filter(|it| it.1 > 0) {
            let _ = writeln!(
                out,
                "windlass_calls_total{{tool=\"{tool}\",kind=\"{kind}\",status=\"{}\"}} {count}",
                status.name()
            );
        }
    }
    head(out, "windlass_call_errors_total", "Calls that failed, by kind of error.", "counter");
    for (tool, counts) in tools {
        let tool = label(tool);
        let mut errors: Vec<_> = counts.errors.iter().collect();
        errors.sort();
        for (kind, count) in errors {
            let _ = writeln!(
                out,
                "windlass_call_errors_total{{tool=\"{tool}\",kind=\"{kind}\"}} {count}"
            );
        }
    }
    head(out, "windlass_run_seconds", "How long calls ran.", "histogram");
    for (tool, counts) in tools {
        counts.run.write(out, "windlass_run_seconds", &format!("tool=\"{}\"", label(tool)));
    }
    head(out, "windlass_queue_seconds", "How long calls waited for a slot.", "histogram");
    let mut queue = Times::default();
    tools.iter().for_each(|(_, counts)| queue.merge(&counts.queue));
    queue.write(out, "windlass_queue_seconds", "");
    models(out, tools);
}

/// What models took to answer, by agent.
fn models(out: &mut String, tools: &[(Arc<str>, ToolCounts)]) {
    let agents = || tools.iter().filter(|(_, counts)| !counts.usage.is_zero());
    head(out, "windlass_model_tokens_total", "Tokens that models read and wrote.", "counter");
    for (tool, ToolCounts { usage, .. }) in agents() {
        let tool = label(tool);
        for (what, count) in [
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cache_read", usage.cache_read_tokens),
            ("cache_write", usage.cache_write_tokens),
        ] {
            let _ = writeln!(
                out,
                "windlass_model_tokens_total{{tool=\"{tool}\",type=\"{what}\"}} {count}"
            );
        }
    }
    head(out, "windlass_model_cost_usd_total", "What that costs, as set.", "counter");
    for (tool, ToolCounts { usage, .. }) in agents() {
        let (tool, cost) = (label(tool), usage.cost_usd);
        let _ = writeln!(out, "windlass_model_cost_usd_total{{tool=\"{tool}\"}} {cost}");
    }
}

fn limits(out: &mut String, engine: &Engine) {
    let (metrics, settings) = (engine.limit_metrics(), engine.limits());
    for (name, about, kind, value) in [
        ("running", "Calls that have a slot.", "gauge", metrics.current_concurrent as f64),
        ("slots", "Calls that may have a slot.", "gauge", settings.max_concurrent as f64),
        ("queue_length", "Calls that wait for a slot.", "gauge", metrics.queue_length as f64),
        ("acquired_total", "Calls that got a slot.", "counter", metrics.total_acquired as f64),
        ("rejected_total", "Calls that were refused.", "counter", metrics.total_rejected as f64),
        ("timeout_total", "Calls that gave up waiting.", "counter", metrics.total_timeout as f64),
    ] {
        let name = format!("windlass_limits_{name}");
        head(out, &name, about, kind);
        let _ = writeln!(out, "{name} {value}");
    }
    head(out, "windlass_bucket_running", "Calls of a category that run.", "gauge");
    for (bucket, metrics) in &metrics.buckets {
        let bucket = label(bucket);
        let _ = writeln!(out, "windlass_bucket_running{{bucket=\"{bucket}\"}} {}", metrics.current);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_with_endless_tools_leaves_room_to_others() {
        let mut shard = HashMap::new();
        let fill = |shard: &mut HashMap<Arc<str>, ToolCounts>, name: &str| {
            let tenant = TenantId::new(name);
            for number in 0..1_000 {
                if !has_room(shard, &tenant, 100) {
                    return number;
                }
                let counts = ToolCounts { tenant: Some(tenant.clone()), ..ToolCounts::default() };
                shard.insert(format!("{name}-{number}").into(), counts);
            }
            1_000
        };
        assert_eq!(fill(&mut shard, "noisy"), 80);
        assert!(fill(&mut shard, "quiet") > 10);
        assert!(shard.len() <= 100);
    }
}
