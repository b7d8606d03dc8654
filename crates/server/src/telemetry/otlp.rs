//! Spans in the JSON form of OTLP: ids in hexadecimal, 64-bit numbers as texts,
//! enumerations as numbers.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass::{Engine, TraceContext};

use super::span::{CallSpan, Finished, RequestSpan};

const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const FAILED: u8 = 2;

/// Who sends.
pub(super) struct Resource {
    pub(super) service: String,
}

/// One request to the collector.
pub(super) fn document(resource: &Resource, batch: &[Finished], engine: &Engine) -> Vec<u8> {
    let mut spans = Vec::with_capacity(batch.len() * 3);
    for finished in batch {
        match finished {
            Finished::Call(call) => of_call(call, engine, &mut spans),
            Finished::Request(request) => spans.push(of_request(request)),
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    let about = [text("service.name", &resource.service), text("service.version", version)];
    let scope = json!({"name": "windlass", "version": version});
    let document = json!({"resourceSpans": [{
        "resource": {"attributes": about},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]});
    document.to_string().into_bytes()
}

/// A call, the time that it waited for a slot, and each attempt.
fn of_call(call: &CallSpan, engine: &Engine, spans: &mut Vec<Value>) {
    let own = TraceContext::span_of(call.id);
    let began = nanoseconds(call.began);
    let run_began = began + call.queue_wait.as_nanos();
    let ended = run_began + call.run_time.as_nanos();
    let kind = engine.registry().get_for(&call.caller.tenant, &call.tool);
    let mut about = vec![
        text("windlass.call.id", &call.id.to_string()),
        text("windlass.tool", &call.tool),
        text("windlass.tenant", call.caller.tenant.as_str()),
        text("windlass.status", call.status),
        number("windlass.attempts", call.attempts.into()),
    ];
    about.extend(kind.map(|tool| text("windlass.kind", tool.spec().kind.name())));
    about.extend(call.error.map(|error| text("error.type", error)));
    about.extend(call.caller.conversation.as_ref().map(|it| text("windlass.conversation", it)));
    about.extend(call.caller.workflow.as_ref().map(|it| text("windlass.workflow", it)));
    let span = |id, parent, name, (start, end): (u128, u128), about: Vec<Value>, error| {
        one(call.trace_id, id, parent, name, INTERNAL, (start, end), &about, error)
    };
    spans.push(span(own, call.parent, "windlass.call", (began, ended), about, call.error));
    if call.attempts == 0 {
        return;
    }
    let queue = (began, run_began);
    spans.push(span(child(own, 0), Some(own), "windlass.queue", queue, Vec::new(), None));
    let mut start = run_began;
    for (attempt, (error, took, delay)) in (1..).zip(&call.failed) {
        let end = start + took.as_nanos();
        let about = vec![number("windlass.attempt", attempt), text("error.type", error)];
        let id = child(own, attempt);
        spans.push(span(id, Some(own), "windlass.run", (start, end), about, Some(error)));
        start = end + delay.as_nanos();
    }
    let mut about = vec![number("windlass.attempt", call.attempts.into())];
    about.extend(call.error.map(|error| text("error.type", error)));
    let last = (start.min(ended), ended);
    let id = child(own, call.attempts.into());
    spans.push(span(id, Some(own), "windlass.run", last, about, call.error));
}

fn of_request(request: &RequestSpan) -> Value {
    let began = nanoseconds(request.began);
    let ended = began + request.took.as_nanos();
    let mut about = vec![
        text("http.request.method", request.method.as_str()),
        text("http.route", &request.route),
        number("http.response.status_code", request.status.into()),
    ];
    about.extend(request.tenant.as_ref().map(|tenant| text("windlass.tenant", tenant.as_str())));
    let name = format!("{} {}", request.method, request.route);
    let (trace, own) = (&request.trace, request.trace.span_id());
    let error = (request.status >= 500).then_some("server_error");
    one(trace.trace_id(), own, request.parent, &name, SERVER, (began, ended), &about, error)
}

#[expect(clippy::too_many_arguments, reason = "a span is this, and it is built in two places")]
fn one(
    trace_id: u128,
    id: u64,
    parent: Option<u64>,
    name: &str,
    kind: u8,
    (start, end): (u128, u128),
    about: &[Value],
    error: Option<&str>,
) -> Value {
    let mut span = json!({
        "traceId": format!("{trace_id:032x}"),
        "spanId": format!("{id:016x}"),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": start.to_string(),
        "endTimeUnixNano": end.to_string(),
        "attributes": about,
    });
    if let Some(parent) = parent {
        span["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    if let Some(error) = error {
        span["status"] = json!({"code": FAILED, "message": error});
    }
    span
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

fn nanoseconds(at: Timestamp) -> u128 {
    u128::try_from(at.as_nanosecond()).unwrap_or_default()
}

/// The id of a part of a span. It follows from the span's, spread out so that
/// neighbours do not meet.
fn child(span: u64, part: u64) -> u64 {
    let mut mixed = span ^ (part + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass::{CallId, Caller};

    use super::*;

    #[test]
    fn parts_of_spans_have_ids_of_their_own() {
        let ids: std::collections::HashSet<u64> =
            (0..64).flat_map(|span| (0..64).map(move |part| child(span, part))).collect();
        assert_eq!(ids.len(), 64 * 64);
    }

    /// A call that was tried three times.
    fn tried() -> CallSpan {
        let caller = Caller { conversation: Some("c".into()), ..Caller::default() };
        CallSpan {
            id: CallId::at(Timestamp::UNIX_EPOCH),
            trace_id: 7,
            parent: None,
            tool: "t".into(),
            caller: caller.into(),
            status: "failed",
            error: Some("timeout"),
            attempts: 3,
            began: Timestamp::UNIX_EPOCH,
            queue_wait: Duration::from_nanos(10),
            run_time: Duration::from_nanos(100),
            failed: vec![
                ("upstream_error", Duration::from_nanos(20), Duration::from_nanos(5)),
                ("upstream_error", Duration::from_nanos(30), Duration::from_nanos(5)),
            ],
        }
    }

    #[test]
    fn every_attempt_is_a_span_and_waits_are_between_them() {
        let mut spans = Vec::new();
        of_call(&tried(), &Engine::builder().build().unwrap(), &mut spans);
        let told: Vec<(&str, &str, &str)> = (spans.iter())
            .map(|span| {
                let text = |key| span[key].as_str().unwrap_or_default();
                (text("name"), text("startTimeUnixNano"), text("endTimeUnixNano"))
            })
            .collect();
        assert_eq!(
            told,
            [
                ("windlass.call", "0", "110"),
                ("windlass.queue", "0", "10"),
                ("windlass.run", "10", "30"),
                ("windlass.run", "35", "65"),
                ("windlass.run", "70", "110"),
            ]
        );
        assert_eq!(spans[0].get("parentSpanId"), None, "it begins a trace");
        assert!(spans[1..].iter().all(|span| span["parentSpanId"] == spans[0]["spanId"]));
        assert_eq!(spans[4]["status"]["message"], "timeout");
    }

    #[test]
    fn times_are_whole_nanoseconds() {
        let at = Timestamp::from_microsecond(1_700_000_000_000_001).unwrap_or_default();
        assert_eq!(
            nanoseconds(at) + Duration::from_micros(1).as_nanos(),
            1_700_000_000_000_002_000
        );
    }
}
