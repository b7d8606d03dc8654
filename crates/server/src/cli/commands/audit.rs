//! `windlass audit`: reads and verifies the audit log.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use windlass::TenantId;

use crate::cli::exit::{Exit, Failure};
use crate::cli::options;
use crate::cli::output::{Grid, Screen, cell, local_time, strong};
use crate::installation::{Installation, block_on};
use crate::settings::Settings;
use crate::state::audit::{Audit, AuditEntry, ChainReport, Verifier};

/// Entries in one read.
const PAGE: usize = 500;

/// Show, export and verify the audit log of a server
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    action: AuditAction,
    /// The tenant whose log to read
    #[arg(long, global = true, value_name = "ID", default_value = "default")]
    tenant: String,
}

#[derive(Debug, Subcommand)]
enum AuditAction {
    /// Show the last entries
    List {
        /// Maximum number of entries
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Only entries of this action, such as create_key
        #[arg(long, value_name = "NAME")]
        action: Option<String>,
    },
    /// Print all entries as JSON, one a line
    Export,
    /// Look whether nobody changed, removed or inserted an entry
    Verify {
        /// A file that `export` made, in place of the database
        file: Option<PathBuf>,
    },
}

fn after_help() -> String {
    options::examples(&[
        ("What happened last", "windlass audit list"),
        ("Keep a copy elsewhere", "windlass audit export > audit.jsonl"),
        ("Whether the log is as it was written", "windlass audit verify"),
        ("Whether a copy is", "windlass audit verify audit.jsonl"),
    ])
}

/// Runs the command.
pub(crate) fn run(args: AuditArgs, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    let tenant = TenantId::new(args.tenant);
    if let AuditAction::Verify { file: Some(file) } = &args.action {
        let open = File::open(file)
            .map_err(|error| Failure::usage(format!("cannot open {}: {error}", file.display())))?;
        return verified(&verify_lines(BufReader::new(open))?, screen);
    }
    block_on(async {
        let installation = Installation::to_look_at(settings, screen);
        let audit = Audit::new(Arc::clone(installation.documents().await?));
        match args.action {
            AuditAction::List { limit, action } => {
                let mut entries = all(&audit, &tenant).await?;
                entries.retain(|entry| action.as_ref().is_none_or(|it| *it == entry.action));
                let skip = entries.len().saturating_sub(limit);
                list(&entries[skip..], screen)?;
            }
            AuditAction::Export => {
                for entry in all(&audit, &tenant).await? {
                    let line = serde_json::to_string(&entry).map_err(io::Error::other)?;
                    screen.line(line)?;
                }
            }
            AuditAction::Verify { .. } => return verified(&audit.verify(&tenant).await?, screen),
        }
        Ok(Exit::Success)
    })
}

async fn all(audit: &Audit, tenant: &TenantId) -> Result<Vec<AuditEntry>, Failure> {
    let mut entries: Vec<AuditEntry> = Vec::new();
    loop {
        let after = entries.last().map_or(0, |last| last.number);
        let page = audit.list(tenant, after, PAGE).await?;
        let full = page.len() == PAGE;
        entries.extend(page);
        if !full {
            return Ok(entries);
        }
    }
}

fn verify_lines(lines: impl BufRead) -> Result<ChainReport, Failure> {
    let mut verifier = Verifier::default();
    for line in lines.lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        // A line that is not JSON breaks the chain.
        verifier.read(&serde_json::from_str(&line).unwrap_or_default());
    }
    Ok(verifier.end(None))
}

fn verified(checked: &ChainReport, screen: Screen) -> Result<Exit, Failure> {
    if screen.json {
        screen.document(checked)?;
    } else {
        match &checked.problem {
            None => screen.line(format_args!(
                "intact: {}, the last one is {}",
                entries(checked.entries),
                checked.last_hash
            ))?,
            Some(problem) => screen.line(format_args!("NOT intact: {problem}"))?,
        }
    }
    Ok(if checked.intact { Exit::Success } else { Exit::Failed })
}

fn list(entries: &[AuditEntry], screen: Screen) -> Result<(), Failure> {
    if screen.json {
        screen.document(&entries)?;
        return Ok(());
    }
    if entries.is_empty() {
        screen.note("the audit log has no such entries");
        return Ok(());
    }
    let mut table =
        Grid::new(&["!NUMBER", "!AT", "WHO", "!ACTION", "TARGET", "!STATUS"]).one_line();
    for entry in entries {
        let actor = &entry.actor;
        let who = actor.name.clone().or_else(|| actor.address.clone());
        let who = who.map_or_else(|| actor.kind.clone(), |who| format!("{} {who}", actor.kind));
        table.row([
            strong(entry.number.to_string()),
            cell(local_time(entry.at)),
            cell(who),
            cell(&entry.action),
            cell(entry.target.as_deref().unwrap_or("-")),
            cell(entry.status.map_or_else(|| "-".to_owned(), |status| status.to_string())),
        ]);
    }
    screen.table(&table)?;
    Ok(())
}

fn entries(number: u64) -> String {
    if number == 1 { "1 entry".to_owned() } else { format!("{number} entries") }
}
