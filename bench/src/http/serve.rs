//! `windlass serve` in a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use serde_json::Value;

/// A server on a free port of this machine.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
}

impl Server {
    /// Starts one in this folder, which had none before: only the first start
    /// shows a key.
    pub(crate) fn start(project: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(program()?)
            .args(["serve", "--json", "--quiet", "--listen", "127.0.0.1:0", "--project"])
            .arg(project)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let said: Value = serde_json::from_str(&first_line(&mut child)?)?;
        let text = |name: &str| said[name].as_str().with_context(|| format!("no `{name}`: {said}"));
        let address = text("listening")?.trim_start_matches("http://").parse()?;
        Ok(Self { child, address, key: text("admin_key")?.to_owned() })
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The memory that it holds, in KB.
    pub(crate) fn resident_kb(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let kilobytes = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse().ok());
        kilobytes.unwrap_or_default()
    }

    /// A call, as bytes to be sent.
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

    /// A question, as bytes to be sent.
    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            self.address, self.key,
        )
        .into_bytes()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, which `cargo xtask bench` builds with this one.
fn program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("windlass");
    anyhow::ensure!(program.is_file(), "{}: run `cargo xtask bench`", program.display());
    Ok(program)
}

/// What a process says first.
pub(crate) fn first_line(child: &mut Child) -> anyhow::Result<String> {
    let output = child.stdout.take().context("its output goes elsewhere")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    anyhow::ensure!(!line.is_empty(), "a server ended before it began to serve");
    Ok(line.trim_end().to_owned())
}
