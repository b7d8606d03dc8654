//! A call over HTTP, against a handler that only parses and answers.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Load, closed_loop};
use super::serve::Server;
use super::{BARE, CONNECTIONS, client_runtime};
use crate::process::OwnServer;
use crate::report::Figure;

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_millis(500);

/// A call of a read-only tool, as an agent makes it.
pub(crate) fn body() -> Value {
    json!({
        "tool": "echo",
        "arguments": {"message": "Is anybody there?"},
        "caller_id": "agent-7",
        "conversation_id": "conversation-42",
    })
}

/// Measures calls with API key, validation, limits and records in SQLite.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(folder.path())?;
    let bare = OwnServer::start(BARE)?;
    let runtime = client_runtime()?;
    let request = server.call(&body());
    let load = |address, time| runtime.block_on(closed_loop(address, &request, CONNECTIONS, time));
    for address in [bare.address, server.address] {
        load(address, WARM_UP)?;
    }
    let (mut least, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        least.push(load(bare.address, ROUND)?);
        calls.push(load(server.address, ROUND)?);
    }
    let rate = |loads: &[Load]| median(loads.iter().map(Load::per_second));
    let p99 = |loads: &[Load]| median(loads.iter().map(Load::p99));
    Ok(vec![
        Figure::new("call over HTTP / bare axum", "req/s", rate(&calls), rate(&least))
            .at_least(0.65),
        Figure::new("its p99 / bare axum's p99", "ms", p99(&calls), p99(&least)).at_most(3.0),
    ])
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
