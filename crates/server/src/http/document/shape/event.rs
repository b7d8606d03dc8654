//! Schemas of server-sent events: of a call, a batch, a turn, an agent's run, and of
//! the event stream.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};
use windlass::{Content, EventBody, ResultView};

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

/// The stream of one call: `started`, `progress` and `retried` as they come,
/// then one `result`.
pub(crate) struct CallEventDoc;

impl JsonSchema for CallEventDoc {
    fn schema_name() -> Cow<'static, str> {
        "CallEvent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let retried = json!({"attempt": count(), "error": text(), "delay": {"type": "number"}});
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

/// What is told of the steps of a workflow. What else each says depends on the
/// step: `kind`, `tool`, `error`, `wait`, `done`, `of`.
const STEP_EVENTS: [&str; 8] = [
    "step_started",
    "step_completed",
    "step_skipped",
    "step_failed",
    "map_progress",
    "waiting",
    "undoing",
    "undo_failed",
];

/// The stream of a run: `run`, then the words of agents, the steps of workflows
/// and what happens to the calls that are made, then `result`.
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
        for name in STEP_EVENTS {
            let step = json!({"event": {"const": name}, "run": text(), "step": text()});
            let mut step = all(&step);
            step.insert("additionalProperties".to_owned(), true.into());
            events.push((name, step));
        }
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

/// An event of the event stream: an event of the engine with the time at which it
/// happened, or a gap.
pub(crate) struct FollowedEventDoc;

impl JsonSchema for FollowedEventDoc {
    fn schema_name() -> Cow<'static, str> {
        "FollowedEvent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        // Not a reference: each type of event is an SSE event of its own.
        let body = json!(EventBody::json_schema(generator));
        let types = body["oneOf"].as_array().cloned().unwrap_or_default();
        let mut events: Vec<(String, Schema)> =
            types.into_iter().filter_map(|one| with_time(one, generator)).collect();
        let gap = json!({"after": text(), "kept_from": text(), "newest": text()});
        events.push(("gap".to_owned(), all(&gap)));
        sent(&events)
    }
}

/// The name of an event's type, and its schema with `at`.
fn with_time(mut schema: Value, generator: &mut SchemaGenerator) -> Option<(String, Schema)> {
    let name = schema["properties"]["event_type"]["const"].as_str()?.to_owned();
    schema["properties"]["at"] = json!(time(generator));
    schema["required"].as_array_mut()?.push("at".into());
    Some((name, Schema::try_from(schema).ok()?))
}
