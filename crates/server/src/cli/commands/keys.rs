//! `windlass keys`: manages API keys.

use std::sync::Arc;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::TenantId;

use super::time_argument;
use crate::cli::exit::{Exit, Failure};
use crate::cli::options;
use crate::cli::output::{Grid, Screen, cell, local_date, local_time, strong};
use crate::installation::{Installation, block_on};
use crate::settings::Settings;
use crate::state::audit::Audit;
use crate::state::identity::{ApiKey, ApiKeys, KeyRequest, NewKey, Role, ToolView, UserBinding};
use crate::state::quota::NarrowQuotas;

/// Create, list and revoke API keys
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    action: KeysAction,
    /// The tenant whose keys to manage
    #[arg(long, global = true, value_name = "ID", default_value = "default")]
    tenant: String,
}

#[derive(Debug, Subcommand)]
enum KeysAction {
    /// Make a key; its text is printed this once
    Create {
        /// What it is for
        name: String,
        /// The role: what the key may do
        #[arg(long, value_enum, default_value_t = Role::Caller)]
        role: Role,
        /// When it expires: 90d, 2027-01-31, 2027-01-31T08:00:00Z
        #[arg(long, value_name = "WHEN", value_parser = time_argument::parse_end)]
        expires: Option<Timestamp>,
        /// Restrict the key to /mcp and to these tools: a name, or 'files/*'; may be repeated
        #[arg(long, value_name = "TOOL")]
        tool: Vec<String>,
        /// The user on whose behalf it calls, or '*' for any user that a request names
        #[arg(long, value_name = "ID")]
        user: Option<String>,
        /// A quota of its own, such as calls_per_day=1000; may be repeated
        #[arg(long, value_name = "NAME=LIMIT")]
        quota: Vec<String>,
    },
    /// List the keys, without their texts
    List,
    /// Give a key another text; the old one stops working at once
    Rotate {
        /// The key's id
        id: String,
    },
    /// Set quotas of a key, in place of those of all keys; without any, show them
    Quota {
        /// The key's id
        id: String,
        /// A quota, such as calls_per_day=1000 or cost_per_day=2.5; `default` is that of all keys
        #[arg(value_name = "NAME=LIMIT")]
        quotas: Vec<String>,
    },
    /// Make a key stop working, on all servers
    Revoke {
        /// The key's id
        id: String,
    },
}

fn after_help() -> String {
    let examples = options::examples(&[
        ("A key for an agent", "windlass keys create agent-7"),
        ("For an MCP client that sees some tools", "windlass keys create claude --tool 'files/*'"),
        ("For an agent that acts for one person", "windlass keys create ada --user ada"),
        ("For a script", "KEY=$(windlass keys create ci --expires 90d --quiet)"),
        ("For a person who runs the server", "windlass keys create ada --role admin"),
        ("Which keys there are, and when they were used", "windlass keys list"),
        (
            "At most 1,000 calls and $2.50 a day",
            "windlass keys quota key_3kTz90aBx2Qf calls_per_day=1000 cost_per_day=2.5",
        ),
        ("A key leaked", "windlass keys revoke key_3kTz90aBx2Qf"),
    ]);
    let roles = options::section(
        "Roles",
        "  viewer    sees tools, calls and events\n  \
         caller    also calls tools\n  \
         operator  also keeps tools, providers and credentials, and approves calls\n  \
         admin     also makes and revokes keys",
    );
    format!("{examples}\n\n{roles}")
}

/// Runs the command.
pub(crate) fn run(args: KeysArgs, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    let tenant = TenantId::new(args.tenant);
    block_on(async {
        let installation = match args.action {
            KeysAction::Create { .. } => Installation::new(settings, screen),
            KeysAction::List
            | KeysAction::Rotate { .. }
            | KeysAction::Quota { .. }
            | KeysAction::Revoke { .. } => Installation::to_look_at(settings, screen),
        };
        let documents = installation.documents().await?;
        let audit = Audit::new(Arc::clone(documents));
        let keys = ApiKeys::new(Arc::clone(documents));
        match args.action {
            KeysAction::Create { name, role, expires, tool, user, quota } => {
                let tools = ToolView::new(tool).map_err(Failure::named)?;
                let user = user.map(UserBinding::from);
                let quotas = with_quotas(None, &quota)?;
                let request = KeyRequest { name, role, expires_at: expires, tools, user, quotas };
                let new = keys.create(&tenant, request).await.map_err(Failure::named)?;
                // Printed before anything can fail: the key cannot be shown again.
                show_new(&new, screen)?;
                audit.by_command(&tenant, "create_key", &new.key.id).await?;
            }
            KeysAction::List => list(&keys.list(&tenant).await?, settings, screen)?,
            KeysAction::Rotate { id } => {
                let new = keys.rotate(&tenant, &id).await.map_err(unknown)?;
                show_new(&new, screen)?;
                audit.by_command(&tenant, "rotate_key", &id).await?;
            }
            KeysAction::Quota { id, quotas } => {
                let mut key = keys.get(&tenant, &id).await.map_err(unknown)?;
                if !quotas.is_empty() {
                    let quotas = with_quotas(key.quotas, &quotas)?;
                    key = keys.set_quotas(&tenant, &id, quotas).await.map_err(unknown)?;
                    audit.by_command(&tenant, "set_key_quotas", &id).await?;
                }
                show_quotas(&key, screen)?;
            }
            KeysAction::Revoke { id } => {
                let key = keys.revoke(&tenant, &id).await.map_err(unknown)?;
                audit.by_command(&tenant, "revoke_key", &id).await?;
                revoked(&key, screen)?;
            }
        }
        Ok(Exit::Success)
    })
}

/// The quotas of a key, with these changes.
fn with_quotas(
    before: Option<NarrowQuotas>,
    changes: &[String],
) -> Result<Option<NarrowQuotas>, Failure> {
    let Value::Object(mut quotas) = json!(before.unwrap_or_default()) else { return Ok(before) };
    for change in changes {
        let wrong = |why: &str| {
            let hint =
                "write NAME=LIMIT with a name of `quotas.per_key`, such as calls_per_day=1000";
            Failure::usage(format!("`{change}` is no quota: {why}")).hint(hint)
        };
        let (name, limit) = change.split_once('=').ok_or_else(|| wrong("it has no limit"))?;
        let limit = match limit {
            "default" => Value::Null,
            limit => {
                let number = serde_json::from_str(&limit.replace('_', "")).ok();
                number.filter(Value::is_number).ok_or_else(|| wrong("its limit is no number"))?
            }
        };
        quotas.insert(name.to_owned(), limit);
        if let Err(error) = NarrowQuotas::deserialize(&quotas) {
            return Err(wrong(&error.to_string()));
        }
    }
    let quotas = NarrowQuotas::deserialize(&quotas).unwrap_or_default();
    Ok(Some(quotas).filter(|quotas| *quotas != NarrowQuotas::default()))
}

fn show_quotas(key: &ApiKey, screen: Screen) -> Result<(), Failure> {
    if screen.json {
        screen.document(key)?;
        return Ok(());
    }
    let Value::Object(quotas) = json!(key.quotas.unwrap_or_default()) else { return Ok(()) };
    if quotas.is_empty() {
        screen.note(format_args!("{} ({}) has the quotas of all keys", key.id, key.name));
    }
    for (name, limit) in quotas {
        screen.line(format_args!("{name}={limit}"))?;
    }
    Ok(())
}

fn unknown(error: windlass::Error) -> Failure {
    let failure = Failure::named(error);
    match failure.exit {
        Exit::NotFound => failure.hint("`windlass keys list` shows the ids"),
        _ => failure,
    }
}

/// Nothing but the text goes to stdout, so that a script can take it.
fn show_new(new: &NewKey, screen: Screen) -> Result<(), Failure> {
    let NewKey { key, text } = new;
    if screen.json {
        screen.document(&json!({"key": key, "text": text.expose()}))?;
        return Ok(());
    }
    screen.line(text.expose())?;
    screen.note(format_args!("this is the key {} ({}); it is not shown again", key.id, key.role));
    Ok(())
}

fn revoked(key: &ApiKey, screen: Screen) -> Result<(), Failure> {
    if screen.json {
        screen.document(key)?;
    } else {
        screen.line(format_args!("revoked {} ({})", key.id, key.name))?;
    }
    Ok(())
}

fn list(keys: &[ApiKey], settings: &Settings, screen: Screen) -> Result<(), Failure> {
    if screen.json {
        screen.document(&keys)?;
        return Ok(());
    }
    if keys.is_empty() {
        let database = settings.database.describe();
        screen.note(format_args!("there are no keys (database: {database})"));
        return Ok(());
    }
    let mut table =
        Grid::new(&["!ID", "NAME", "!ROLE", "!KEY", "!STATE", "!CREATED", "!LAST USED"]).one_line();
    let short = table.on_terminal();
    for key in keys {
        table.row([
            strong(&key.id),
            cell(&key.name),
            cell(key.role.name()),
            cell(format!("{}_…", key.prefix)),
            cell(state(key)),
            cell(if short { local_date(key.created_at) } else { local_time(key.created_at) }),
            cell(key.last_used_at.map_or_else(|| "-".to_owned(), local_time)),
        ]);
    }
    screen.table(&table)?;
    Ok(())
}

fn state(key: &ApiKey) -> String {
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(end)) if !key.works(Timestamp::now()) => format!("expired {}", local_date(end)),
        (None, Some(end)) => format!("until {}", local_date(end)),
        (None, None) => "works".to_owned(),
    }
}
