//! `cargo xtask bench`: builds the benchmarks with their profile and runs them.

use std::process::Command;

use anyhow::Context;

use crate::mcp::Programs;
use crate::run::{cargo, must};

/// Runs the named benchmarks, or all. The server is built as well: some measure it in a
/// process of its own.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let build = ["build", "--quiet", "--profile", "bench", "--bins"];
    must(cargo(&build).args(["--package", "windlass-bench", "--package", "windlass-server"]))?;
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(|folder| folder.parent());
    let target = target.with_context(|| format!("{}: not in a target folder", own.display()))?;
    let mut bench = Command::new(target.join("release/windlass-bench"));
    bench.args(arguments);
    if arguments.is_empty() || arguments.iter().any(|name| name == "mcp") {
        Programs::installed()?.tell(&mut bench);
    }
    must(&mut bench)
}
