//! Prism (Stoplight, npm): a mock server for API documents, which rejects invalid
//! requests. The test that uses it belongs to the executors.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::run::{cargo, must, root, watched};

/// The version whose false positives are known.
const VERSION: &str = "5.16.0";
/// Environment variable with its location, for tests.
const VARIABLE: &str = "WINDLASS_TEST_PRISM";

/// Runs the tests that use Prism, and returns their number.
pub(super) fn run() -> anyhow::Result<u64> {
    let program = installed()?;
    let words = ["test", "--quiet", "--package", "windlass-executors", "--test", "it"];
    let mut command = cargo(&words);
    command.args(["rest::prism", "--", "--ignored", "--nocapture"]).env(VARIABLE, program);
    let mut passed = 0;
    let fine = watched(&mut command, |line| {
        let count = line.strip_prefix("test result: ok. ").and_then(|rest| rest.split(' ').next());
        passed = count.and_then(|count| count.parse().ok()).unwrap_or(passed);
    })?;
    ensure!(fine, "Prism refuses requests, or does not run");
    ensure!(passed > 0, "no test asked Prism");
    Ok(passed)
}

/// The program, in a folder under `target`.
fn installed() -> anyhow::Result<PathBuf> {
    let folder = root().join("target/prism");
    let modules = folder.join("node_modules");
    let about = modules.join("@stoplight/prism-cli/package.json");
    let is_there = std::fs::read_to_string(about)
        .is_ok_and(|text| text.contains(&format!("\"version\": \"{VERSION}\"")));
    if !is_there {
        println!("installing Prism {VERSION} into target/prism");
        std::fs::create_dir_all(&folder)?;
        must(
            Command::new("npm")
                .args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"])
                .arg(&folder)
                .arg(format!("@stoplight/prism-cli@{VERSION}")),
        )
        .context("Prism cannot be installed (needs npm)")?;
    }
    Ok(modules.join(".bin/prism"))
}
