//! `windlass init`: creates a new project. Existing files are only overwritten with
//! `--force`; a `.gitignore` is only appended to.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::cli::exit::{Exit, Failure};
use crate::cli::options;
use crate::cli::output::{BOLD, GOOD, Screen};
use crate::cli::permissions;

/// What is written, below the project's folder.
const FILES: [(&str, &str); 3] = [
    (crate::settings::FILE, include_str!("../templates/windlass.yaml")),
    ("tools/hello.yaml", include_str!("../templates/hello.yaml")),
    ("tools/README.md", include_str!("../templates/README.md")),
];
/// The database does not belong into version control.
const IGNORED: &str = ".windlass/";

/// Create a project folder with settings and a first tool
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct InitArgs {
    /// The folder; created if it does not exist
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Overwrite files that exist
    #[arg(long)]
    force: bool,
}

fn after_help() -> String {
    options::examples(&[
        ("Here", "windlass init"),
        ("In a new folder, and try it", "windlass init my-tools && cd my-tools && windlass tools"),
    ])
}

/// Runs the command.
pub(crate) fn run(args: &InitArgs, screen: Screen) -> Result<Exit, Failure> {
    let root = &args.dir;
    let existing: Vec<&str> =
        FILES.iter().map(|(name, _)| *name).filter(|name| root.join(name).exists()).collect();
    if !existing.is_empty() && !args.force {
        let place = root.display();
        return Err(Failure::usage(format!("{place} already has {}", existing.join(", ")))
            .hint("nothing was changed; --force overwrites these files"));
    }
    for (name, text) in FILES {
        write(&root.join(name), text)?;
    }
    let ignored = ignore_database(&root.join(".gitignore"))?;
    let written: Vec<&str> =
        FILES.iter().map(|(name, _)| *name).chain(ignored.then_some(".gitignore")).collect();
    if screen.json {
        screen.document(&json!({"project": root, "written": written}))?;
        return Ok(Exit::Success);
    }
    for name in &written {
        screen.line(format_args!("{GOOD}wrote{GOOD:#} {}", root.join(name).display()))?;
    }
    screen.line(format_args!("\n{BOLD}Next:{BOLD:#}"))?;
    if root != Path::new(".") {
        screen.line(format_args!("  cd {}", root.display()))?;
    }
    screen.line("  windlass tools                   # what there is")?;
    screen.line("  windlass call hello              # call your tool")?;
    screen.line("  windlass check                   # after changing tools/hello.yaml")?;
    Ok(Exit::Success)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().map_or(Ok(()), permissions::folder);
    let written = folder.and_then(|()| {
        let mut options = permissions::file();
        options.create(true).truncate(true).open(path)?.write_all(text.as_bytes())
    });
    written.map_err(|error| unwritable(path, &error))
}

/// Adds the database's folder to what git ignores; says whether it was missing.
fn ignore_database(path: &Path) -> Result<bool, Failure> {
    let mut text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(unwritable(path, &error)),
    };
    if text.lines().any(|line| line.trim().trim_matches('/') == IGNORED.trim_matches('/')) {
        return Ok(false);
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(IGNORED);
    text.push('\n');
    write(path, &text)?;
    Ok(true)
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("{} cannot be written: {error}", path.display()))
}
