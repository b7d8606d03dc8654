//! `windlass chat`: an interactive session with an agent.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use windlass::{CallId, CallRequest, Engine, Usage};
use windlass_executors::agent::History;

use super::agent::{self, RunDisplay};
use crate::cli::context::{ContextArgs, Stdin};
use crate::cli::exit::{Exit, Failure};
use crate::cli::finish::finish;
use crate::cli::interrupt::Interrupts;
use crate::cli::options;
use crate::cli::output::Screen;
use crate::installation::{Installation, block_on};
use crate::mcp::CommandServers;
use crate::settings::Settings;

/// Talk to an agent
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct ChatArgs {
    /// The agent's name
    name: String,
    #[command(flatten)]
    context: ContextArgs,
}

fn after_help() -> String {
    let examples = options::examples(&[
        ("Talk to an agent; an empty line or Ctrl-D ends it", "windlass chat helper"),
        ("From a script, a message a line", "printf 'Hello\\nAnd now?\\n' | windlass chat helper"),
    ]);
    format!("{examples}\n\n{}", options::exit_codes())
}

/// Runs the command.
pub(crate) fn run(args: &ChatArgs, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    block_on(async {
        let installation = Installation::new(settings, screen);
        let engine = installation.engine().await?;
        talk(args, &installation, &engine).await
    })
}

async fn talk(
    args: &ChatArgs,
    installation: &Installation<'_>,
    engine: &Engine,
) -> Result<Exit, Failure> {
    let (settings, screen) = (installation.settings, installation.screen);
    let tool = agent::find(engine, &args.name)?;
    let conversation = CallId::at(Timestamp::now()).to_string();
    let context = args.context.resolve(Stdin::Taken)?;
    let context = context.in_conversation(conversation).object(History::default());
    let context = Arc::new(context);
    let is_terminal = io::stdin().is_terminal();
    let upstream = CommandServers::all(installation, engine).await?;
    let mut interrupts = Interrupts::listen()?;
    let (mut exit, mut total) = (Exit::Success, Usage::default());
    while let Some(message) = next(is_terminal, &mut interrupts).await? {
        let request = CallRequest::new(tool.name().as_str(), json!({"message": message}));
        let telling = RunDisplay::new(agent::name_of(&tool), screen);
        let request = request.context(Arc::clone(&context));
        let result = agent::one(engine, request, &telling, &mut interrupts).await?;
        exit = telling.end(&result, settings.lang)?;
        total += result.usage.as_deref().copied().unwrap_or_default();
    }
    let stored = finish(engine, &settings.database, screen, &mut interrupts).await;
    upstream.stop().await;
    screen.note(format_args!("all in all ${:.4}", total.cost_usd));
    if let Err(error) = stored {
        screen.error(format_args!("not all records were kept: {error}"));
        return Ok(Exit::Storage);
    }
    Ok(exit)
}

/// The next message; none at the end.
async fn next(is_terminal: bool, interrupts: &mut Interrupts) -> Result<Option<String>, Failure> {
    if is_terminal {
        anstream::eprint!("> ");
        let _ = io::stderr().flush();
    }
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    let line = tokio::select! {
        line = read => line.map_err(io::Error::other)??,
        () = interrupts.next() => return Ok(None),
    };
    let line = line.trim();
    Ok(Some(line.to_owned()).filter(|line| !line.is_empty()))
}
