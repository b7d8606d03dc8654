//! A call of the tool as bytes, the same for every server.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;

use crate::http::Connection;

const SAID: &str = "Is anybody there?";
/// How long a server may take until it answers calls.
const PATIENCE: Duration = Duration::from_secs(30);

/// A call of a tool that says what it was told. The newer era needs no session,
/// so one request is as good as another.
pub(super) fn call(address: SocketAddr, tool: &str, key: &str) -> Vec<u8> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": {"message": SAID}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let body = body.to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len(),
    )
    .into_bytes()
}

/// Waits until a server gives the right answer, so that nobody measures how
/// quickly it fails.
pub(super) async fn answered(address: SocketAddr, request: &[u8]) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let said = ask(address, request).await;
        if matches!(&said, Ok(said) if said.contains(SAID) && !said.contains("\"isError\":true")) {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "no answer of {address}: {said:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn ask(address: SocketAddr, request: &[u8]) -> anyhow::Result<String> {
    let mut connection = Connection::open(address).await?;
    let answer = connection.ask(request).await?;
    Ok(String::from_utf8_lossy(connection.body(answer)).into_owned())
}
