//! The HTTP server as clients see it: `windlass serve` in a process of its own, against a
//! bare axum server that only parses and answers, with the same client.

mod answer;
mod bare;
mod calls;
mod client;
mod offered;
mod overload;
mod processors;
mod serve;
mod start;
mod subscribers;
mod tenants;

pub(crate) use bare::serve as serve_bare;
pub(crate) use calls::{median, run as calls};
pub(crate) use client::{Connection, Load, closed_loop};
pub(crate) use overload::run as overload;
pub(crate) use serve::{Server, program};
pub(crate) use start::run as start;
pub(crate) use subscribers::run as subscribers;
pub(crate) use tenants::run as tenants;

/// The argument that turns this program into the bare server.
pub(crate) const BARE: &str = "--bare-server";
/// Connections of the closed-loop client, which sends the next request after each
/// response.
pub(crate) const CONNECTIONS: usize = 64;

/// A runtime for a client, with one thread: the server needs the others.
pub(crate) fn client_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
