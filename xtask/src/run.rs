//! Runs other programs from the root of the workspace.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// A cargo command.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command, and fails if it does.
pub(crate) fn must(command: &mut Command) -> anyhow::Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("{shown} does not start"))?;
    if !status.success() {
        bail!("{shown} failed: {status}");
    }
    Ok(())
}

/// Runs a command, shows its output and passes each line to a callback. Returns whether
/// it succeeded.
pub(crate) fn watched(
    command: &mut Command,
    mut each_line: impl FnMut(&str),
) -> anyhow::Result<bool> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line?;
            println!("{line}");
            each_line(&line);
        }
    }
    Ok(child.wait()?.success())
}

/// Does something unless it was done for the same packages.
pub(crate) fn once(
    place: &Path,
    packages: &[&str],
    install: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let stamp = place.join("installed");
    let wanted = packages.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|known| known == wanted) {
        return Ok(());
    }
    println!("installing {} below {}", packages.join(", "), place.display());
    fs::create_dir_all(place)?;
    install()?;
    fs::write(stamp, wanted)?;
    Ok(())
}
