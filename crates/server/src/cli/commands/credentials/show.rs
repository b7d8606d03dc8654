//! Prints credentials with their secrets masked.

use serde_json::{Map, Value};

use crate::cli::exit::Failure;
use crate::cli::output::{BOLD, GOOD, Grid, Screen, cell, local_time, strong};
use crate::state::vault::{MaskedCredential, Validation};

/// A table of credentials.
pub(super) fn list(
    all: &[MaskedCredential],
    database: &str,
    screen: Screen,
) -> Result<(), Failure> {
    if screen.json {
        screen.document(&all)?;
        return Ok(());
    }
    if all.is_empty() {
        screen.note(format_args!("no credentials are stored (database: {database})"));
        return Ok(());
    }
    let columns = ["PROVIDER", "NAME", "USER", "FIELDS", "!UPDATED", "!LAST USED", "!ID"];
    let mut table = Grid::new(&columns).one_line();
    for one in all {
        table.row([
            strong(&one.provider),
            cell(&one.name),
            cell(one.user.as_deref().unwrap_or("-")),
            cell(fields(&one.fields)),
            cell(local_time(one.updated_at)),
            cell(one.last_used_at.map_or_else(|| "-".to_owned(), local_time)),
            cell(&one.id),
        ]);
    }
    screen.table(&table)?;
    Ok(())
}

/// One credential.
pub(super) fn one(one: &MaskedCredential, screen: Screen) -> Result<(), Failure> {
    if screen.json {
        screen.document(one)?;
        return Ok(());
    }
    screen.line(format_args!("{BOLD}{}/{}{BOLD:#}", one.provider, one.name))?;
    let mut table = Grid::new(&["", ""]);
    let mut row = |name: &str, value: &str| table.row([cell(name), cell(value)]);
    row("id", &one.id);
    row("tenant", one.tenant.as_str());
    row("user", one.user.as_deref().unwrap_or("-"));
    for (name, value) in &one.fields {
        row(name, value.as_str().unwrap_or_default());
    }
    row("created", &local_time(one.created_at));
    row("updated", &local_time(one.updated_at));
    row("last used", &one.last_used_at.map_or_else(|| "-".to_owned(), local_time));
    row("default since", &one.default_since.map_or_else(|| "-".to_owned(), local_time));
    row("validated", &validation(&one.validation));
    screen.table(&table)?;
    Ok(())
}

/// What was done to a credential.
pub(super) fn done(what: &str, one: &MaskedCredential, screen: Screen) -> Result<(), Failure> {
    if screen.json {
        screen.document(one)?;
        return Ok(());
    }
    let (provider, name, fields) = (&one.provider, &one.name, fields(&one.fields));
    screen.line(format_args!("{GOOD}{what}{GOOD:#} {provider}/{name} ({fields}) {}", one.id))?;
    Ok(())
}

/// What a rotation of keys came to.
pub(super) fn rotated(what: Value, screen: Screen) -> Result<(), Failure> {
    if screen.json {
        screen.document(&what)?;
        return Ok(());
    }
    let Value::Object(what) = what else { return Ok(()) };
    let said = what.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}: {text}"),
        other => format!("{name}: {other}"),
    });
    screen.line(said.collect::<Vec<_>>().join(", "))?;
    Ok(())
}

fn fields(fields: &Map<String, Value>) -> String {
    let shown =
        fields.iter().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or("?")));
    shown.collect::<Vec<_>>().join(" ")
}

fn validation(validation: &Validation) -> String {
    match validation {
        Validation::Unknown => "not tried".to_owned(),
        Validation::Valid { at, by } => format!("accepted {} by {by}", local_time(*at)),
        Validation::Invalid { at, by, why } => {
            format!("refused {} by {by}: {why}", local_time(*at))
        }
    }
}
