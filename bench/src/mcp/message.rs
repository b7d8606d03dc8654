//! A `tools/call` as bytes, the same for every server.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;

use crate::http::Connection;

const SAID: &str = "Is anybody there?";
/// How long a server may take to become ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// A call of the echo tool. The stateless era needs no session, so the same request can
/// be repeated.
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

/// Waits for a correct response, so that no quick failure is measured.
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
