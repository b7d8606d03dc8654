//! `cargo xtask bench`: builds the benchmarks with their profile and runs them.

use std::process::Command;

use anyhow::Context;

use crate::bfcl;
use crate::mcp::Programs;
use crate::run::{cargo, must};

/// The benchmarks that measure the server in a process of its own.
const OF_SERVER: [&str; 7] = ["http", "sse", "start", "command", "tenants", "overload", "mcp"];

/// Runs the named benchmarks, or all. With `--quick` they are built without
/// link-time optimisation: good for a look before and after a change, but the
/// limits are those of the full build.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let (quick, arguments): (Vec<String>, Vec<String>) =
        arguments.iter().cloned().partition(|argument| argument == "--quick");
    let profile = if quick.is_empty() { "bench" } else { "release" };
    let names = || arguments.iter().filter(|argument| !argument.starts_with("--"));
    let wants = |name: &str| names().next().is_none() || names().any(|wanted| wanted == name);
    let mut build = cargo(&["build", "--quiet", "--profile", profile, "--bins"]);
    build.args(["--package", "windlass-bench"]);
    if OF_SERVER.iter().any(|name| wants(name)) {
        build.args(["--package", "windlass-server"]);
    }
    must(&mut build)?;
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(|folder| folder.parent());
    let target = target.with_context(|| format!("{}: not in a target folder", own.display()))?;
    let mut bench = Command::new(target.join("release/windlass-bench"));
    bench.args(&arguments);
    if wants("mcp") || wants("mcp-servers") {
        Programs::installed()?.tell(&mut bench);
    }
    if wants("search-live") {
        bfcl::tell(&mut bench)?;
    }
    must(&mut bench)
}
