//! Startup time: from the start of the program to its first response.

use std::time::Instant;

use serde_json::json;

use super::calls::median;
use super::client::Connection;
use super::client_runtime;
use super::serve::Server;
use crate::definitions;
use crate::report::Figure;

const TOOLS: usize = 1_000;
const STARTS: usize = 9;
const LIMIT: f64 = 300.0;

/// Measures startup with many tools, each time on a new database.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let runtime = client_runtime()?;
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let folder = tempfile::tempdir()?;
        definitions::write(&folder.path().join("tools"), TOOLS)?;
        let began = Instant::now();
        let server = Server::start(folder.path())?;
        let tool = definitions::name(TOOLS - 1);
        let call = server.call(&json!({"tool": tool, "arguments": {"query": "a"}}));
        runtime.block_on(async {
            let mut connection = Connection::open(server.address).await?;
            let answer = connection.ask(&call).await?;
            let body = String::from_utf8_lossy(connection.body(answer));
            anyhow::ensure!(answer.status == 200 && body.contains(&tool), "{body}");
            Ok(())
        })?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let took = median(times.into_iter());
    Ok(vec![Figure::new("start to first answer, 1,000 tools", "ms", took, LIMIT).at_most(1.0)])
}
