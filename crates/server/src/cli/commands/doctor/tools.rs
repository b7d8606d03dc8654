//! Checks of tool definitions: whether they are valid and an executor can run them.

use windlass::{TenantId, definition};

use super::Diagnosis;
use crate::cli::output::count;
use crate::installation::Installation;
use crate::prerequisites::Need;
use crate::settings::Settings;
use crate::wiring::Kinds;

/// How many faults are told one by one.
const TOLD: usize = 10;

pub(super) fn examine(settings: &Settings) -> Vec<Diagnosis> {
    let about = "tools";
    let mut findings = Vec::new();
    let kinds = Kinds::new(&settings.outbound, &settings.models);
    let (mut faults, mut idle, mut files, mut tools) = (Vec::new(), Vec::new(), 0, 0);
    for folder in &settings.tools {
        let place = folder.path.display();
        if !folder.path.is_dir() {
            if folder.asked_for {
                let hint = format!("make it with `mkdir -p {place}`, or set tools_directory");
                findings
                    .push(Diagnosis::broken(about, format!("{place}: no such folder")).hint(hint));
            }
            continue;
        }
        let found = definition::load_folder(&folder.path);
        faults.extend(found.errors.iter().map(ToString::to_string));
        files += found.files.len();
        for file in found.files {
            match file.outcome {
                Err(errors) => faults.extend(errors.iter().map(ToString::to_string)),
                Ok(parsed) => {
                    tools += parsed.tools.len();
                    let idlers = parsed.tools.iter().filter_map(|definition| {
                        let error = kinds.bind(&definition.spec).err()?;
                        Some(format!("{}: {}", definition.spec.name, error.message()))
                    });
                    idle.extend(idlers);
                }
            }
        }
    }
    let more = faults.len().saturating_sub(TOLD);
    findings.extend(faults.into_iter().take(TOLD).map(|fault| {
        Diagnosis::broken(about, fault).hint("`windlass check` explains every fault")
    }));
    if more > 0 {
        findings.push(Diagnosis::broken(about, format!("and {}", count(more, "more fault"))));
    }
    findings.extend(idle.into_iter().take(TOLD).map(|why| {
        Diagnosis::warning(about, format!("nothing here can run {why}"))
            .hint("name a handler that this program has; `windlass tools` lists the built-in ones")
    }));
    if findings.is_empty() {
        let sum =
            format!("{} in {}, and the built-in ones", count(tools, "tool"), count(files, "file"));
        findings.push(Diagnosis::ok(about, sum));
    }
    findings
}

/// The built-in tools that nobody is shown before they are configured, and how
/// to do that.
pub(super) async fn unready(installation: &Installation<'_>) -> Vec<Diagnosis> {
    let Ok(engine) = installation.defined() else { return Vec::new() };
    let Ok(prerequisites) = installation.prerequisites().await else { return Vec::new() };
    let missing = prerequisites.missing(&engine, &TenantId::default()).await.unwrap_or_default();
    let told = missing.into_iter().map(|(need, names)| {
        let (what, hint) = match &need {
            Need::Credential(provider) => (
                format!("a credential of `{provider}`"),
                format!("`windlass credentials set {provider}` switches them on"),
            ),
            Need::Folder => (
                "a folder".to_owned(),
                "`outbound.files.folder` of windlass.yaml switches them on".to_owned(),
            ),
        };
        let names = names.join(", ");
        let message = format!("{names}: not shown to MCP clients before there is {what}");
        Diagnosis::ok("tools", message).hint(hint)
    });
    told.collect()
}
