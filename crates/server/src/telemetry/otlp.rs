//! Spans in the JSON encoding of OTLP: ids in hexadecimal, 64-bit integers as
//! strings, enumerations as integers.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass::{Kind, Lang, Tool, TraceContext, Usage};
use windlass_executors::model::Api;

use super::span::{CallSpan, ChatSpan, FinishedSpan, McpFailure, McpSpan, McpTarget, RequestSpan};

const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
const FAILED: u8 = 2;
/// The version of OpenTelemetry's conventions that names and attributes follow.
pub(super) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";
/// Longest description of a tool, and longest name that a client chooses.
const MAX_TEXT: usize = 256;
/// What a tool's error is called where the protocol itself had none.
const TOOL_ERROR: &str = "tool_error";

/// Who sends.
pub(super) struct Resource {
    pub(super) service: String,
}

/// One request to the collector.
pub(super) fn document(resource: &Resource, batch: &[FinishedSpan]) -> Vec<u8> {
    let mut spans = Vec::with_capacity(batch.len() * 3);
    for finished in batch {
        match finished {
            FinishedSpan::Call(call) => of_call(call, &mut spans),
            FinishedSpan::Request(request) => spans.push(of_request(request)),
            FinishedSpan::Mcp(request) => spans.push(of_mcp(request)),
            FinishedSpan::Chat(chat) => spans.push(of_chat(chat)),
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    let about = [text("service.name", &resource.service), text("service.version", version)];
    let scope = json!({"name": "windlass", "version": version});
    let document = json!({"resourceSpans": [{
        "resource": {"attributes": about},
        "scopeSpans": [{"scope": scope, "spans": spans, "schemaUrl": SCHEMA}],
        "schemaUrl": SCHEMA,
    }]});
    document.to_string().into_bytes()
}

/// A call, the time that it waited for a slot, and each attempt.
fn of_call(call: &CallSpan, spans: &mut Vec<Value>) {
    let own = TraceContext::span_of(call.id);
    let began = nanoseconds(call.began);
    let run_began = began + call.queue_wait.as_nanos();
    let ended = run_began + call.run_time.as_nanos();
    let tool = call.definition.as_deref();
    let (name, mut about) = match tool {
        Some(tool) if tool.spec().kind == Kind::Agent => of_agent(call, tool),
        tool => of_tool(call, tool),
    };
    about.extend([
        text("windlass.call.id", &call.id.to_string()),
        text("windlass.tenant", call.caller.tenant.as_str()),
        text("windlass.status", call.status),
        number("windlass.attempts", call.attempts.into()),
    ]);
    about.extend(tool.map(|tool| text("windlass.kind", tool.spec().kind.name())));
    about.extend(call.error.map(|error| text("error.type", error)));
    about.extend(call.caller.conversation.as_ref().map(|it| text("gen_ai.conversation.id", it)));
    about.extend(call.caller.workflow.as_ref().map(|it| text("windlass.workflow", it)));
    let span = |id, parent, name, (start, end): (u128, u128), about: Vec<Value>, error| {
        one(call.trace_id, id, parent, name, INTERNAL, (start, end), &about, error)
    };
    spans.push(span(own, call.parent, name.as_str(), (began, ended), about, call.error));
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

/// A call of a tool: its name, and what the conventions tell of it.
fn of_tool(call: &CallSpan, tool: Option<&Tool>) -> (String, Vec<Value>) {
    let kind = tool.map(|tool| tool.spec().kind);
    // `extension` is the convention's word for a tool that calls an API on the agent's
    // side.
    let is_extension = matches!(kind, Some(Kind::Rest | Kind::Mcp));
    let mut about = vec![
        text("gen_ai.operation.name", "execute_tool"),
        text("gen_ai.tool.name", &call.tool),
        text("gen_ai.tool.type", if is_extension { "extension" } else { "function" }),
    ];
    about.extend(tool.map(|tool| text("gen_ai.tool.description", &described(tool))));
    about.extend(call.call_ref.as_ref().map(|id| text("gen_ai.tool.call.id", id)));
    // This is also the client span of the MCP request.
    about.extend((kind == Some(Kind::Mcp)).then(|| text("mcp.method.name", "tools/call")));
    if let Some((arguments, result)) = &call.content {
        about.push(text("gen_ai.tool.call.arguments", &arguments.to_string()));
        about.extend(result.as_ref().map(|result| {
            let told = result.value().map_or_else(|| result.to_text(), Value::to_string);
            text("gen_ai.tool.call.result", &told)
        }));
    }
    (format!("execute_tool {}", call.tool), about)
}

/// A run of an agent.
fn of_agent(call: &CallSpan, tool: &Tool) -> (String, Vec<Value>) {
    let model = tool.spec().entry.config.get("model").and_then(Value::as_str).unwrap_or_default();
    let (provider, model) = match model.split_once('/') {
        Some((provider, model)) => (provider, model),
        None => (Api::of_model(model).map_or("_OTHER", Api::provider), model),
    };
    let mut about = vec![
        text("gen_ai.operation.name", "invoke_agent"),
        text("gen_ai.provider.name", well_known(provider)),
        text("gen_ai.agent.name", &call.tool),
        text("gen_ai.agent.description", &described(tool)),
        text("gen_ai.request.model", model),
    ];
    about.extend(call.usage.iter().flat_map(tokens));
    if let Some((arguments, result)) = &call.content {
        let said = |role: &str, text: String| {
            json!([{"role": role, "parts": [{"type": "text", "content": text}]}]).to_string()
        };
        let asked = arguments["message"].as_str().map_or_else(|| arguments.to_string(), Into::into);
        about.push(text("gen_ai.input.messages", &said("user", asked)));
        about.extend(
            result
                .as_ref()
                .map(|result| text("gen_ai.output.messages", &said("assistant", result.to_text()))),
        );
    }
    (format!("invoke_agent {}", call.tool), about)
}

fn described(tool: &Tool) -> String {
    clipped(tool.spec().description.get(Lang::En))
}

fn clipped(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

/// A provider of models by the name that the conventions have for it.
fn well_known(provider: &str) -> &str {
    if provider == "gemini" { "gcp.gemini" } else { provider }
}

/// What models took. Tokens of a cache are input, too.
fn tokens(usage: &Usage) -> Vec<Value> {
    let input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    vec![
        number("gen_ai.usage.input_tokens", input),
        number("gen_ai.usage.output_tokens", usage.output_tokens),
        number("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
        number("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
    ]
}

/// A question to a model.
fn of_chat(chat: &ChatSpan) -> Value {
    let began = nanoseconds(chat.began);
    let mut about = vec![
        text("gen_ai.operation.name", "chat"),
        text("gen_ai.provider.name", well_known(&chat.provider)),
        text("gen_ai.request.model", &chat.model),
        number("gen_ai.request.max_tokens", chat.max_tokens),
    ];
    about.extend(chat.answered.as_ref().map(|model| text("gen_ai.response.model", model)));
    about.extend(
        chat.temperature.map(
            |heat| json!({"key": "gen_ai.request.temperature", "value": {"doubleValue": heat}}),
        ),
    );
    about.extend(chat.conversation.as_ref().map(|it| text("gen_ai.conversation.id", it)));
    about.extend(chat.usage.iter().flat_map(tokens));
    about.extend(chat.finish.map(|reason| {
        let reasons = json!({"values": [{"stringValue": reason}]});
        json!({"key": "gen_ai.response.finish_reasons", "value": {"arrayValue": reasons}})
    }));
    if let Some((host, port)) = &chat.host {
        about.extend([text("server.address", host), number("server.port", (*port).into())]);
    }
    about.extend(chat.error.map(|error| text("error.type", error)));
    let name = format!("chat {}", chat.model);
    let times = (began, began + chat.took.as_nanos());
    let parent = Some(chat.parent);
    one(chat.trace_id, chat.id, parent, &name, CLIENT, times, &about, chat.error)
}

/// A request of the Model Context Protocol.
fn of_mcp(request: &McpSpan) -> Value {
    let (began, asked) = (nanoseconds(request.began), &request.about);
    let method = asked.target.method();
    let mut about = vec![
        text("mcp.method.name", method),
        text("jsonrpc.request.id", &asked.id),
        text("network.transport", "tcp"),
        text("network.protocol.name", "http"),
    ];
    about.extend(asked.session.as_ref().map(|id| text("mcp.session.id", id)));
    about.extend(asked.version.as_ref().map(|version| text("mcp.protocol.version", version)));
    let mut name = method.to_owned();
    match &asked.target {
        McpTarget::Tool(tool) => {
            about.push(text("gen_ai.operation.name", "execute_tool"));
            if let Some(tool) = tool {
                about.push(text("gen_ai.tool.name", tool));
                name = format!("{method} {tool}");
            }
        }
        McpTarget::Prompt(prompt) => {
            let prompt = clipped(prompt);
            about.push(text("gen_ai.prompt.name", &prompt));
            name = format!("{method} {prompt}");
        }
        // Left out of the span's name: its cardinality is too high.
        McpTarget::Resource(uri) => about.push(text("mcp.resource.uri", &clipped(uri))),
    }
    let error = request.failure.map(|failure| match failure {
        McpFailure::Tool => TOOL_ERROR.to_owned(),
        McpFailure::Protocol(code) => {
            about.push(text("rpc.response.status_code", &code.to_string()));
            code.to_string()
        }
    });
    let error = error.as_deref();
    about.extend(error.map(|error| text("error.type", error)));
    let (trace, times) = (&request.trace, (began, began + request.took.as_nanos()));
    let own = (trace.trace_id(), trace.span_id());
    let mut span = one(own.0, own.1, request.parent, &name, SERVER, times, &about, error);
    if let Some(link) = &request.link {
        let (trace, id) = (link.trace_id(), link.span_id());
        span["links"] =
            json!([{"traceId": format!("{trace:032x}"), "spanId": format!("{id:016x}")}]);
    }
    span
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
    let error = (request.status >= 500).then(|| request.status.to_string());
    about.extend(error.as_ref().map(|status| text("error.type", status)));
    let error = error.as_deref();
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
            definition: None,
            call_ref: None,
            usage: None,
            content: None,
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
        of_call(&tried(), &mut spans);
        let told: Vec<(&str, &str, &str)> = (spans.iter())
            .map(|span| {
                let text = |key| span[key].as_str().unwrap_or_default();
                (text("name"), text("startTimeUnixNano"), text("endTimeUnixNano"))
            })
            .collect();
        assert_eq!(
            told,
            [
                ("execute_tool t", "0", "110"),
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
