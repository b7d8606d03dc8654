//! Configuration: flags, environment and `windlass.yaml` are resolved into one
//! checked [`Settings`], once.
//!
//! Flags override the environment, the environment overrides the file, and the file
//! overrides the defaults. Paths in the file are relative to the file, all others to
//! the working directory.

mod approvals;
mod database;
mod effective;
mod engine;
mod file;
mod layers;
mod log;
mod models;
mod outbound;
mod raw;
mod server;
mod table;
mod telemetry;
mod tenant_quotas;
mod value;

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use windlass::{ApprovalRules, Lang, TenantId, WatchOptions};
use windlass_executors::model::ModelSettings;
use windlass_workflow::RunLimits;

use crate::cli::exit::Failure;
use crate::cli::options::Global;
use crate::state::quota::QuotaSettings;
pub(crate) use database::DatabaseLocation;
pub(crate) use effective::Effective;
use layers::Layers;
pub(crate) use layers::{Flag, SettingOrigin};
#[cfg(test)]
pub(crate) use log::LogLevel;
pub(crate) use log::{LogFormat, LogSettings};
pub(crate) use outbound::OutboundSettings;
pub(crate) use raw::{RecordSettings, SearchSettings};
pub(crate) use server::ServerSettings;
pub(crate) use telemetry::{Headers, TelemetrySettings};

/// The name of the settings file; it marks the root of a project.
pub(crate) const FILE: &str = "windlass.yaml";
/// The default folder of definitions.
const TOOLS: &str = "tools";

/// Everything that can be set, resolved.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The settings file, where there is one.
    pub(crate) file: Option<PathBuf>,
    /// Where definitions are read from.
    pub(crate) tools: Vec<ToolsFolder>,
    /// Where records are kept.
    pub(crate) database: DatabaseLocation,
    /// The language of descriptions and errors.
    pub(crate) lang: Lang,
    /// How a server looks for changed definitions, if it does.
    pub(crate) reload: Option<WatchOptions>,
    /// What the engine is built with.
    pub(crate) engine: windlass::EngineSettings,
    /// How a server listens.
    pub(crate) server: ServerSettings,
    /// What tools may reach outside of the program.
    pub(crate) outbound: OutboundSettings,
    /// How much is kept of the past.
    pub(crate) records: RecordSettings,
    /// The configured master key file.
    pub(crate) key_file: Option<PathBuf>,
    /// What a server logs.
    pub(crate) log: LogSettings,
    /// Where its traces go.
    pub(crate) telemetry: TelemetrySettings,
    /// Who answers, where, and for how much.
    pub(crate) models: ModelSettings,
    /// How tools are found.
    pub(crate) search: SearchSettings,
    /// The operator's rules about calls.
    pub(crate) approvals: ApprovalRules,
    /// Quotas of tenants and keys.
    pub(crate) quotas: QuotaSettings,
    /// What workflows and their runs may use.
    pub(crate) workflows: RunLimits,
    /// Those of single tenants instead.
    pub(crate) tenant_quotas: BTreeMap<TenantId, QuotaSettings>,
    /// Whether the program that embeds this brings engine settings and tools of
    /// its own, in place of those of a project.
    pub(crate) embedded: Option<Embedded>,
    /// Every setting, and where it came from.
    pub(crate) effective: Vec<Effective>,
    /// What is odd and no reason to stop.
    pub(crate) warnings: Vec<String>,
}

/// What a program that embeds the server wants of the project's usual things.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Embedded {
    /// The built-in tools.
    pub(crate) builtin_tools: bool,
}

/// A folder of definitions.
#[derive(Debug)]
pub(crate) struct ToolsFolder {
    pub(crate) path: PathBuf,
    /// Whether it was configured; the default folder may be missing.
    pub(crate) asked_for: bool,
}

impl Settings {
    /// Resolves the settings of this run. The flags are those of a command; what
    /// all commands take is heard anyway.
    pub(crate) fn resolve(global: &Global, flags: Vec<Flag>) -> Result<Self, Failure> {
        let here = env::current_dir().map_err(|error| {
            Failure::usage(format!("the current folder cannot be read: {error}"))
        })?;
        let project = find_project(global.project.as_deref(), &here)?;
        Self::of_found(project, &[global.flags()?, flags].concat())
    }

    /// The settings of the project in this folder, for a program that embeds the
    /// server.
    pub(crate) fn of_project(folder: &Path, flags: &[Flag]) -> Result<Self, Failure> {
        Self::of_found(find_project(Some(folder), folder)?, flags)
    }

    fn of_found((root, path): Project, flags: &[Flag]) -> Result<Self, Failure> {
        let base = root.as_deref().unwrap_or(Path::new(""));
        let mut layers = Layers::read(path.as_deref(), base, flags)?;
        let raw = &mut layers.raw;
        if raw.tools_directory.is_empty() {
            raw.tools_directory = vec![base.join(TOOLS)];
        }
        if raw.database.is_none() {
            raw.database = Some(DatabaseLocation::default_for(root.as_deref())?);
        }
        Self::of_layers(layers, path, None)
    }

    /// The settings of a program that embeds the server: what it says, and the
    /// defaults. No file and no variable of the environment is heard.
    pub(crate) fn of_program(flags: &[Flag], embedded: Embedded) -> Result<Self, Failure> {
        Self::of_layers(Layers::of_flags(flags)?, None, Some(embedded))
    }

    fn of_layers(
        layers: Layers,
        path: Option<PathBuf>,
        embedded: Option<Embedded>,
    ) -> Result<Self, Failure> {
        let effective = effective::all(&layers);
        let tools = tools_folders(&layers)?;
        let Layers { raw, warnings, .. } = layers;
        let tenant_quotas = raw.tenant_quotas.resolve(&raw.quotas);
        Ok(Self {
            tools,
            database: raw.database.unwrap_or(DatabaseLocation::Memory),
            lang: raw.lang,
            reload: raw.auto_reload.then_some(WatchOptions {
                interval: raw.reload_interval,
                notify: raw.watch_for_changes,
            }),
            engine: with_quotas(raw.engine, &raw.quotas, &tenant_quotas),
            server: ServerSettings::resolve(raw.server)?,
            outbound: raw.outbound,
            records: raw.records,
            key_file: raw.key_file,
            log: raw.log,
            telemetry: raw.telemetry,
            models: raw.models,
            search: raw.search,
            approvals: raw.approvals,
            quotas: raw.quotas,
            workflows: raw.workflows,
            tenant_quotas,
            embedded,
            effective,
            warnings,
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

/// The engine counts the quotas of calls.
fn with_quotas(
    mut engine: windlass::EngineSettings,
    quotas: &QuotaSettings,
    tenants: &BTreeMap<TenantId, QuotaSettings>,
) -> windlass::EngineSettings {
    engine.quotas = quotas.calls();
    let of = |(tenant, own): (&TenantId, &QuotaSettings)| (tenant.clone(), own.calls());
    engine.tenant_quotas = tenants.iter().map(of).collect();
    engine
}

/// The root of a project and its settings file.
type Project = (Option<PathBuf>, Option<PathBuf>);

/// The given project, else the one that the working directory is in.
fn find_project(named: Option<&Path>, here: &Path) -> Result<Project, Failure> {
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

/// A folder that a person named just now must be there; the file's may be
/// made later.
fn tools_folders(layers: &Layers) -> Result<Vec<ToolsFolder>, Failure> {
    let origin = layers.origin("tools_directory");
    let from = match &origin {
        SettingOrigin::Flag(flag) => Some((*flag).to_owned()),
        SettingOrigin::Variable(name) => Some(name.clone()),
        SettingOrigin::File(..) | SettingOrigin::Default => None,
    };
    let paths = &layers.raw.tools_directory;
    if let Some(from) = from
        && let Some(path) = paths.iter().find(|path| !path.is_dir())
    {
        let what = if path.exists() { "not a folder" } else { "no such folder" };
        return Err(Failure::usage(format!("{from} {}: {what}", path.display()))
            .hint("name a folder with tool definitions in *.yaml or *.json files"));
    }
    let asked_for = origin != SettingOrigin::Default;
    Ok(paths.iter().map(|path| ToolsFolder { path: path.clone(), asked_for }).collect())
}
