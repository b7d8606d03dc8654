//! A scripted model in a process of its own: it takes a second for its first
//! word, so that all runs are under way at once.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::http::first_line;

/// The argument that makes this program such a model.
pub(crate) const MODEL: &str = "--scripted-model";
const THINKS: Duration = Duration::from_secs(1);

pub(super) struct Model {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Model {
    pub(super) fn start() -> anyhow::Result<Self> {
        let mut child =
            Command::new(std::env::current_exe()?).arg(MODEL).stdout(Stdio::piped()).spawn()?;
        let address = first_line(&mut child)?.parse()?;
        Ok(Self { child, address })
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is such a model, until it is killed.
pub(crate) fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        println!("{}", listener.local_addr()?);
        Ok(axum::serve(listener, Router::new().route("/v1/messages", post(answer))).await?)
    })
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
