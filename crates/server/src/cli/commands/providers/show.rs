//! What `windlass providers` prints.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass::Lang;
use windlass::definition::ProviderSpec;
use windlass_executors::mcp::{ChangedPart, Note};
use windlass_executors::rest::Import;

use crate::cli::exit::Failure;
use crate::cli::output::{Grid, Screen, cell, count, local_time, strong};
use crate::state::imports::{self, ImportDiff, ImportSummary, ImportedProvider};

/// How many warnings are printed for people; `--json` has all.
const SHOWN: usize = 20;

/// The result of an import.
pub(super) fn import(import: &Import, verb: &str, screen: Screen) -> Result<(), Failure> {
    if screen.json {
        screen.document(&imports::report(import))?;
        return Ok(());
    }
    let mut table = Grid::new(&["!TOOL", "!OPERATION", "DESCRIPTION"]).one_line();
    for tool in &import.tools {
        table.row([
            strong(tool.spec.name.as_str()),
            cell(&tool.operation),
            cell(tool.spec.description.get(Lang::En)),
        ]);
    }
    screen.table(&table)?;
    let warnings = import
        .tools
        .iter()
        .flat_map(|tool| tool.notes.iter().map(move |note| format!("{}: {note}", tool.operation)));
    let warnings: Vec<String> = import.notes.iter().cloned().chain(warnings).collect();
    for warning in warnings.iter().take(SHOWN) {
        screen.warn(warning);
    }
    if warnings.len() > SHOWN {
        let more = count(warnings.len() - SHOWN, "warning");
        screen.note(format_args!("{more} more; --json shows all"));
    }
    for one in &import.unsupported {
        screen.warn(format_args!("{} was skipped: {}", one.operation, one.reason));
    }
    let tools = count(import.tools.len(), "tool");
    let skipped = match import.unsupported.len() {
        0 => String::new(),
        skipped => format!("; {} skipped", count(skipped, "operation")),
    };
    screen.note(format_args!("{tools} of `{}` {verb}{skipped}", import.provider.name));
    if !import.provider.credentials.is_empty() {
        let name = &import.provider.name;
        screen.note(format_args!("`windlass credentials set {name}` stores its credential"));
    }
    Ok(())
}

/// All providers: imported ones, and those that definitions describe.
pub(super) fn list(
    kept: &[ImportSummary],
    defined: &BTreeMap<String, ProviderSpec>,
    screen: Screen,
) -> Result<(), Failure> {
    if screen.json {
        let imported = kept.iter().map(|one| {
            let changed: Vec<&str> = one.flagged();
            summary(one.name(), one.imported_at, &one.url, one.tools().len(), &changed)
        });
        let defined =
            defined.values().map(|provider| json!({"name": provider.name, "imported": false}));
        screen.document(&imported.chain(defined).collect::<Vec<_>>())?;
        return Ok(());
    }
    if kept.is_empty() && defined.is_empty() {
        screen.note("there are no providers; `windlass providers add NAME FILE` imports an API");
        return Ok(());
    }
    let mut table = Grid::new(&["!NAME", "!TOOLS", "!CHANGED", "!IMPORTED", "FROM"]).one_line();
    for one in kept {
        table.row([
            strong(one.name()),
            cell(one.tools().len().to_string()),
            cell(one.flagged().len().to_string()),
            cell(local_time(one.imported_at)),
            cell(one.url.as_deref().unwrap_or("a file")),
        ]);
    }
    for provider in defined.values() {
        let (tools, changed, imported) = ("-", "-", "-");
        table.row([
            strong(&provider.name),
            cell(tools),
            cell(changed),
            cell(imported),
            cell("definitions"),
        ]);
    }
    screen.table(&table)?;
    Ok(())
}

/// One provider.
pub(super) fn one(kept: &ImportedProvider, screen: Screen) -> Result<(), Failure> {
    if screen.json {
        let (flagged, count) = (kept.flagged(), kept.tools.len());
        let changed: Vec<&str> = flagged.iter().map(String::as_str).collect();
        let name = &kept.provider.name;
        let mut shown = summary(name, kept.imported_at, &kept.url, count, &changed);
        shown["options"] = json!(kept.options);
        shown["credentials_schema"] = json!(kept.provider.credentials);
        let tools = kept.tools.iter().map(|tool| {
            json!({"name": tool.spec.name, "operation": tool.operation, "changed": tool.flagged})
        });
        shown["tools"] = tools.collect();
        screen.document(&shown)?;
        return Ok(());
    }
    let mut table = Grid::new(&["!TOOL", "!OPERATION", "!STATE", "DESCRIPTION"]).one_line();
    for tool in &kept.tools {
        table.row([
            strong(tool.spec.name.as_str()),
            cell(&tool.operation),
            cell(if tool.flagged { "changed, needs approval" } else { "ready" }),
            cell(tool.spec.description.get(Lang::En)),
        ]);
    }
    screen.table(&table)?;
    for field in &kept.provider.credentials {
        let needed = if field.required { "needed" } else { "optional" };
        screen.note(format_args!("credential field `{}` ({needed})", field.name));
    }
    Ok(())
}

/// A server of tools: what it has, and what is another than was accepted.
pub(super) fn server(name: &str, note: &Note, screen: Screen) -> Result<(), Failure> {
    let changes = note.changes();
    let waits = |tool: &str| changes.iter().any(|change| change.tool == tool);
    if screen.json {
        let tools = note.tools().map(|(tool, _)| json!({"name": tool, "changed": waits(tool)}));
        let tools: Vec<_> = tools.collect();
        screen.document(&json!({"name": name, "tools": tools, "changes": changes}))?;
        return Ok(());
    }
    let mut table = Grid::new(&["!TOOL", "!STATE", "DESCRIPTION"]).one_line();
    for (tool, declared) in note.tools() {
        table.row([
            strong(tool),
            cell(if waits(tool) { "changed, held" } else { "ready" }),
            cell(declared["description"].as_str().unwrap_or_default()),
        ]);
    }
    screen.table(&table)?;
    for change in &changes {
        for part in &change.parts {
            let head = format!("\n{} {}", change.tool, part.part);
            screen.foreign(&format!("{head}\n{}", difference(part).join("\n")))?;
        }
    }
    if !changes.is_empty() {
        let tools = count(changes.len(), "tool");
        screen.note(format_args!(
            "{tools} held back; `windlass providers accept {name}` accepts all changes"
        ));
    }
    Ok(())
}

/// The lines of a part that are gone, and those that are new.
fn difference(part: &ChangedPart) -> Vec<String> {
    let lines = |value: &Option<Value>| -> Vec<String> {
        let text = match value {
            None => return Vec::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => serde_json::to_string_pretty(other).unwrap_or_default(),
        };
        text.lines().map(str::to_owned).collect()
    };
    let (before, now) = (lines(&part.before), lines(&part.now));
    let same = before.iter().zip(&now).take_while(|(old, new)| old == new).count();
    let (old, new) = (&before[same..], &now[same..]);
    let rest = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let gone = old[..old.len() - rest].iter().map(|line| format!("- {line}"));
    let added = new[..new.len() - rest].iter().map(|line| format!("+ {line}"));
    gone.chain(added).collect()
}

fn summary(
    name: &str,
    imported_at: Timestamp,
    url: &Option<String>,
    tool_count: usize,
    changed: &[&str],
) -> Value {
    json!({
        "name": name,
        "imported": true,
        "imported_at": imported_at,
        "url": url,
        "tool_count": tool_count,
        "changed": changed,
    })
}

/// What another import changes.
pub(super) fn diff(
    name: &str,
    diff: &ImportDiff,
    flagged: &[String],
    warnings: &[String],
    screen: Screen,
) -> Result<(), Failure> {
    if screen.json {
        screen.document(&json!({"diff": diff, "flagged": flagged, "warnings": warnings}))?;
        return Ok(());
    }
    warnings.iter().take(SHOWN).for_each(|warning| screen.warn(warning));
    for tool in &diff.added {
        screen.line(format_args!("added    {tool}"))?;
    }
    for tool in &diff.removed {
        screen.line(format_args!("removed  {tool}"))?;
    }
    for one in &diff.changed {
        screen.line(format_args!("changed  {} ({})", one.name, one.parts.join(", ")))?;
    }
    if diff.is_empty() {
        screen.line("nothing has changed")?;
    }
    if !flagged.is_empty() {
        let need = match flagged.len() {
            1 => "1 changed tool needs".to_owned(),
            some => format!("{some} changed tools need"),
        };
        screen.note(format_args!(
            "{need} approval to run; `windlass providers accept {name}` accepts all changes"
        ));
    }
    Ok(())
}

pub(super) fn accepted(names: &[String], screen: Screen) -> Result<(), Failure> {
    if screen.json {
        screen.document(&json!({"accepted": names}))?;
    } else if names.is_empty() {
        screen.note("nothing waited to be accepted");
    } else {
        names.iter().try_for_each(|name| screen.line(format_args!("accepted {name}")))?;
    }
    Ok(())
}

pub(super) fn removed(name: &str, credentials: usize, screen: Screen) -> Result<(), Failure> {
    if screen.json {
        screen.document(&json!({"removed": name, "credentials": credentials}))?;
    } else if credentials > 0 {
        screen.line(format_args!("removed {name} and its credentials ({credentials})"))?;
    } else {
        screen.line(format_args!("removed {name}"))?;
    }
    Ok(())
}
