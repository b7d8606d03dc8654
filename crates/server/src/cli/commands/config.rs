//! `windlass config`: the effective settings, and where each came from.

use clap::Args;
use comfy_table::Attribute;

use crate::cli::exit::{Exit, Failure};
use crate::cli::options;
use crate::cli::output::{Grid, Screen, cell, strong};
use crate::settings::{Effective, SettingOrigin, Settings};

/// Show the effective settings, and where each came from
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct ConfigArgs {
    /// Only this setting: its name, such as server.listen
    key: Option<String>,
    /// Only settings that differ from their default
    #[arg(long, conflicts_with = "key")]
    changed: bool,
}

fn after_help() -> String {
    let examples = options::examples(&[
        ("All settings", "windlass config"),
        ("What differs from the defaults", "windlass config --changed"),
        ("One value, for a script", "windlass config server.listen"),
        ("With defaults, variables and explanations", "windlass config --json"),
    ]);
    let order = options::section(
        "Where settings come from",
        "  A flag wins over a variable of the environment, that over windlass.yaml, and that over\n  \
         the default. The variable of server.listen is WINDLASS_SERVER_LISTEN, and so on; WINDLASS_TOOLS,\n  \
         WINDLASS_LISTEN and WINDLASS_LOG are short for three of them. Lists have commas in between.\n  \
         Secrets are not shown.",
    );
    format!("{examples}\n\n{order}")
}

/// Runs the command.
pub(crate) fn run(args: &ConfigArgs, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    if let Some(key) = &args.key {
        let setting = Effective::find(&settings.effective, key)?;
        match screen.json {
            true => screen.document(setting)?,
            false => screen.line(setting.text())?,
        }
        return Ok(Exit::Success);
    }
    let chosen: Vec<&Effective> = (settings.effective.iter())
        .filter(|setting| !args.changed || setting.origin != SettingOrigin::Default)
        .collect();
    if screen.json {
        screen.document(&serde_json::json!({"file": settings.file, "settings": chosen}))?;
        return Ok(Exit::Success);
    }
    if chosen.is_empty() {
        screen.note("nothing is set; everything has its default");
        return Ok(Exit::Success);
    }
    let mut grid = Grid::new(&["!SETTING", "VALUE", "!FROM"]);
    for setting in chosen {
        let name = match setting.origin {
            SettingOrigin::Default => cell(setting.name),
            _ => strong(setting.name),
        };
        let value = match setting.text() {
            text if text.is_empty() => cell("-"),
            text => cell(text),
        };
        let origin = cell(setting.origin.to_string());
        let origin = match setting.origin {
            SettingOrigin::Default => origin.add_attribute(Attribute::Dim),
            _ => origin,
        };
        grid.row([name, value, origin]);
    }
    screen.table(&grid)?;
    Ok(Exit::Success)
}
