//! Checks that the tools that agents name exist.
//!
//! They may be defined anywhere: in other files, in this program, in imports that the
//! database keeps. So names are resolved at the end.

use std::collections::HashSet;

use windlass::definition::{Definition, ProviderSpec};
use windlass::{Engine, Kind, ToolName};

use super::Finding;
use super::examine::LocatedDefinition;
use crate::cli::exit::Failure;
use crate::cli::output::Screen;
use crate::installation::{Installation, block_on};
use crate::settings::Settings;
use crate::wiring;

/// Names that are known, and those that agents ask for.
#[derive(Default)]
pub(super) struct AgentToolNames {
    known: HashSet<String>,
    /// Servers whose tools are not known before they are asked.
    servers: Vec<String>,
    asked: Vec<(String, Finding)>,
}

impl AgentToolNames {
    /// Tools that are defined.
    pub(super) fn add(&mut self, tools: &[Definition]) {
        let both = |tool: &Definition| [tool.spec.name.to_string(), tool.spec.name.wire()];
        self.known.extend(tools.iter().flat_map(both));
    }

    /// Servers of tools.
    pub(super) fn add_servers<'p>(
        &mut self,
        providers: impl IntoIterator<Item = &'p ProviderSpec>,
    ) {
        let servers = providers.into_iter().filter(|provider| provider.mcp.is_some());
        self.servers.extend(servers.map(|server| server.name.clone()));
    }

    /// The tools that an agent names.
    pub(super) fn ask(&mut self, place: &LocatedDefinition<'_>) {
        let spec = &place.definition.spec;
        if spec.kind != Kind::Agent {
            return;
        }
        let named = spec.entry.config.get("tools").and_then(|tools| tools.as_array());
        for (index, name) in named.into_iter().flatten().enumerate() {
            let Some(name) = name.as_str().filter(|name| !name.contains('*')) else { continue };
            let message = format!("the agent names the tool `{name}`, which is not there");
            let finding = place.at(&format!("tools/{index}"), message, String::new());
            self.asked.push((name.to_owned(), finding));
        }
    }

    /// What agents name and nobody defines.
    pub(super) fn unknown(mut self, settings: &Settings, screen: &Screen) -> Vec<Finding> {
        let mut asked = std::mem::take(&mut self.asked);
        asked.retain(|(name, _)| !self.has(name));
        if !asked.is_empty() {
            // What is wrong with the project's own definitions is told by the check
            // itself, with its place.
            let quiet = Screen { quiet: true, ..*screen };
            let project = Installation::to_look_at(settings, quiet);
            self.add_servers(wiring::providers(settings).values());
            self.add_engine(project.defined());
            asked.retain(|(name, _)| !self.has(name));
            // Imports may have thousands of tools: they are read only for the rest.
            if !asked.is_empty() {
                self.add_engine(block_on(project.catalogue()));
                asked.retain(|(name, _)| !self.has(name));
            }
        }
        let known = self.known;
        asked
            .into_iter()
            .map(|(name, finding)| {
                let near = known
                    .iter()
                    .map(|own| (strsim::jaro_winkler(own, &name), own))
                    .filter(|(likeness, _)| *likeness > 0.85)
                    .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)));
                let hint = match near {
                    Some((_, near)) => format!("did you mean `{near}`?"),
                    None => "`windlass tools` lists all tools".to_owned(),
                };
                Finding { hint: Some(hint), ..finding }
            })
            .collect()
    }

    /// Whether a tool of this name is known, or may be one of a server.
    fn has(&self, name: &str) -> bool {
        let of_server = |server: &String| {
            name.strip_prefix(server.as_str()).is_some_and(|rest| rest.starts_with(['/', '_']))
        };
        let wire = || ToolName::new(name).map(|name| name.wire()).unwrap_or_default();
        self.known.contains(name)
            || self.known.contains(&wire())
            || self.servers.iter().any(of_server)
    }

    fn add_engine(&mut self, engine: Result<Engine, Failure>) {
        let tools = engine.map(|engine| engine.registry().list()).unwrap_or_default();
        self.known.extend(crate::state::imports::names_of(&tools));
    }
}
