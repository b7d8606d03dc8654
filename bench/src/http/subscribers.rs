//! Cost of idle event subscribers: memory, and response times of concurrent calls.

use std::time::Duration;

use super::calls::{body, median};
use super::client::{Connection, Load, closed_loop};
use super::serve::Server;
use super::{CONNECTIONS, client_runtime};
use crate::report::Figure;

const READERS: usize = 1_000;
const MAX_KB: f64 = 30.0;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(2);
const SETTLE: Duration = Duration::from_millis(500);

/// Measures a thousand subscribers, each of its own conversation, while another one
/// follows all events.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(folder.path())?;
    client_runtime()?.block_on(async {
        let follower = reader(&server, "/v1/events").await?;
        let follower = tokio::spawn(follower.read_on());
        let request = server.call(&body());
        let load = || closed_loop(server.address, &request, CONNECTIONS, ROUND);
        load().await?;
        let (mut alone, mut beside, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            alone.push(load().await?);
            tokio::time::sleep(SETTLE).await;
            let before = server.resident_kb();
            let mut readers = Vec::new();
            for at in 0..READERS {
                let path = format!("/v1/events?conversation_id=quiet-{round}-{at}");
                readers.push(reader(&server, &path).await?);
            }
            tokio::time::sleep(SETTLE).await;
            memory.push((server.resident_kb() - before) / READERS as f64);
            beside.push(load().await?);
        }
        anyhow::ensure!(!follower.is_finished(), "the one who follows was cut off");
        let p99 = |loads: &[Load]| median(loads.iter().map(Load::p99));
        // Later rounds reuse memory that earlier ones have freed.
        let memory = memory.first().copied().unwrap_or(f64::NAN);
        Ok(vec![
            Figure::new("memory of an idle reader / 30 KB", "KB", memory, MAX_KB).at_most(1.0),
            Figure::new("calls' p99, 1,000 readers / none", "ms", p99(&beside), p99(&alone))
                .at_most(1.2),
        ])
    })
}

/// A connection that receives events.
async fn reader(server: &Server, path: &str) -> anyhow::Result<Connection> {
    let mut connection = Connection::open(server.address).await?;
    let answer = connection.ask(&server.get(path)).await?;
    anyhow::ensure!(answer.status == 200, "no events: {}", answer.status);
    Ok(connection)
}
