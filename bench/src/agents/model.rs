//! A scripted model in a process of its own. It takes a second for its first token, so
//! that all runs are in flight at once.

use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::process;

/// The argument that turns this program into the model.
pub(crate) const MODEL: &str = "--scripted-model";
const THINKS: Duration = Duration::from_secs(1);

/// Runs the model until it is killed.
pub(crate) fn serve() -> anyhow::Result<()> {
    process::serve(Router::new().route("/v1/messages", post(answer)))
}

async fn answer(Json(request): Json<Value>) -> impl IntoResponse {
    tokio::time::sleep(THINKS).await;
    let (block, delta) = match request["messages"].as_array().map_or(0, Vec::len) {
        1 => (
            json!({"type": "tool_use", "id": "toolu_1", "name": "get_it", "input": {}}),
            json!({"type": "input_json_delta", "partial_json": "{}"}),
        ),
        _ => (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": "Done."})),
    };
    let events = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 100}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ];
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    ([(CONTENT_TYPE, "text/event-stream")], body)
}
