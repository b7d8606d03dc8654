//! `windlass tools`: lists the tools, shows one, and exports both in the formats of
//! model APIs.

mod detail;
mod example;

use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use windlass::definition::{Format, declarations, export};
use windlass::{Engine, Lang, Tool, ToolSpec};

use crate::cli::exit::{Exit, Failure};
use crate::cli::options;
use crate::cli::output::{Grid, Screen, cell, count, strong};
use crate::installation::{Installation, block_on};
use crate::mcp::CommandServers;
use crate::settings::Settings;

/// List the tools, or show one of them
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct ToolsArgs {
    /// Show this tool: its parameters, behaviour and an example
    name: Option<String>,
    /// Print declarations for a model API: anthropic, openai, responses, gemini or mcp
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Only tools whose name, description or tags contain this text
    #[arg(short, long, value_name = "TEXT", conflicts_with = "name")]
    search: Option<String>,
    /// Only tools of this group
    #[arg(long, conflicts_with = "name")]
    group: Option<String>,
    /// Only tools of this category
    #[arg(long, conflicts_with = "name")]
    category: Option<String>,
    /// Only tools of this kind: builtin, native, rest, mcp, …
    #[arg(long, conflicts_with = "name")]
    kind: Option<String>,
    /// Only tools with this tag
    #[arg(long, conflicts_with = "name")]
    tag: Option<String>,
}

fn after_help() -> String {
    options::examples(&[
        ("Everything there is", "windlass tools"),
        ("Find one", "windlass tools --search time"),
        ("What it takes, with an example", "windlass tools calculator"),
        ("Declarations for the `tools` of a request", "windlass tools --format anthropic"),
        ("Names only", "windlass tools --json | jq -r '.[].name'"),
    ])
}

/// Runs the command.
pub(crate) fn run(args: &ToolsArgs, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    block_on(async {
        let mut installation = Installation::to_look_at(settings, screen);
        let engine = installation.catalogue_of_servers().await?;
        let upstream = match &args.name {
            Some(name) => {
                let names = std::iter::once(name.as_str());
                CommandServers::of_tools(&installation, &engine, names).await?
            }
            None => CommandServers::all(&installation, &engine).await?,
        };
        let shown = show(args, &engine, settings.lang, screen);
        upstream.stop().await;
        shown
    })
}

fn show(args: &ToolsArgs, engine: &Engine, lang: Lang, screen: Screen) -> Result<Exit, Failure> {
    if let Some(name) = &args.name {
        let tool = engine.registry().get(name).ok_or_else(|| unknown(engine, name))?;
        match args.format {
            // One declaration, not a list of one.
            Some(format) => screen.document(&export([&*tool], format, lang)[0])?,
            None if screen.json => screen.document(&FullTool::of(&tool))?,
            None => detail::show(&tool, lang, screen)?,
        }
        return Ok(Exit::Success);
    }
    if let Some(format) = args.format {
        // A model is shown only what it may call.
        let mut tools = engine.active_tools(None);
        tools.retain(|tool| args.admits(tool));
        screen.documents(declarations(tools.iter().map(|tool| &**tool), format, lang))?;
        return Ok(Exit::Success);
    }
    let mut tools = engine.registry().list();
    tools.retain(|tool| args.admits(tool));
    if screen.json {
        screen.documents(tools.iter().map(|tool| FullTool::of(tool)))?;
    } else {
        list(&tools, lang, screen)?;
    }
    Ok(Exit::Success)
}

fn list(tools: &[Arc<Tool>], lang: Lang, screen: Screen) -> Result<(), Failure> {
    if tools.is_empty() {
        screen.note("no tool is like that; `windlass tools` lists all");
        return Ok(());
    }
    let mut table = Grid::new(&["!NAME", "!KIND", "CATEGORY", "DESCRIPTION"]).one_line();
    for tool in tools {
        let spec = tool.spec();
        table.row([
            strong(spec.name.as_str()),
            cell(spec.kind.name()),
            cell(spec.category.as_str()),
            cell(spec.description.get(lang)),
        ]);
    }
    let people_read_it = table.on_terminal();
    screen.table(&table)?;
    if people_read_it {
        let number = count(tools.len(), "tool");
        screen.note(format_args!("{number}; `windlass tools NAME` shows what one takes"));
    }
    Ok(())
}

impl ToolsArgs {
    fn admits(&self, tool: &Tool) -> bool {
        let spec = tool.spec();
        let is = |wanted: &Option<String>, own: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(own))
        };
        is(&self.group, spec.group.as_deref().unwrap_or_default())
            && is(&self.category, spec.category.as_str())
            && is(&self.kind, spec.kind.name())
            && self.tag.as_ref().is_none_or(|tag| spec.tags.contains(tag))
            && self.search.as_ref().is_none_or(|text| contains(tool, text))
    }
}

fn contains(tool: &Tool, text: &str) -> bool {
    let spec = tool.spec();
    let text = text.to_lowercase();
    let has = |own: &str| own.to_lowercase().contains(&text);
    has(spec.name.as_str())
        || [Lang::En, Lang::Zh].iter().any(|lang| has(spec.description.get(*lang)))
        || spec.tags.iter().any(|tag| has(tag))
}

/// Everything about a tool, for programs.
#[derive(Serialize)]
struct FullTool<'t> {
    #[serde(flatten)]
    spec: &'t ToolSpec,
    source: &'t str,
    model_schema: &'t Value,
}

impl<'t> FullTool<'t> {
    fn of(tool: &'t Tool) -> Self {
        Self { spec: tool.spec(), source: tool.source(), model_schema: tool.model_schema() }
    }
}

fn unknown(engine: &Engine, name: &str) -> Failure {
    let near = engine.registry().nearest(name);
    let failure = Failure::new(Exit::NotFound, format!("there is no tool `{name}`"));
    match near.as_slice() {
        [] => failure.hint("`windlass tools` lists all tools"),
        near => {
            let names: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
            failure.hint(format!("did you mean {}?", names.join(", ")))
        }
    }
}
