//! `cargo xtask sdks`: checks the messages that we write for models against the types of
//! the official SDKs of Anthropic and OpenAI.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::run::{cargo, must, root};

/// Versions whose types the script is known to read.
const SDKS: [&str; 2] = ["anthropic==2.9.0", "openai==3.51.0"];
const SCRIPT: &str = include_str!("sdks.py");

/// Writes messages and lets a Python script check them.
pub(crate) fn run() -> anyhow::Result<()> {
    let python = installed()?;
    let written = cargo(&[
        "run",
        "--quiet",
        "--profile",
        "test",
        "--package",
        "windlass",
        "--example",
        "next_messages",
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::inherit())
    .output()?;
    ensure!(written.status.success(), "no messages were written");
    let mut judge = Command::new(python).args(["-c", SCRIPT]).stdin(Stdio::piped()).spawn()?;
    let mut input = judge.stdin.take().context("the judge does not listen")?;
    // The script may exit early; its status says why.
    let _ = input.write_all(&written.stdout);
    drop(input);
    ensure!(judge.wait()?.success(), "a message does not fit the types of an SDK");
    Ok(())
}

/// Python with the SDKs, in a virtual environment under `target`.
fn installed() -> anyhow::Result<PathBuf> {
    let folder = root().join("target/model-sdks");
    let python = folder.join("bin/python");
    let there = Command::new(folder.join("bin/pip")).args(["freeze"]).output();
    let there = there.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if there.is_ok_and(|there| SDKS.iter().all(|sdk| there.lines().any(|line| line == *sdk))) {
        return Ok(python);
    }
    println!("installing {} into target/model-sdks", SDKS.join(" and "));
    must(Command::new("python3").args(["-m", "venv"]).arg(&folder))
        .context("install Python 3 with its venv module")?;
    must(Command::new(folder.join("bin/pip")).args(["install", "--quiet"]).args(SDKS))?;
    Ok(python)
}
