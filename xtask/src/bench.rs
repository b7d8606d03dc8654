//! `cargo xtask bench`: builds the benchmarks as they should be and runs them.

use crate::run::{cargo, must};

/// Runs the named benchmarks, or all.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut command =
        cargo(&["run", "--quiet", "--profile", "bench", "--package", "windlass-bench", "--"]);
    must(command.args(arguments))
}
