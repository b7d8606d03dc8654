//! Schemas of answers that no single Rust type serializes: events, calls in any
//! state, approval rules, tools. Types of the engine derive theirs.

mod event;
mod record;
mod rules;
mod tool;

pub(crate) use event::{BatchEventDoc, CallEventDoc, FollowedEventDoc, RunEventDoc, TurnEventDoc};
pub(crate) use record::{CallState, LimitMetricsDoc};
pub(crate) use rules::RulesDoc;
pub(crate) use tool::{FieldDoc, ToolDoc};

use schemars::{Schema, SchemaGenerator};
use serde_json::json;

use crate::http::routes::context::MAX_NAME;

/// A time, such as `2026-01-31T12:00:00Z`.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "format": "date-time"})
}

/// A time that may be missing.
pub(crate) fn maybe_time(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": ["string", "null"], "format": "date-time"})
}

/// An id, as a UUID.
pub(crate) fn id(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "format": "uuid"})
}

/// An id that may be missing.
pub(crate) fn maybe_id(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": ["string", "null"], "format": "uuid"})
}

/// Any JSON object.
pub(crate) fn object(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "object", "additionalProperties": true})
}

/// A name that a request gives: it is kept, so it has a length, and no control
/// characters.
pub(crate) fn name(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": ["string", "null"], "minLength": 1, "maxLength": MAX_NAME, "pattern": PLAIN,
    })
}

/// The key of a call.
pub(crate) fn idempotency_key(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": ["string", "null"],
        "minLength": 1,
        "maxLength": windlass::IdempotencyKey::MAX_BYTES,
        "pattern": PLAIN,
    })
}

/// Texts without control characters.
pub(crate) const PLAIN: &str = r"^[^\u0000-\u001f\u007f-\u009f]*$";

/// One server-sent event, as a document before OpenAPI 3.2 describes a stream:
/// the schema stands for each event of it. Any stream ends with `end` where its
/// key stops working.
fn sent<N: AsRef<str>>(data: &[(N, Schema)]) -> Schema {
    let one = |name: &str, data: &Schema| {
        json!({
            "type": "object",
            "properties": {
                "event": {"const": name},
                "id": {"type": "string"},
                "data": {
                    "type": "string",
                    "contentMediaType": "application/json",
                    "contentSchema": data,
                },
            },
            "required": ["event", "data"],
        })
    };
    let end = schemars::json_schema!({
        "type": "object", "required": ["reason"], "properties": {"reason": {"type": "string"}},
    });
    let events = data.iter().map(|(name, data)| one(name.as_ref(), data));
    let events: Vec<_> = events.chain([one("end", &end)]).collect();
    schemars::json_schema!({"oneOf": events})
}
