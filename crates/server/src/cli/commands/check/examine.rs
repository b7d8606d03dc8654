//! Checks definitions as the engine would, and continues past the first error: to
//! definitions that no executor can run, and to lint advice.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass::definition::{
    Definition, DefinitionLimits, ImportRequest, LibrarySpec, LoadError, LoadedFile, ResourceBody,
    lint, load_folder, parse_all, read_file,
};
use windlass::{BoxFuture, Call, Engine, Error, ErrorKind, Executor, Kind, Output, SettingFlaw};
use windlass_executors::sql;

use super::names::AgentToolNames;
use super::{CheckReport, Finding, Severity};
use crate::cli::exit::Failure;
use crate::cli::output::Screen;
use crate::settings::{OutboundSettings, Settings};
use crate::state::imports;
use crate::wiring::Kinds;

/// Examines files and folders.
pub(super) fn examine(
    paths: &[PathBuf],
    settings: &Settings,
    screen: &Screen,
) -> Result<CheckReport, Failure> {
    let mut report = CheckReport::default();
    let mut names = AgentToolNames::default();
    let engine = Engine::builder().build()?;
    // Whether a definition can run does not depend on what it may reach.
    let kinds = Kinds::new(&OutboundSettings::default(), &settings.models);
    let mut owners: HashMap<String, String> = HashMap::new();
    for path in paths {
        let files = if path.is_dir() {
            let folder = load_folder(path);
            report.findings.extend(folder.errors.iter().map(error));
            folder.files
        } else {
            vec![read_one(path.clone())]
        };
        for file in files {
            report.files += 1;
            match &file.outcome {
                Err(errors) => report.findings.extend(errors.iter().map(error)),
                Ok(parsed) => {
                    report.tools += parsed.tools.len();
                    report.findings.extend(
                        parsed
                            .notes
                            .iter()
                            .map(|note| Finding { severity: Severity::Warning, ..error(note) }),
                    );
                    let name = file.path.display().to_string();
                    names.add(&parsed.tools);
                    names.add_servers(&parsed.providers);
                    files_of(&name, &parsed.library, &mut report);
                    for definition in &parsed.tools {
                        let place = LocatedDefinition { file: &name, definition };
                        let owner = owners.insert(definition.spec.name.to_string(), name.clone());
                        // The same file named twice is no conflict.
                        if let Some(owner) = owner.filter(|owner| *owner != name) {
                            report.findings.push(place.error(format!(
                                "the tool `{}` is already defined in {owner}",
                                definition.spec.name
                            )));
                        }
                        report.findings.extend(place.examine(&engine, &kinds));
                        report.findings.extend(place.settings(settings, &kinds));
                        names.ask(&place);
                    }
                    for request in &parsed.imports {
                        names.add(&document(&file.path, request, &mut report));
                    }
                }
            }
        }
    }
    report.findings.extend(names.unknown(settings, screen));
    Ok(report)
}

/// Files that resources are read from.
fn files_of(file: &str, library: &LibrarySpec, report: &mut CheckReport) {
    for resource in &library.resources {
        let ResourceBody::File(path) = &resource.body else { continue };
        if !Path::new(path).is_file() {
            report.findings.push(Finding {
                severity: Severity::Error,
                file: file.to_owned(),
                line: resource.line,
                column: resource.column,
                message: format!("there is no file `{path}`"),
                hint: Some("a path is relative to where the program runs".to_owned()),
            });
        }
    }
}

/// Examines the document that a provider names: its words are the API's, but
/// whether they can be read is to be known.
fn document(file: &Path, request: &ImportRequest, report: &mut CheckReport) -> Vec<Definition> {
    let finding = |severity, message| Finding {
        severity,
        file: file.display().to_string(),
        line: request.line,
        column: request.column,
        message,
        hint: None,
    };
    match imports::named_by(request, file.parent().unwrap_or(Path::new(""))) {
        Ok((parsed, unsupported)) => {
            report.tools += parsed.tools.len();
            report.findings.extend(unsupported.into_iter().map(|one| {
                let message = format!("{} is no tool: {}", one.operation, one.reason);
                finding(Severity::Warning, message)
            }));
            parsed.tools
        }
        Err(error) => {
            report.findings.push(finding(Severity::Error, error.message().to_owned()));
            Vec::new()
        }
    }
}

fn read_one(path: PathBuf) -> LoadedFile {
    let limits = DefinitionLimits::default();
    let outcome = read_file(&path, &limits)
        .map_err(|error| vec![error])
        .and_then(|text| parse_all(&path.display().to_string(), &text, &limits));
    LoadedFile { path, outcome }
}

/// A definition and the file that it is in.
pub(super) struct LocatedDefinition<'a> {
    file: &'a str,
    pub(super) definition: &'a Definition,
}

impl LocatedDefinition<'_> {
    fn examine(&self, engine: &Engine, kinds: &Kinds) -> Vec<Finding> {
        let definition = self.definition;
        let mut findings = Vec::new();
        let executor = kinds.bind(&definition.spec).unwrap_or_else(|error| {
            if error.kind() == ErrorKind::InvalidDefinition {
                let flaws = error.flaws().iter();
                let at = |flaw: &SettingFlaw| {
                    self.at(&flaw.key, flaw.message.clone(), flaw.hint.clone())
                };
                match error.flaws() {
                    [] => findings.push(self.error(error.message().to_owned())),
                    _ => findings.extend(flaws.map(at)),
                }
                return Arc::new(Nothing);
            }
            // Native functions are in the program that embeds the engine; only it knows them.
            if definition.spec.kind != Kind::Native {
                let severity = Severity::Warning;
                let message = format!("`{}` cannot run here: {error}", definition.spec.name);
                findings.push(Finding { severity, ..self.error(message) });
            }
            Arc::new(Nothing)
        });
        match engine.registry().replace(definition.clone().builder(executor)) {
            Ok(tool) => findings.extend(tool.unchecked().map(|why| Finding {
                severity: Severity::Warning,
                ..self.error(format!("tool `{}`: {why}", tool.name()))
            })),
            Err(error) => findings.push(self.error(error.message().to_owned())),
        }
        findings.extend(lint(definition).into_iter().map(|lint| Finding {
            severity: Severity::Warning,
            file: self.file.to_owned(),
            line: lint.line,
            column: lint.column,
            message: lint.message,
            hint: Some(lint.hint),
        }));
        findings
    }

    /// What is wrong with the settings of the entry, each where it is written.
    fn settings(&self, settings: &Settings, kinds: &Kinds) -> Vec<Finding> {
        let spec = &self.definition.spec;
        let mut flaws = kinds.flaws(spec);
        let databases = &settings.outbound.databases;
        if let Some(name) = sql::database_named(spec)
            && !databases.contains_key(name)
        {
            let known: Vec<String> = databases.keys().map(|own| format!("`{own}`")).collect();
            flaws.push(SettingFlaw {
                key: "database".into(),
                message: format!("there is no database `{name}`"),
                hint: match known.as_slice() {
                    [] => "name one under `outbound.databases` of windlass.yaml".to_owned(),
                    known => format!("`outbound.databases` has {}", known.join(", ")),
                },
            });
        }
        flaws.into_iter().map(|flaw| self.at(&flaw.key, flaw.message, flaw.hint)).collect()
    }

    /// What is wrong with a setting.
    pub(super) fn at(&self, key: &str, message: String, hint: String) -> Finding {
        let (line, column) = self.definition.setting_at(key);
        let hint = Some(hint).filter(|hint| !hint.is_empty());
        Finding { line, column, hint, ..self.error(message) }
    }

    fn error(&self, message: String) -> Finding {
        Finding {
            severity: Severity::Error,
            file: self.file.to_owned(),
            line: self.definition.line,
            column: self.definition.column,
            message,
            hint: None,
        }
    }
}

fn error(error: &LoadError) -> Finding {
    Finding {
        severity: Severity::Error,
        file: error.file.clone(),
        line: error.line,
        column: error.column,
        message: error.message.clone(),
        hint: error.hint.clone(),
    }
}

/// Stands in for code that is not here; it is never called.
struct Nothing;

impl Executor for Nothing {
    fn execute<'a>(&'a self, _call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(std::future::ready(Ok(Output::default())))
    }
}
