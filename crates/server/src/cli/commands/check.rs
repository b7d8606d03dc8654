//! `windlass check`: lints tool definitions and prints errors and advice with their
//! positions.

mod examine;
mod names;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::cli::exit::{Exit, Failure};
use crate::cli::options;
use crate::cli::output::{BAD, BOLD, DIM, DOUBTFUL, GOOD, Screen, count, one_line};
use crate::settings::Settings;

/// Check tool definitions for errors
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct CheckArgs {
    /// Files or folders [default: the project's tools]
    #[arg(value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
}

fn after_help() -> String {
    options::examples(&[
        ("The project's tools", "windlass check"),
        ("One file", "windlass check tools/hello.yaml"),
        ("In CI: no warnings, either", "windlass check --strict tools"),
    ])
}

/// The findings of a check.
#[derive(Debug, Default, Serialize)]
struct CheckReport {
    files: usize,
    tools: usize,
    errors: usize,
    warnings: usize,
    findings: Vec<Finding>,
}

/// One thing that is wrong or could be better.
#[derive(Debug, Serialize)]
struct Finding {
    severity: Severity,
    file: String,
    line: u32,
    column: u32,
    message: String,
    hint: Option<String>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Error,
    Warning,
}

/// Runs the command.
pub(crate) fn run(args: &CheckArgs, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    let paths = if args.paths.is_empty() { project_paths(settings)? } else { args.paths.clone() };
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        return Err(Failure::usage(format!("{}: no such file or folder", missing.display())));
    }
    let mut report = examine::examine(&paths, settings, &screen)?;
    if args.strict {
        report.findings.iter_mut().for_each(|finding| finding.severity = Severity::Error);
    }
    let number =
        |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    (report.errors, report.warnings) = (number(Severity::Error), number(Severity::Warning));
    if screen.json {
        screen.document(&report)?;
    } else {
        show(&report, screen)?;
    }
    Ok(if report.errors == 0 { Exit::Success } else { Exit::Definitions })
}

fn project_paths(settings: &Settings) -> Result<Vec<PathBuf>, Failure> {
    let paths: Vec<PathBuf> = (settings.tools.iter())
        .map(|folder| folder.path.clone())
        .filter(|path| path.exists())
        .collect();
    if paths.is_empty() {
        let looked: Vec<String> =
            settings.tools.iter().map(|folder| folder.path.display().to_string()).collect();
        return Err(Failure::usage(format!("there is nothing to check: no {}", looked.join(", ")))
            .hint("name files or folders, or begin with `windlass init`"));
    }
    Ok(paths)
}

fn show(report: &CheckReport, screen: Screen) -> Result<(), Failure> {
    for finding in &report.findings {
        let (style, word) = match finding.severity {
            Severity::Error => (BAD, "error"),
            Severity::Warning => (DOUBTFUL, "warning"),
        };
        if screen.quiet && finding.severity == Severity::Warning {
            continue;
        }
        let Finding { file, line, column, .. } = finding;
        let hint = finding
            .hint
            .as_ref()
            .map_or(String::new(), |hint| format!("{DIM}; {}{DIM:#}", one_line(hint)));
        screen.line(format_args!(
            "{BOLD}{file}:{line}:{column}{BOLD:#}: {style}{word}{style:#}: {}{hint}",
            one_line(&finding.message)
        ))?;
    }
    let style = match (report.errors, report.warnings) {
        (0, 0) => GOOD,
        (0, _) => DOUBTFUL,
        _ => BAD,
    };
    screen.line(format_args!(
        "{style}{}, {}, {}, {}{style:#}",
        count(report.files, "file"),
        count(report.tools, "tool"),
        count(report.errors, "error"),
        count(report.warnings, "warning"),
    ))?;
    Ok(())
}
