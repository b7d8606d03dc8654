//! `windlass agent`: runs agents, and resumes runs that were interrupted.

mod show;

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass::{CallId, CallRequest, CallResult, Context, Engine, Kind, Tool, duration};
use windlass_executors::agent::{RunEntry, RunLog, RunScope};

use crate::cli::arguments;
use crate::cli::context::{ContextArgs, Stdin};
use crate::cli::exit::{Exit, Failure};
use crate::cli::finish::finish;
use crate::cli::follow::{ProgressWatch, follow};
use crate::cli::interrupt::Interrupts;
use crate::cli::options;
use crate::cli::output::{Grid, Screen, cell, nearest, strong};
use crate::installation::{Installation, block_on};
use crate::mcp::CommandServers;

use crate::settings::Settings;
pub(crate) use show::RunDisplay;

/// What the names of agents' tools may begin with.
const PREFIX: &str = "invoke_";

/// Run agents
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    command: Option<AgentCommand>,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// List the agents (the default)
    List,
    /// Run an agent
    Run(RunArgs),
    /// Resume an interrupted run
    Resume(ResumeArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The agent's name
    name: String,
    /// A message; or arguments as `windlass call` takes them: JSON, @file.json, key=value
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    /// Timeout of the run, overriding the agent's own: 30s, 2m
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
    #[command(flatten)]
    context: ContextArgs,
}

#[derive(Debug, Args)]
struct ResumeArgs {
    /// The run's id
    run: String,
}

fn after_help() -> String {
    let examples = options::examples(&[
        ("See which agents there are", "windlass agent"),
        ("Ask one", "windlass agent run helper 'What is 6 * 7?'"),
        (
            "With the arguments that it declares",
            "windlass agent run policy_expert query='QMAS points'",
        ),
        ("For a script", "windlass agent run helper 'What is 6 * 7?' --json | jq .output"),
        ("Go on after a crash", "windlass agent resume 019a2b3c-0000-7000-8000-000000000000"),
    ]);
    format!("{examples}\n\n{}", options::exit_codes())
}

/// Runs the command.
pub(crate) fn run(args: AgentArgs, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    match args.command.unwrap_or(AgentCommand::List) {
        AgentCommand::List => list(settings, screen),
        AgentCommand::Run(args) => block_on(async {
            let installation = Installation::new(settings, screen);
            let engine = installation.engine().await?;
            let (tool, request) = asked(&args, &engine)?;
            run_one(&installation, &engine, &tool, request).await
        }),
        AgentCommand::Resume(args) => block_on(async {
            let installation = Installation::new(settings, screen);
            let engine = installation.engine().await?;
            let (tool, request) = kept(&args.run, &installation, &engine).await?;
            run_one(&installation, &engine, &tool, request).await
        }),
    }
}

fn list(settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    let installation = Installation::to_look_at(settings, screen);
    let engine = block_on(installation.catalogue())?;
    let agents: Vec<Arc<Tool>> = agents(&engine).collect();
    if screen.json {
        let all: Vec<_> = agents.iter().map(|tool| json!(tool.spec())).collect();
        screen.document(&all)?;
        return Ok(Exit::Success);
    }
    if agents.is_empty() {
        screen.note("there are no agents; a definition with `kind: agent` is one");
        return Ok(Exit::Success);
    }
    let mut table = Grid::new(&["!AGENT", "MODEL", ">TOOLS", "DESCRIPTION"]).one_line();
    for tool in &agents {
        let spec = tool.spec();
        let of = |key: &str| spec.entry.config.get(key);
        let tools = of("tools").and_then(|tools| tools.as_array()).map_or(0, Vec::len);
        table.row([
            strong(name_of(tool)),
            cell(of("model").and_then(|model| model.as_str()).unwrap_or_default()),
            cell(tools.to_string()),
            cell(spec.description.get(settings.lang)),
        ]);
    }
    screen.table(&table)?;
    Ok(Exit::Success)
}

fn agents(engine: &Engine) -> impl Iterator<Item = Arc<Tool>> {
    engine.registry().list().into_iter().filter(|tool| tool.spec().kind == Kind::Agent)
}

pub(super) fn name_of(tool: &Tool) -> &str {
    let name = tool.name().as_str();
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// The agent of a name, with or without the prefix of its tool.
pub(super) fn find(engine: &Engine, name: &str) -> Result<Arc<Tool>, Failure> {
    let found = [name.to_owned(), format!("{PREFIX}{name}")].into_iter().find_map(|name| {
        engine.registry().get(&name).filter(|tool| tool.spec().kind == Kind::Agent)
    });
    found.ok_or_else(|| {
        let failure = Failure::new(Exit::NotFound, format!("there is no agent `{name}`"));
        let known: Vec<Arc<Tool>> = agents(engine).collect();
        match nearest(name, known.iter().map(|tool| name_of(tool))) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`windlass agent` lists all agents"),
        }
    })
}

/// The run that was asked for.
fn asked(args: &RunArgs, engine: &Engine) -> Result<(Arc<Tool>, CallRequest), Failure> {
    let tool = find(engine, &args.name)?;
    let values = match args.arguments.as_slice() {
        [message] if is_message(message, tool.model_schema()) => json!({"message": message}),
        words => arguments::read(words, Some(tool.model_schema()))?,
    };
    let stdin = match arguments::take_stdin(&args.arguments) {
        true => Stdin::Taken,
        false => Stdin::Free,
    };
    let request = CallRequest::new(tool.name().as_str(), values);
    let request = args.timeout.into_iter().fold(request, CallRequest::timeout);
    let context = args.context.resolve(stdin)?;
    Ok((tool, request.context(context)))
}

/// Whether a single word is a message: one that is no argument. `x = 1` is one, too,
/// unless the agent has a parameter `x`.
fn is_message(word: &str, schema: &Value) -> bool {
    let is_parameter = |key: &str| schema["properties"].get(key).is_some();
    match word.split_once('=') {
        _ if word.starts_with(['{', '@', '-']) => false,
        Some((key, _)) => {
            !is_parameter(key.strip_suffix(':').unwrap_or(key)) && is_parameter("message")
        }
        None => true,
    }
}

/// A run that was cut off, to go on.
async fn kept(
    run: &str,
    installation: &Installation<'_>,
    engine: &Engine,
) -> Result<(Arc<Tool>, CallRequest), Failure> {
    let runs = installation.runs().await?;
    let entries = runs.read(&windlass::TenantId::default(), run).await?;
    let Some(RunEntry::Began { tool, input, conversation, user, .. }) = entries.into_iter().next()
    else {
        return Err(Failure::new(Exit::NotFound, format!("there is no run `{run}`"))
            .hint("`windlass calls` lists what was called; a run has the id of its first call"));
    };
    let tool = find(engine, &tool)?;
    let context = Context::new(windlass::Caller {
        caller_type: windlass::CallerType::Direct,
        conversation: conversation.map(Into::into),
        user: user.map(Into::into),
        ..windlass::Caller::default()
    });
    let context = context.object(RunScope { parent: None, run: run.into() });
    Ok((Arc::clone(&tool), CallRequest::new(tool.name().as_str(), input).context(context)))
}

async fn run_one(
    installation: &Installation<'_>,
    engine: &Engine,
    tool: &Tool,
    request: CallRequest,
) -> Result<Exit, Failure> {
    let (settings, screen) = (installation.settings, installation.screen);
    let upstream = CommandServers::all(installation, engine).await?;
    let mut interrupts = Interrupts::listen()?;
    let telling = RunDisplay::new(name_of(tool), screen);
    let result = one(engine, request, &telling, &mut interrupts).await?;
    let stored = finish(engine, &settings.database, screen, &mut interrupts).await;
    upstream.stop().await;
    let exit = telling.end(&result, settings.lang)?;
    if let Err(error) = stored {
        screen.error(format_args!("the run ended, but its record was not kept: {error}"));
        return Ok(Exit::Storage);
    }
    Ok(exit)
}

/// One call of an agent, told while it runs.
pub(super) async fn one(
    engine: &Engine,
    request: CallRequest,
    telling: &RunDisplay,
    interrupts: &mut Interrupts,
) -> Result<CallResult, Failure> {
    let request = request.id(CallId::at(jiff::Timestamp::now())).object(telling.listener());
    let work =
        |engine: Engine, token| async move { engine.call(request.cancel_token(token)).await };
    Ok(follow(engine, work, ProgressWatch::Nothing, interrupts).await?.value)
}
