//! `windlass batch`: runs the tool calls of one turn together.

mod input;
mod parsed_call;
mod show;
mod turns;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use windlass::{Batch, CallRequest, CancellationToken, Engine, duration};

use crate::cli::context::ContextArgs;
use crate::cli::exit::{Exit, Failure};
use crate::cli::finish::finish;
use crate::cli::follow::{ProgressWatch, follow};
use crate::cli::interrupt::Interrupts;
use crate::cli::options;
use crate::cli::output::Screen;
use crate::installation::{Installation, block_on};
use crate::mcp::CommandServers;
use crate::settings::Settings;
use parsed_call::ParsedCall;

/// Run the tool calls of one turn: in parallel where that is safe, with results in order
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct BatchArgs {
    /// A file with the calls, the calls themselves as JSON, or - for stdin [default: -]
    #[arg(value_name = "FILE")]
    input: Option<String>,
    /// Run the calls one after another, never in parallel
    #[arg(long)]
    serial: bool,
    /// Timeout for calls without one of their own: 500ms, 30s, 2m
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
    #[command(flatten)]
    context: ContextArgs,
    /// Reject arguments that would need repair, and unknown ones
    #[arg(long)]
    strict: bool,
    /// Print every event on stderr; with --json as JSON lines for a front end
    #[arg(long)]
    progress: bool,
    /// Print the results for the model: tool_result blocks, or messages with the role tool
    #[arg(long, value_name = "API")]
    format: Option<BatchFormat>,
}

/// Whose form the results have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BatchFormat {
    Anthropic,
    Openai,
}

fn after_help() -> String {
    let examples = options::examples(&[
        ("Calls from a file", "windlass batch calls.json"),
        (
            "Written by hand",
            r#"windlass batch '[{"tool": "weekday", "arguments": {"date": "2024-05-17"}}]'"#,
        ),
        (
            "What a model answered; the result is the next message's content",
            "windlass batch answer.json --format anthropic > results.json",
        ),
        ("A line a call", "windlass batch --json < calls.jsonl | jq '.[].output'"),
        ("See what runs together", "windlass batch calls.json --progress"),
    ]);
    format!(
        "{examples}\n\n{}\n\n{}",
        options::section("Input", input::FORMS),
        options::exit_codes()
    )
}

/// Runs the command.
pub(crate) fn run(
    args: &BatchArgs,
    mut settings: Settings,
    screen: Screen,
) -> Result<Exit, Failure> {
    if args.strict {
        settings.engine.strict_validation = true;
    }
    // Before anything is opened: a mistake in the input runs nothing.
    let (asked, stdin) = input::read(args.input.as_deref())?;
    let context = Arc::new(args.context.resolve(stdin)?);
    let view = show::BatchPrintOptions { lang: settings.lang, format: args.format };
    if asked.is_empty() {
        show::show(&[], &view, screen)?;
        return Ok(Exit::Success);
    }
    let names: BTreeSet<String> = asked.iter().map(|asked| asked.tool.clone()).collect();
    let requests: Vec<CallRequest> = asked
        .into_iter()
        .map(|asked| asked.request(args.timeout).context(Arc::clone(&context)))
        .collect();
    block_on(async {
        let installation = Installation::new(&settings, screen);
        let engine = installation.engine().await?;
        let names = names.iter().map(String::as_str);
        let upstream = CommandServers::of_tools(&installation, &engine, names).await?;
        let done = run_all(args, requests, &engine, &settings, &view, screen).await;
        upstream.stop().await;
        done
    })
}

async fn run_all(
    args: &BatchArgs,
    requests: Vec<CallRequest>,
    engine: &Engine,
    settings: &Settings,
    view: &show::BatchPrintOptions,
    screen: Screen,
) -> Result<Exit, Failure> {
    let watch = ProgressWatch::choose(args.progress, &screen, ProgressWatch::QueueEvents);
    let mut interrupts = Interrupts::listen()?;
    let turns = turns::listen(engine);
    let began = Instant::now();
    let serial = args.serial;
    let work = |engine: Engine, token: CancellationToken| async move {
        let requests = requests.into_iter().map(|request| request.cancel_token(token.clone()));
        engine.call_batch(Batch::new(requests).parallel(!serial)).await
    };
    let followed = follow(engine, work, watch, &mut interrupts).await?;
    let took = began.elapsed();
    // Results are printed only once their records are kept, so that what was
    // seen can also be looked up.
    let stored = finish(engine, &settings.database, screen, &mut interrupts).await;
    let turns = turns.collect().await;
    let results = followed.value;
    let rows: Vec<show::ResultRow<'_>> = results
        .iter()
        .map(|result| show::ResultRow { result, waited: turns.waited(result) })
        .collect();
    let shown =
        show::show(&rows, view, screen).and_then(|()| show::sum_up(&rows, took, view, screen));
    // A closed pipe does not change the exit code of the batch.
    shown.or_else(|failure| if failure.broken_pipe { Ok(()) } else { Err(failure) })?;
    if let Err(error) = stored {
        screen.error(format_args!("the calls ended, but not all records were kept: {error}"));
        return Ok(Exit::Storage);
    }
    let failed = results.iter().any(|result| !result.is_success());
    Ok(match (followed.cancelled, failed) {
        (true, true) => Exit::Cancelled,
        (_, true) => Exit::Failed,
        (_, false) => Exit::Success,
    })
}

impl ParsedCall {
    fn request(self, timeout: Option<Duration>) -> CallRequest {
        let mut request = CallRequest::new(self.tool, self.arguments).priority(self.priority);
        if let Some(id) = self.id {
            request = request.call_ref(id);
        }
        if let Some(key) = self.idempotency_key {
            request = request.idempotency_key(key);
        }
        match self.timeout.or(timeout) {
            Some(timeout) => request.timeout(timeout),
            None => request,
        }
    }
}
