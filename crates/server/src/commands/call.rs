//! `windlass call`: runs one tool and prints what it gives back.

mod follow;
mod show;

use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use tokio::time::timeout;
use windlass::{CallRequest, Caller, CallerType, Context, Engine, Secret, duration};

use crate::arguments;
use crate::cli;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupts;
use crate::output::Screen;
use crate::settings::{Database, Settings};
use crate::wiring;
use follow::Watch;

/// How long the database may take before its name is told.
const PATIENCE: Duration = Duration::from_secs(1);

/// Call a tool
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct CallArgs {
    /// The tool's name
    name: String,
    /// A JSON object, @file.json, or - for stdin; then key=value, key:=json or key=@file
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    /// How long the call may take, in place of the tool's own limit: 500ms, 30s, 2m
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// The conversation that the call belongs to
    #[arg(long, value_name = "ID")]
    conversation: Option<String>,
    /// The person on whose behalf the call is made
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// The agent or program that calls
    #[arg(long, value_name = "ID")]
    caller: Option<String>,
    /// A variable for the tool's presets and form parameters; may be given several times
    #[arg(long = "var", value_name = "NAME=VALUE")]
    variables: Vec<String>,
    /// A secret for the tool: from WINDLASS_SECRET_<NAME>, else from a line of stdin
    #[arg(long = "secret", value_name = "NAME")]
    secrets: Vec<String>,
    /// Refuse arguments that would have to be repaired, and unknown ones
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
    let examples = cli::examples(&[
        ("Arguments as JSON", r#"windlass call calculator '{"expression": "2^10 / 3"}'"#),
        ("One by one; what the tool wants as text stays text", "windlass call echo message=007"),
        ("From a file, with one of them changed", "windlass call echo @hello.json message=Hi"),
        ("From another program", "jq -n '{message: \"hi\"}' | windlass call echo -"),
        ("A number, a list, a long text", "windlass call NAME n:=5 list:='[1, 2]' text=@notes.txt"),
        ("For a script", "windlass call weekday date=2024-05-17 --json | jq .output"),
        (
            "With a secret, which is never an argument",
            "WINDLASS_SECRET_API_KEY=… windlass call NAME --secret api_key",
        ),
    ]);
    format!("{examples}\n\n{}", cli::exit_codes())
}

/// Runs the command.
pub(crate) fn run(
    args: &CallArgs,
    mut settings: Settings,
    screen: Screen,
) -> Result<Exit, Failure> {
    if args.strict {
        settings.engine.strict_validation = Some(true);
    }
    let engine = wiring::engine(&settings, &screen)?;
    let request = request(args, &engine)?;
    wiring::block_on(async {
        let watch = Watch::choose(args.progress, &screen);
        let interrupts = Interrupts::listen()?;
        let result = follow::follow(&engine, request, watch, interrupts).await?;
        // A result is printed only once its record is kept, so that what was
        // seen can also be looked up.
        let stored = explained(engine.records().flush(), || {
            let database = settings.database.describe();
            screen.note(format_args!("waiting for the database {database} to keep the record"));
        });
        let stored = stored.await;
        let view = show::View {
            lang: settings.lang,
            raw: args.raw,
            kept: settings.database != Database::Memory,
        };
        let exit = show::show(&result, &view, screen)?;
        if let Err(error) = stored {
            screen.error(format_args!("the call ended, but its record was not kept: {error}"));
            return Ok(Exit::Storage);
        }
        Ok(exit)
    })
}

/// Waits, and explains it where people begin to wonder.
async fn explained<T>(work: impl Future<Output = T>, explain: impl FnOnce()) -> T {
    let mut work = pin!(work);
    if let Ok(done) = timeout(PATIENCE, work.as_mut()).await {
        return done;
    }
    explain();
    work.await
}

/// The call that was asked for.
fn request(args: &CallArgs, engine: &Engine) -> Result<CallRequest, Failure> {
    let tool = engine.registry().get(&args.name);
    let schema = tool.as_ref().map(|tool| tool.model_schema());
    let values = arguments::read(&args.arguments, schema)?;
    let mut context = Context::new(Caller {
        user: args.user.as_deref().map(Into::into),
        caller_id: args.caller.as_deref().map(Into::into),
        caller_type: CallerType::Direct,
        conversation: args.conversation.as_deref().map(Into::into),
        ..Caller::default()
    });
    for word in &args.variables {
        let (name, value) = arguments::variable(word)?;
        context = context.variable(&name, value);
    }
    let stdin_is_free = !arguments::take_stdin(&args.arguments);
    for name in &args.secrets {
        context = context.secret(name, secret(name, stdin_is_free)?);
    }
    let request = CallRequest::new(args.name.as_str(), values).context(context);
    Ok(match args.timeout {
        Some(timeout) => request.timeout(timeout),
        None => request,
    })
}

/// A secret: never from an argument, which other users of the machine and the
/// shell's history would see.
fn secret(name: &str, stdin_is_free: bool) -> Result<Secret, Failure> {
    let variable = secret_variable(name);
    if let Ok(value) = std::env::var(&variable) {
        return Ok(Secret::new(value));
    }
    let missing = || {
        Failure::usage(format!("there is no value for the secret `{name}`"))
            .hint(format!("set {variable}, or send it as a line on stdin"))
    };
    if !stdin_is_free || io::stdin().is_terminal() {
        return Err(missing());
    }
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    match line.trim_end_matches(['\r', '\n']) {
        "" => Err(missing()),
        value => Ok(Secret::new(value)),
    }
}

/// `api-key` is in `WINDLASS_SECRET_API_KEY`.
fn secret_variable(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    format!("WINDLASS_SECRET_{name}")
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_long_wait_is_explained() {
        for (millis, expected) in [(0, false), (900, false), (1100, true), (60_000, true)] {
            let mut told = false;
            explained(sleep(Duration::from_millis(millis)), || told = true).await;
            assert_eq!(told, expected, "{millis} ms");
        }
    }
}
