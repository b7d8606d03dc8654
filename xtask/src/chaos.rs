//! `cargo xtask chaos`: chaos test, in which a process under load is killed again and
//! again.

use anyhow::{Context, bail};

use crate::run::{cargo, must};

const TEST: &str = "chaos::a_process_that_is_killed_loses_nothing_and_repeats_nothing";

/// Runs the chaos test for longer than the test suite does.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let (mut kills, mut minutes) = (200_u32, 10_f64);
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{name} needs a number"))?;
        match name.as_str() {
            "--kills" => kills = value.parse().with_context(|| format!("--kills {value}"))?,
            "--minutes" => minutes = value.parse().with_context(|| format!("--minutes {value}"))?,
            unknown => bail!("there is no option `{unknown}`; use --kills N and --minutes N"),
        }
    }
    let seconds = (minutes * 60.0).max(1.0) as u32;
    println!("{kills} kills in about {minutes} minutes");
    must(
        cargo(&["test", "--package", "windlass-store", "--test", "it", "--"])
            .args(["--exact", "--nocapture", TEST])
            .env("WINDLASS_CHAOS_KILLS", kills.to_string())
            .env("WINDLASS_CHAOS_SECONDS", seconds.to_string()),
    )
}
