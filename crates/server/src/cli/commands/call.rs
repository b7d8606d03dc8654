//! `windlass call`: runs one tool and prints its result.

mod show;

use std::time::Duration;

use clap::Args;
use windlass::{CallRequest, Engine, IdempotencyKey, RetryPolicy, duration};

use crate::cli::arguments;
use crate::cli::context::{ContextArgs, Stdin};
use crate::cli::exit::{Exit, Failure};
use crate::cli::finish::finish;
use crate::cli::follow::{ProgressWatch, follow};
use crate::cli::interrupt::Interrupts;
use crate::cli::options;
use crate::cli::output::Screen;
use crate::installation::{Installation, block_on};
use crate::mcp::CommandServers;
use crate::settings::{DatabaseLocation, Settings};

/// Call a tool
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct CallArgs {
    /// The tool's name
    name: String,
    /// A JSON object, @file.json, or - for stdin; then key=value, key:=json or key=@file
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    /// Timeout of the call, overriding the tool's own: 500ms, 30s, 2m
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Idempotency key: calls with the same key have their effect once
    #[arg(long, visible_alias = "key", value_name = "KEY", value_parser = key)]
    idempotency_key: Option<String>,
    /// Maximum number of attempts; more than 1 allows retries of a side effect
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(RetryPolicy::MAX_ATTEMPTS)))]
    attempts: Option<u32>,
    #[command(flatten)]
    context: ContextArgs,
    /// Reject arguments that would need repair, and unknown ones
    #[arg(long)]
    strict: bool,
    /// Print every event of the call on stderr
    #[arg(long)]
    progress: bool,
    /// Print the result's bytes and nothing else: no formatting, no newline at the end
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

fn after_help() -> String {
    let examples = options::examples(&[
        ("Arguments as JSON", r#"windlass call calculator '{"expression": "2^10 / 3"}'"#),
        ("One by one; what the tool wants as text stays text", "windlass call echo message=007"),
        ("From a file, with one of them changed", "windlass call echo @hello.json message=Hi"),
        ("From another program", "jq -n '{message: \"hi\"}' | windlass call echo -"),
        ("A number, a list, a long text", "windlass call NAME n:=5 list:='[1, 2]' text=@notes.txt"),
        ("For a script", "windlass call weekday date=2024-05-17 --json | jq .output"),
        ("Never twice, however often this line runs", "windlass call NAME to=ada --key invoice-17"),
        (
            "With a secret, which is never an argument",
            "WINDLASS_SECRET_API_KEY=… windlass call NAME --secret api_key",
        ),
    ]);
    format!("{examples}\n\n{}", options::exit_codes())
}

/// An idempotency key that the engine would take.
fn key(text: &str) -> Result<String, String> {
    IdempotencyKey::check(text).map_err(|error| error.message().to_owned())?;
    Ok(text.to_owned())
}

/// Runs the command.
pub(crate) fn run(
    args: &CallArgs,
    mut settings: Settings,
    screen: Screen,
) -> Result<Exit, Failure> {
    if args.strict {
        settings.engine.strict_validation = true;
    }
    block_on(async {
        let installation = Installation::new(&settings, screen);
        let engine = installation.engine().await?;
        let names = std::iter::once(args.name.as_str());
        let upstream = CommandServers::of_tools(&installation, &engine, names).await?;
        let request = request(args, &engine)?;
        let watch = ProgressWatch::choose(args.progress, &screen, ProgressWatch::JsonEvents);
        let mut interrupts = Interrupts::listen()?;
        let work =
            |engine: Engine, token| async move { engine.call(request.cancel_token(token)).await };
        let result = follow(&engine, work, watch, &mut interrupts).await?.value;
        // A result is printed only once its record is kept, so that what was
        // seen can also be looked up.
        let stored = finish(&engine, &settings.database, screen, &mut interrupts).await;
        upstream.stop().await;
        let view = show::CallPrintOptions {
            lang: settings.lang,
            raw: args.raw,
            keyed: args.idempotency_key.is_some(),
            provider: engine
                .registry()
                .get(&args.name)
                .and_then(|tool| tool.spec().provider.clone()),
            kept: settings.database != DatabaseLocation::Memory,
        };
        let exit = show::show(&result, &view, screen)?;
        if let Err(error) = stored {
            screen.error(format_args!("the call ended, but its record was not kept: {error}"));
            return Ok(Exit::Storage);
        }
        Ok(exit)
    })
}

/// The call that was asked for.
fn request(args: &CallArgs, engine: &Engine) -> Result<CallRequest, Failure> {
    let tool = engine.registry().get(&args.name);
    let schema = tool.as_ref().map(|tool| tool.model_schema());
    let values = arguments::read(&args.arguments, schema)?;
    let stdin = if arguments::take_stdin(&args.arguments) { Stdin::Taken } else { Stdin::Free };
    let context = args.context.resolve(stdin)?;
    let mut request = CallRequest::new(args.name.as_str(), values).context(context);
    if let Some(timeout) = args.timeout {
        request = request.timeout(timeout);
    }
    if let Some(key) = &args.idempotency_key {
        request = request.idempotency_key(key.as_str());
    }
    if let Some(attempts) = args.attempts {
        request = request.attempts(attempts);
    }
    Ok(request)
}
