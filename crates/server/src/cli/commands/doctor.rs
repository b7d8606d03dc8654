//! `windlass doctor`: checks the installation and says how to fix what is wrong. It
//! is read-only: it creates no files and migrates no database.

mod database;
mod keys;
mod modes;
mod network;
mod outbound;
mod tools;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::cli::exit::{Exit, Failure};
use crate::cli::options::{self, Global};
use crate::cli::output::{BAD, BOLD, DOUBTFUL, GOOD, Screen, count};
use crate::installation::{Installation, block_on};
use crate::settings::Settings;

/// Check the installation, and say how to fix it
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct DoctorArgs {
    /// Exit with an error on warnings, too
    #[arg(long)]
    strict: bool,
}

fn after_help() -> String {
    let examples = options::examples(&[
        ("Is everything in order?", "windlass doctor"),
        (
            "Before a server starts, in a script",
            "windlass doctor --strict --quiet && windlass serve",
        ),
        ("For a program", "windlass doctor --json"),
    ]);
    let looks = options::section(
        "What it looks at",
        "  Settings and variables; tool definitions and what runs them; modes of files (what other users\n  \
         could change or read); the database (reachable, whole, writable, up to date, space); the clock;\n  \
         the master key, and whether it opens the vault; API keys; the address to listen on; TLS files;\n  \
         host names; where traces go; and what tools may reach. It changes nothing, and ends with 1\n  \
         where something is broken.",
    );
    format!("{examples}\n\n{looks}")
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum DiagnosisState {
    Ok,
    Warning,
    Broken,
}

/// What was found out about one thing.
#[derive(Debug, Serialize)]
struct Diagnosis {
    /// What was looked at.
    about: &'static str,
    state: DiagnosisState,
    message: String,
    /// How to mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Diagnosis {
    fn ok(about: &'static str, message: impl Into<String>) -> Self {
        Self { about, state: DiagnosisState::Ok, message: message.into(), hint: None }
    }

    fn warning(about: &'static str, message: impl Into<String>) -> Self {
        Self { state: DiagnosisState::Warning, ..Self::ok(about, message) }
    }

    fn broken(about: &'static str, message: impl Into<String>) -> Self {
        Self { state: DiagnosisState::Broken, ..Self::ok(about, message) }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs, global: &Global, screen: Screen) -> Result<Exit, Failure> {
    let findings = match Settings::resolve(global, Vec::new()) {
        Ok(settings) => block_on(async { Ok(examine(&settings).await) })?,
        Err(failure) => {
            let mut finding = Diagnosis::broken("settings", failure.message);
            finding.hint = failure.hint;
            vec![finding]
        }
    };
    let of = |state| findings.iter().filter(|finding| finding.state == state).count();
    let (broken, warnings) = (of(DiagnosisState::Broken), of(DiagnosisState::Warning));
    let healthy = broken == 0 && (warnings == 0 || !args.strict);
    if screen.json {
        screen.document(&json!({"healthy": healthy, "findings": findings}))?;
    } else {
        for finding in &findings {
            show(finding, screen)?;
        }
        let sum = match (broken, warnings) {
            (0, 0) => format!("{GOOD}everything is in order{GOOD:#}"),
            (0, some) => {
                format!("{DOUBTFUL}{}{DOUBTFUL:#}, nothing is broken", count(some, "warning"))
            }
            (broken, some) => {
                format!("{BAD}{broken} broken{BAD:#}, {}", count(some, "warning"))
            }
        };
        screen.line(format_args!("\n{sum}"))?;
    }
    Ok(if healthy { Exit::Success } else { Exit::Failed })
}

fn show(finding: &Diagnosis, screen: Screen) -> Result<(), Failure> {
    let (style, word) = match finding.state {
        DiagnosisState::Ok if screen.quiet => return Ok(()),
        DiagnosisState::Ok => (GOOD, "ok"),
        DiagnosisState::Warning => (DOUBTFUL, "warning"),
        DiagnosisState::Broken => (BAD, "broken"),
    };
    let message = crate::cli::output::visible(&finding.message).replace('\n', "\n            ");
    screen.line(format_args!(
        "{style}{word:<8}{style:#} {BOLD}{:<9}{BOLD:#} {message}",
        finding.about
    ))?;
    if let Some(hint) = &finding.hint {
        screen.line(format_args!("                   → {}", crate::cli::output::visible(hint)))?;
    }
    Ok(())
}

async fn examine(settings: &Settings) -> Vec<Diagnosis> {
    // What is wrong with definitions is told as a finding.
    let quiet = Screen { json: false, quiet: true, verbose: false };
    let installation = Installation::to_look_at(settings, quiet);
    let mut findings = of_settings(settings);
    findings.extend(tools::examine(settings));
    findings.extend(modes::examine(settings));
    let (database, documents) = database::examine(&installation).await;
    findings.extend(match &documents {
        Some(_) => tools::unready(&installation).await,
        None => tools::unready(&Installation::without_database(settings, quiet)).await,
    });
    findings.extend(database);
    findings.extend(keys::examine(settings, documents).await);
    findings.extend(network::examine(settings).await);
    findings.extend(outbound::examine(settings).await);
    findings
}

fn of_settings(settings: &Settings) -> Vec<Diagnosis> {
    let about = "settings";
    let mut findings = vec![match &settings.file {
        Some(path) => Diagnosis::ok(about, format!("{} is read", path.display())),
        None => Diagnosis::ok(about, "there is no windlass.yaml; everything has its default")
            .hint("`windlass init` writes one that explains every key"),
    }];
    let odd = settings.warnings.iter().map(|warning| Diagnosis::warning(about, warning));
    findings.extend(odd);
    findings
}
