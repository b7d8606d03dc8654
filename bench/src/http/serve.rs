//! `windlass serve` in a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::Value;

use crate::process::Process;

/// A server on a free loopback port.
pub(crate) struct Server {
    process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
}

impl Server {
    /// Starts a server in a new folder: only the first start prints an API key.
    pub(crate) fn start(project: &Path) -> anyhow::Result<Self> {
        let (process, address, said) = spawn(project)?;
        let key = said["admin_key"].as_str().with_context(|| format!("no key: {said}"))?;
        Ok(Self { process, address, key: key.to_owned() })
    }

    /// Starts one in a folder that had one before, with this key.
    pub(crate) fn again(project: &Path, key: &str) -> anyhow::Result<Self> {
        let (process, address, _) = spawn(project)?;
        Ok(Self { process, address, key: key.to_owned() })
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its resident memory in KB.
    pub(crate) fn resident_kb(&self) -> f64 {
        self.process.resident_kb()
    }

    /// A request for a call, as bytes.
    pub(crate) fn call(&self, body: &Value) -> Vec<u8> {
        let body = body.to_string();
        format!(
            "POST /v1/calls HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.key,
            body.len(),
        )
        .into_bytes()
    }

    /// A `GET` request, as bytes.
    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            self.address, self.key,
        )
        .into_bytes()
    }
}

/// Starts the program; its address, and what it says first.
fn spawn(project: &Path) -> anyhow::Result<(Process, SocketAddr, Value)> {
    let mut command = Command::new(program()?);
    command
        .args(["serve", "--json", "--quiet", "--listen", "127.0.0.1:0", "--project"])
        .arg(project)
        .stderr(Stdio::null());
    let (process, said) = Process::start_and_hear(&mut command)?;
    let said: Value = serde_json::from_str(&said)?;
    let address = said["listening"].as_str().with_context(|| format!("no address: {said}"))?;
    let address = address.trim_start_matches("http://").parse()?;
    Ok((process, address, said))
}

/// The program, which `cargo xtask bench` builds with this one.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("windlass");
    anyhow::ensure!(program.is_file(), "{}: run `cargo xtask bench`", program.display());
    Ok(program)
}
