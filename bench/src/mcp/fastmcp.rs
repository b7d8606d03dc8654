//! The competitor: FastMCP, run as its documentation recommends for stateless servers.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::Value;

use crate::process::Process;

/// Environment variable with its installation by `cargo xtask bench`.
const VARIABLE: &str = "WINDLASS_TEST_MCP";

const SERVER: &str = r#"
import sys
from fastmcp import FastMCP

server = FastMCP("echo")

@server.tool
def echo(message: str) -> str:
    """Says what it was told."""
    return message
"#;

const PROXY: &str = r#"
import json
import sys
from fastmcp.server import create_proxy

server = create_proxy(json.loads(sys.argv[2]), name="proxy")
"#;

const RUN: &str = r#"
server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False,
           log_level="error", stateless_http=True, json_response=True)
"#;

/// FastMCP in a process of its own.
pub(super) struct FastMcp {
    _process: Process,
    pub(super) address: SocketAddr,
}

impl FastMcp {
    /// A server with the same tool.
    pub(super) fn server() -> anyhow::Result<Self> {
        Self::start(SERVER, &[])
    }

    /// A proxy for these servers.
    pub(super) fn proxy(servers: &Value) -> anyhow::Result<Self> {
        Self::start(PROXY, &[servers.to_string()])
    }

    fn start(script: &str, arguments: &[String]) -> anyhow::Result<Self> {
        let folder = std::env::var_os(VARIABLE);
        let folder: PathBuf = folder.context("FastMCP: run `cargo xtask bench`")?.into();
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = Command::new(folder.join("py/bin/python"));
        command
            .args(["-c", &format!("{script}{RUN}")])
            .arg(address.port().to_string())
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Self { _process: Process::start(&mut command)?, address })
    }
}
