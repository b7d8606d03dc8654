//! The engine as an MCP server: calls over `/mcp`.

use std::time::Duration;

use super::fastmcp::FastMcp;
use super::{BARE, message};
use crate::http::{CONNECTIONS, Load, Server, client_runtime, closed_loop, median};
use crate::process::OwnServer;
use crate::report::Figure;

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_millis(500);

/// Measures calls with API key, validation, limits and records in SQLite.
pub(super) fn run() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(folder.path())?;
    let bare = OwnServer::start(BARE)?;
    let peer = FastMcp::server()?;
    let runtime = client_runtime()?;
    let contenders = [
        (server.address, message::call(server.address, "echo", &server.key)),
        (bare.address, message::call(bare.address, "echo", "none")),
        (peer.address, message::call(peer.address, "echo", "none")),
    ];
    let mut loads: [Vec<Load>; 3] = Default::default();
    runtime.block_on(async {
        for (address, request) in &contenders {
            message::answered(*address, request).await?;
            closed_loop(*address, request, CONNECTIONS, WARM_UP).await?;
        }
        for _ in 0..ROUNDS {
            for ((address, request), loads) in contenders.iter().zip(&mut loads) {
                loads.push(closed_loop(*address, request, CONNECTIONS, ROUND).await?);
            }
        }
        anyhow::Ok(())
    })?;
    let [own, bare, peer] = loads.map(|loads| median(loads.iter().map(Load::per_second)));
    Ok(vec![
        Figure::new("call over /mcp / bare rmcp", "req/s", own, bare).at_least(0.7),
        Figure::new("call over /mcp / FastMCP", "req/s", own, peer).at_least(10.0),
    ])
}
