//! A command from its start to its exit: what the processor does for it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::http::program;
use crate::report::Figure;

const RUNS: u32 = 60;
const LIMIT_MS: f64 = 25.0;
/// Linux counts the time of processes in hundredths of a second, whatever the kernel.
const TICK_MS: f64 = 10.0;

/// Measures `windlass call calculator`, which needs neither a server nor tools of its own.
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    // The first run creates the database.
    call(folder.path())?;
    let before = of_children()?;
    for _ in 0..RUNS {
        call(folder.path())?;
    }
    let each = (of_children()? - before) / f64::from(RUNS);
    Ok(vec![Figure::new("`windlass call`, CPU / 25 ms", "ms", each, LIMIT_MS).at_most(1.0)])
}

fn call(project: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(program()?);
    command.args(["call", "calculator", r#"{"expression": "1+2"}"#, "--project"]).arg(project);
    let output = command.stderr(Stdio::null()).output()?;
    ensure!(output.stdout == b"3\n", "{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// CPU time of all children that have ended, in milliseconds.
fn of_children() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program, which is in brackets, may have spaces.
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat has another form")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    let (user, system) = ticks(13).zip(ticks(14)).context("no times in /proc/self/stat")?;
    Ok((user + system) * TICK_MS)
}
