//! Questions of users and the functions that answer them: the data of the Berkeley
//! Function-Calling Leaderboard, installed once under `target`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::run::{must, once, root};

/// The PyPI package that carries the data, and the version that limits are set for.
const PACKAGE: &str = "bfcl-eval==2026.3.23";
/// Environment variable with the folder, for the benchmark.
const VARIABLE: &str = "WINDLASS_BENCH_BFCL";

/// Sets the environment variable of a command, and installs the data if it is missing.
pub(crate) fn tell(command: &mut Command) -> anyhow::Result<()> {
    command.env(VARIABLE, installed().context("the data of BFCL (needs python3 with pip)")?);
    Ok(())
}

fn installed() -> anyhow::Result<PathBuf> {
    let place = root().join("target/bfcl");
    once(&place, &[PACKAGE], || {
        // The data alone: the package wants hundreds of others to run models.
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target"]);
        must(install.arg(&place).arg(PACKAGE))
    })?;
    Ok(place.join("bfcl_eval/data"))
}
