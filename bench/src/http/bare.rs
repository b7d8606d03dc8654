//! The base of the figures: an axum handler that parses a body and gives it
//! back, and nothing else.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use axum::routing::post;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use serde_json::Value;
use tokio::net::TcpListener;

use super::BARE;
use super::serve::first_line;

/// Such a server in a process of its own.
pub(crate) struct Bare {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Bare {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let mut child =
            Command::new(std::env::current_exe()?).arg(BARE).stdout(Stdio::piped()).spawn()?;
        let address = first_line(&mut child)?.parse()?;
        Ok(Self { child, address })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is such a server, until it is killed. It has the runtime of `windlass serve`.
pub(crate) fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        println!("{}", listener.local_addr()?);
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let echo = post(async |Json(body): Json<Value>| Json(body));
        Ok(axum::serve(listener, Router::new().route("/v1/calls", echo)).await?)
    })
}
