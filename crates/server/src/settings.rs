//! Where everything is and how the engine runs: flags, environment and
//! `windlass.yaml` become one checked [`Settings`], once.
//!
//! A flag wins over the environment, the environment over the file, the file
//! over the default. Paths in the file are relative to the file, all others to
//! the current folder.

mod database;
mod engine;
mod file;
mod outbound;
mod server;

use std::env;
use std::path::{Path, PathBuf};

use windlass::{Lang, WatchOptions};

use crate::cli::Global;
use crate::exit::Failure;
pub(crate) use database::Database;
use file::File;
pub(crate) use outbound::OutboundSettings;
pub(crate) use server::ServerSettings;

/// The name of the settings file; it marks the root of a project.
pub(crate) const FILE: &str = "windlass.yaml";
/// Where definitions are if nobody says otherwise.
const TOOLS: &str = "tools";

/// Everything that can be set, resolved.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The settings file, where there is one.
    pub(crate) file: Option<PathBuf>,
    /// Where definitions are read from.
    pub(crate) tools: Vec<ToolsFolder>,
    /// Where records are kept.
    pub(crate) database: Database,
    /// The language of descriptions and errors.
    pub(crate) lang: Lang,
    /// How a server looks for changed definitions, if it does.
    pub(crate) reload: Option<WatchOptions>,
    /// What the engine is built with.
    pub(crate) engine: windlass::Settings,
    /// How a server listens.
    pub(crate) server: ServerSettings,
    /// What tools may reach outside of the program.
    pub(crate) outbound: OutboundSettings,
}

/// A folder of definitions.
#[derive(Debug)]
pub(crate) struct ToolsFolder {
    pub(crate) path: PathBuf,
    /// Whether somebody asked for it; the default folder may be missing.
    pub(crate) asked_for: bool,
}

impl Settings {
    /// Resolves the settings of this run.
    pub(crate) fn resolve(global: &Global) -> Result<Self, Failure> {
        let here = env::current_dir().map_err(|error| {
            Failure::usage(format!("the current folder cannot be read: {error}"))
        })?;
        let (root, path) = find_project(global.project.as_deref(), &here)?;
        let file = path.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let base = root.as_deref().unwrap_or(Path::new(""));
        Ok(Self {
            tools: tools_folders(global, file.tools_directory.as_deref(), base)?,
            database: Database::resolve(global, file.database.as_deref(), root.as_deref())?,
            lang: lang(global)?.or(file.lang).unwrap_or_default(),
            reload: file.auto_reload.unwrap_or(true).then(|| WatchOptions {
                interval: file.reload_interval.unwrap_or(WatchOptions::default().interval),
                notify: file.watch_for_changes.unwrap_or(false),
            }),
            engine: file.engine,
            server: ServerSettings::resolve(file.server, base)?,
            outbound: OutboundSettings::default(),
            file: path,
        })
    }

    /// The settings in words, for `-v`.
    pub(crate) fn describe(&self) -> String {
        let file = match &self.file {
            Some(path) => path.display().to_string(),
            None => format!("no {FILE}"),
        };
        let tools: Vec<String> =
            self.tools.iter().map(|folder| folder.path.display().to_string()).collect();
        let reload = match &self.reload {
            None => "off".to_owned(),
            Some(WatchOptions { interval, notify }) => {
                let how = if *notify { ", and at once when told" } else { "" };
                format!("every {}{how}", windlass::duration::format(*interval))
            }
        };
        format!(
            "settings: {file}\ntools: {}\ndatabase: {}\nreload (when serving): {reload}\n{}",
            tools.join(", "),
            self.database.describe(),
            engine::describe(&self.engine),
        )
    }
}

/// The root of the project and its settings file.
fn find_project(
    named: Option<&Path>,
    here: &Path,
) -> Result<(Option<PathBuf>, Option<PathBuf>), Failure> {
    if let Some(root) = named {
        if !root.is_dir() {
            return Err(Failure::usage(format!("--project {}: no such folder", root.display()))
                .hint(format!("`windlass init {}` makes one", root.display())));
        }
        let file = root.join(FILE);
        let file = file.is_file().then_some(file);
        return Ok((Some(root.to_owned()), file));
    }
    let home = env::home_dir();
    for folder in here.ancestors() {
        let file = folder.join(FILE);
        if file.is_file() {
            // Messages name what is in the current folder as people do.
            let root = if folder == here { Path::new("") } else { folder };
            return Ok((Some(root.to_owned()), Some(root.join(FILE))));
        }
        if Some(folder) == home.as_deref() {
            break;
        }
    }
    Ok((None, None))
}

fn tools_folders(
    global: &Global,
    in_file: Option<&Path>,
    base: &Path,
) -> Result<Vec<ToolsFolder>, Failure> {
    let named: Vec<(PathBuf, &str)> = match variable("WINDLASS_TOOLS") {
        _ if !global.tools.is_empty() => {
            global.tools.iter().map(|path| (path.clone(), "--tools")).collect()
        }
        Some(paths) => env::split_paths(&paths).map(|path| (path, "WINDLASS_TOOLS")).collect(),
        None => {
            let asked_for = in_file.is_some();
            let path = base.join(in_file.unwrap_or(Path::new(TOOLS)));
            return Ok(vec![ToolsFolder { path, asked_for }]);
        }
    };
    if let Some((path, from)) = named.iter().find(|(path, _)| !path.is_dir()) {
        let what = if path.exists() { "not a folder" } else { "no such folder" };
        return Err(Failure::usage(format!("{from} {}: {what}", path.display()))
            .hint("name a folder with tool definitions in *.yaml or *.json files"));
    }
    Ok(named.into_iter().map(|(path, _)| ToolsFolder { path, asked_for: true }).collect())
}

fn lang(global: &Global) -> Result<Option<Lang>, Failure> {
    if let Some(lang) = global.lang {
        return Ok(Some(lang));
    }
    let parse = |tag: String| tag.parse().map_err(|why| format!("WINDLASS_LANG: {why}"));
    variable("WINDLASS_LANG").map(parse).transpose().map_err(Failure::usage)
}

/// A variable of the environment; an empty one is as good as none.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
