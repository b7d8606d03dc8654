//! `windlass keys`: manages API keys.

use std::sync::Arc;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;
use windlass::TenantId;

use super::time_argument;
use crate::cli::exit::{Exit, Failure};
use crate::cli::options;
use crate::cli::output::{Grid, Screen, cell, local_time, strong};
use crate::installation::{Installation, block_on};
use crate::settings::Settings;
use crate::state::audit::Audit;
use crate::state::identity::{ApiKey, ApiKeys, KeyRequest, NewKey, Role, ToolView, UserBinding};

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
    },
    /// List the keys, without their texts
    List,
    /// Give a key another text; the old one stops working at once
    Rotate {
        /// The key's id
        id: String,
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
            KeysAction::List | KeysAction::Rotate { .. } | KeysAction::Revoke { .. } => {
                Installation::to_look_at(settings, screen)
            }
        };
        let documents = installation.documents().await?;
        let audit = Audit::new(Arc::clone(documents));
        let keys = ApiKeys::new(Arc::clone(documents));
        match args.action {
            KeysAction::Create { name, role, expires, tool, user } => {
                let tools = ToolView::new(tool).map_err(Failure::named)?;
                let user = user.map(UserBinding::from);
                let request = KeyRequest { name, role, expires_at: expires, tools, user };
                let new = keys.create(&tenant, request).await.map_err(Failure::named)?;
                // First of all: its text cannot be had again.
                show_new(&new, screen)?;
                audit.by_command(&tenant, "create_key", &new.key.id).await?;
            }
            KeysAction::List => list(&keys.list(&tenant).await?, settings, screen)?,
            KeysAction::Rotate { id } => {
                let new = keys.rotate(&tenant, &id).await.map_err(unknown)?;
                show_new(&new, screen)?;
                audit.by_command(&tenant, "rotate_key", &id).await?;
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
    for key in keys {
        table.row([
            strong(&key.id),
            cell(&key.name),
            cell(key.role.name()),
            cell(format!("{}_…", key.prefix)),
            cell(state(key)),
            cell(local_time(key.created_at)),
            cell(key.last_used_at.map_or_else(|| "-".to_owned(), local_time)),
        ]);
    }
    screen.table(&table)?;
    Ok(())
}

fn state(key: &ApiKey) -> String {
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Some(end)) if !key.works(Timestamp::now()) => format!("expired {}", local_time(end)),
        (None, Some(end)) => format!("until {}", local_time(end)),
        (None, None) => "works".to_owned(),
    }
}
