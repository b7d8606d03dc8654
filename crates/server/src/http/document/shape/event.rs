//! Schemas of server-sent events: of a call, a batch, a turn, an agent's run, and of
//! the event stream.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};
use windlass::{Caller, Content, ResultView, Status, Violation};

use super::{id, sent, time};
use crate::http::routes::agents::RunDoc;
use crate::http::routes::turns::TurnDoc;

/// An object with these properties, all of them required.
fn all(properties: &Value) -> Schema {
    let names: Vec<&str> =
        properties.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    schemars::json_schema!({"type": "object", "required": names, "properties": properties})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

/// What stands in the place of events that a reader was too slow for.
fn gap() -> (&'static str, Schema) {
    ("gap", all(&json!({"missed": count()})))
}

fn number() -> Value {
    json!({"type": "number"})
}

/// The stream of one call: `started`, `progress` and `retried` as they come,
/// then one `result`.
pub(crate) struct CallEventDoc;

impl JsonSchema for CallEventDoc {
    fn schema_name() -> Cow<'static, str> {
        "CallEvent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let retried = json!({"attempt": count(), "error": text(), "delay": number()});
        let events = [
            ("started", all(&json!({"call_id": id(generator)}))),
            ("progress", generator.subschema_for::<Content>()),
            ("retried", all(&retried)),
            gap(),
            ("result", generator.subschema_for::<ResultView<'static>>()),
        ];
        sent(&events)
    }
}

/// The stream of a batch: `batch`, then what happens to its calls, then
/// `results`.
pub(crate) struct BatchEventDoc;

impl JsonSchema for BatchEventDoc {
    fn schema_name() -> Cow<'static, str> {
        "BatchEvent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let results = generator.subschema_for::<ResultView<'static>>();
        let results = json!({"type": "array", "items": results});
        let mut events = of_batch(generator);
        let all = all(&json!({"batch_id": id(generator), "results": results}));
        events.push(("results", all));
        sent(&events)
    }
}

/// The stream of a turn: that of its batch, then `turn`; `broken` where the
/// model's message broke off.
pub(crate) struct TurnEventDoc;

impl JsonSchema for TurnEventDoc {
    fn schema_name() -> Cow<'static, str> {
        "TurnEvent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut events = of_batch(generator);
        events.push(("broken", all(&json!({"error": text()}))));
        events.push(("turn", generator.subschema_for::<TurnDoc>()));
        sent(&events)
    }
}

/// The stream of an agent's run: `run`, then its words and what happens to the
/// calls that it makes, then `result`.
pub(crate) struct RunEventDoc;

impl JsonSchema for RunEventDoc {
    fn schema_name() -> Cow<'static, str> {
        "RunEvent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut events = of_batch(generator);
        events.remove(0);
        let run = all(&json!({"run_id": text(), "call_id": id(generator)}));
        events.insert(0, ("run", run));
        let said = all(&json!({"agentName": text(), "run_id": text(), "text": text()}));
        events.push(("text", said.clone()));
        events.push(("restart", said));
        events.push(("result", generator.subschema_for::<RunDoc>()));
        sent(&events)
    }
}

/// The queue of a batch, for a front end.
fn of_batch(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
    let of = |what: &str, name: &str, more: Value| {
        let mut event = json!({"type": {"const": name}, what: text(), "toolUseId": text()});
        for (name, schema) in more.as_object().into_iter().flatten() {
            event[name] = schema.clone();
        }
        all(&event)
    };
    let of_tool = |name: &str, more: Value| of("toolName", name, more);
    let of_agent = |name: &str, more: Value| of("agentName", name, more);
    let ended = json!({"durationMs": count(), "success": {"type": "boolean"}});
    let turn = json!({"turn": count(), "maxTurns": count()});
    vec![
        ("batch", all(&json!({"batch_id": id(generator)}))),
        ("tool_queued", of_tool("tool_queued", json!({"position": count()}))),
        ("tool_started", of_tool("tool_started", json!({}))),
        ("tool_completed", of_tool("tool_completed", ended.clone())),
        ("tool_error", of_tool("tool_error", json!({"error": text()}))),
        ("agent_started", of_agent("agent_started", json!({}))),
        ("agent_progress", of_agent("agent_progress", turn)),
        ("agent_completed", of_agent("agent_completed", ended)),
        ("queue_drained", all(&json!({"type": {"const": "queue_drained"}}))),
        gap(),
    ]
}

/// The call that an event is about.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EventCall")]
struct CallDoc {
    /// The type of the event; the same as its SSE name.
    event_type: String,
    /// When.
    #[schemars(schema_with = "time")]
    at: String,
    #[schemars(schema_with = "id")]
    call_id: String,
    /// The id that the model gave the call.
    call_ref: Option<String>,
    tool_name: String,
    #[serde(flatten)]
    caller: Caller,
}

/// An event about tools.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EventTool")]
struct ToolEventDoc {
    /// The type of the event; the same as its SSE name.
    event_type: String,
    /// When.
    #[schemars(schema_with = "time")]
    at: String,
    /// The tool.
    tool_name: Option<String>,
    /// The file or folder.
    source: Option<String>,
    /// How many tools there are now.
    tools: Option<u64>,
    /// How many files could not be read.
    errors: Option<u64>,
    /// Where and why a file could not be read.
    error: Option<String>,
    /// The tenant that it belongs to; shared by all if missing.
    tenant_id: Option<String>,
    /// How many events the server itself missed, because it lagged behind.
    count: Option<u64>,
}

/// An event of the event stream.
pub(crate) struct FollowedEventDoc;

impl JsonSchema for FollowedEventDoc {
    fn schema_name() -> Cow<'static, str> {
        "FollowedEvent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let call = generator.subschema_for::<CallDoc>();
        let of_call = |more: Value| match more.as_object().is_some_and(serde_json::Map::is_empty) {
            true => call.clone(),
            false => schemars::json_schema!({"allOf": [call, all(&more)]}),
        };
        let violations = generator.subschema_for::<Violation>();
        let violations = json!({"type": "array", "items": violations});
        let progress = generator.subschema_for::<Content>();
        let status = generator.subschema_for::<Status>();
        let caller = generator.subschema_for::<Caller>();
        let batch = id(generator);
        let drained = all(&json!({"batch_id": batch, "calls": count(), "at": time(generator)}));
        let retried = json!({
            "attempt": count(), "error_kind": text(), "error": text(), "delay": number(),
        });
        let failed = json!({
            "status": status, "error_kind": text(), "error": text(), "execution_time": number(),
        });
        let gap = json!({"after": text(), "kept_from": text(), "newest": text()});
        let mut events = vec![
            ("tool_queued", of_call(json!({"batch_id": batch, "position": count()}))),
            ("queue_drained", schemars::json_schema!({"allOf": [caller, drained]})),
            ("validation_error", of_call(json!({"errors": violations}))),
            ("approval_requested", of_call(json!({"reason": text()}))),
            ("approval_decided", of_call(json!({"approved": {"type": "boolean"}}))),
            ("execution_started", of_call(json!({}))),
            ("execution_retried", of_call(retried)),
            ("execution_progress", of_call(json!({"progress": progress}))),
            ("execution_completed", of_call(json!({"execution_time": number()}))),
            ("execution_failed", of_call(failed)),
            ("gap", all(&gap)),
        ];
        let tool = generator.subschema_for::<ToolEventDoc>();
        let of_tools = ["tool_loaded", "tool_added", "tool_updated", "tool_removed"];
        let of_files = ["reload_started", "reload_completed", "load_error", "missed"];
        events.extend(of_tools.iter().chain(&of_files).map(|name| (*name, tool.clone())));
        sent(&events)
    }
}
