//! Child processes that are killed when dropped: the servers under test, and their
//! baselines.

use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

/// A process that is killed when it is dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        Ok(Self(command.spawn()?))
    }

    /// Starts it and reads its first line of output.
    pub(crate) fn start_and_hear(command: &mut Command) -> anyhow::Result<(Self, String)> {
        let mut process = Self::start(command.stdout(Stdio::piped()))?;
        let output = process.0.stdout.take().context("its output goes elsewhere")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        anyhow::ensure!(!line.is_empty(), "a server ended before it began to serve");
        Ok((process, line.trim_end().to_owned()))
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Its resident memory in KB.
    pub(crate) fn resident_kb(&self) -> f64 {
        resident_kb(self.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Resident memory of a process in KB, by its id or `self`.
pub(crate) fn resident_kb(process: impl Display) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN)
}

/// This program as a server, in a process of its own.
pub(crate) struct OwnServer {
    _process: Process,
    pub(crate) address: SocketAddr,
}

impl OwnServer {
    /// Starts the server that this argument selects.
    pub(crate) fn start(argument: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let (process, address) = Process::start_and_hear(command.arg(argument))?;
        Ok(Self { _process: process, address: address.parse()? })
    }
}

/// Runs such a server until it is killed, on the same runtime as `windlass serve`.
pub(crate) fn serve(router: Router) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        println!("{}", listener.local_addr()?);
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        Ok(axum::serve(listener, router).await?)
    })
}
