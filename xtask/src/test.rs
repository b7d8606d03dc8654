//! `cargo xtask test`: all checks and tests that must pass before a merge.

use std::time::Instant;

use crate::mcp::Programs;
use crate::postgres::Postgres;
use crate::run::{cargo, must, root, watched};
use crate::{cel, clients, docs, schemathesis, sdks, upstreams};

/// Runs everything, and ends with one line of counts.
pub(crate) fn run() -> anyhow::Result<()> {
    let start = Instant::now();
    step("formatting");
    must(&mut cargo(&["fmt", "--all", "--check"]))?;
    step("lints");
    must(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    step("rustdoc");
    must(
        cargo(&["doc", "--no-deps", "--workspace", "--exclude", "windlass-bench"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    step("tests");
    let mut counts = Counts::default();
    let postgres = Postgres::start()?;
    let programs = Programs::installed()?;
    let mut command =
        cargo(&["test", "--workspace", "--exclude", "windlass-bench", "--no-fail-fast"]);
    let tested = watched(programs.tell(postgres.tell(&mut command)), |line| counts.read(line))?;
    drop(postgres);
    step("requests made up from our OpenAPI document");
    schemathesis::run(schemathesis::SHORT)?;
    step("clients made from our OpenAPI document");
    clients::run()?;
    step("real upstreams");
    // Ignored above, because they need what this installs.
    let late = upstreams::run()?;
    counts.passed += late;
    counts.ignored = counts.ignored.saturating_sub(late);
    step("examples");
    for example in examples()? {
        must(&mut cargo(&[
            "run",
            "--quiet",
            "--profile",
            "test",
            "--package",
            "windlass-examples",
            "--bin",
            &example,
        ]))?;
    }
    step("conformance tests of CEL");
    cel::run()?;
    step("types of the SDKs");
    sdks::run()?;
    step("reference pages");
    docs::run(true)?;
    println!("\nall checks took {} s", start.elapsed().as_secs());
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.ignored);
    anyhow::ensure!(tested && counts.failed == 0, "tests failed");
    anyhow::ensure!(counts.passed > 0, "no test ran");
    Ok(())
}

fn step(name: &str) {
    println!("\n=== {name}");
}

/// The names of the examples, all of which are run.
fn examples() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root().join("examples/src/bin"))? {
        let path = entry?.path();
        let is_program = path.extension().is_some_and(|extension| extension == "rs")
            || path.join("main.rs").is_file();
        if is_program {
            names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

/// Totals of the test runner's summary lines.
#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counts {
    /// Parses `test result: ok. 12 passed; 0 failed; 1 ignored; …`.
    fn read(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test result: ") else { return };
        for part in rest.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(what)) = (words.next(), words.next()) else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}
