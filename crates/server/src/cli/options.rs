//! The command line as `clap` parses it: the commands, the global options and the
//! style of help. The options of a command are in its module.

use std::fmt::Write;
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use clap::builder::Styles;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cli::commands::{
    agent, audit, batch, call, calls, chat, check, completion, config, credentials, doctor, init,
    keys, login, mcp, providers, serve, stats, tools, workflow,
};
use crate::cli::exit::{Exit, Failure};
use crate::settings::Flag;

const HEADER: Style = Style::new().bold().underline();
const COMMAND: Style = AnsiColor::Cyan.on_default();
const COMMENT: Style = Style::new().dimmed();

/// Runs the tool calls of AI agents.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, styles = styles(), after_help = after_help())]
#[command(max_term_width = 100, arg_required_else_help = true, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a run has one of it")]
pub(crate) enum Command {
    Serve(serve::ServeArgs),
    Mcp(mcp::McpArgs),
    Login(login::LoginArgs),
    Call(call::CallArgs),
    Batch(batch::BatchArgs),
    Agent(agent::AgentArgs),
    Workflow(workflow::WorkflowArgs),
    Chat(chat::ChatArgs),
    Tools(tools::ToolsArgs),
    Calls(calls::CallsArgs),
    Stats(stats::StatsArgs),
    Providers(providers::ProvidersArgs),
    Credentials(credentials::CredentialsArgs),
    Keys(keys::KeysArgs),
    Audit(audit::AuditArgs),
    Check(check::CheckArgs),
    Config(config::ConfigArgs),
    Doctor(doctor::DoctorArgs),
    Init(init::InitArgs),
    Completion(completion::CompletionArgs),
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The project's folder [default: the nearest one upwards with a windlass.yaml]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// A folder of tool definitions; may be repeated [env: WINDLASS_TOOLS]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) tools: Vec<PathBuf>,
    /// The database: a file, postgres://…, or `:memory:` [env: WINDLASS_DATABASE]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// Language of tool descriptions and errors: en or zh [env: WINDLASS_LANG]
    #[arg(long, global = true, value_name = "LANG")]
    pub(crate) lang: Option<String>,
    /// Print JSON, for scripts
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours: auto, always or never [env: NO_COLOR]
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(hide_possible_values = true)]
    pub(crate) color: Color,
    /// No warnings, notes or progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say which settings, tools and database are used
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

impl Global {
    /// Those of them that are settings.
    pub(crate) fn flags(&self) -> Result<Vec<Flag>, Failure> {
        let mut flags = Vec::new();
        if !self.tools.is_empty() {
            let paths = self.tools.iter().map(|path| {
                let text = path.to_str().map(str::to_owned);
                let wrong = || Failure::usage(format!("--tools {}: not UTF-8", path.display()));
                text.ok_or_else(wrong)
            });
            flags.push(("--tools", paths.collect::<Result<_, _>>()?));
        }
        flags.extend(self.database.clone().map(|url| ("--database", vec![url])));
        flags.extend(self.lang.clone().map(|lang| ("--lang", vec![lang])));
        Ok(flags)
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    /// Makes this the choice for everything that is printed.
    pub(crate) fn apply(self) {
        match self {
            // Left to the environment: NO_COLOR, CLICOLOR_FORCE, TERM.
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// Examples for a command's help: what it does, and the line to type.
pub(crate) fn examples(lines: &[(&str, &str)]) -> String {
    let mut text = format!("{HEADER}Examples:{HEADER:#}");
    for (what, line) in lines {
        let _ = write!(text, "\n  {COMMENT}# {what}{COMMENT:#}\n  {COMMAND}{line}{COMMAND:#}");
    }
    text
}

/// A section of help with a heading.
pub(crate) fn section(heading: &str, text: &str) -> String {
    format!("{HEADER}{heading}:{HEADER:#}\n{text}")
}

/// The exit codes, for help.
pub(crate) fn exit_codes() -> String {
    section("Exit codes", &Exit::table())
}

fn after_help() -> String {
    let examples = examples(&[
        ("Make a project with a first tool of your own", "windlass init my-tools && cd my-tools"),
        ("See what there is", "windlass tools"),
        ("Call a tool", "windlass call calculator expression='2^10 / 3'"),
        ("Run all calls of a model's answer", "windlass batch answer.json --format anthropic"),
        ("Look back", "windlass calls --since 1h"),
    ]);
    format!(
        "{examples}\n\n\
         {HEADER}Settings:{HEADER:#}\n  \
         A flag wins over the environment, the environment over windlass.yaml, and that over the\n  \
         default. Every setting has a variable: server.listen is WINDLASS_SERVER_LISTEN. `windlass\n  \
         config` shows what is in effect and where it came from. windlass.yaml is looked for in the\n  \
         current folder and upwards to your home folder; `windlass init` writes one that explains\n  \
         every key. Records are kept in .windlass/windlass.db beside it, and in\n  \
         $XDG_DATA_HOME/windlass/windlass.db where there is none. --database takes a path,\n  \
         sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE, or `:memory:` for nowhere.\n\n{}",
        exit_codes()
    )
}

fn styles() -> Styles {
    Styles::styled()
        .header(HEADER)
        .usage(HEADER)
        .literal(AnsiColor::Cyan.on_default().bold())
        .placeholder(AnsiColor::Cyan.on_default())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_every_command_shows_examples() {
        let mut command = super::Cli::command();
        command.build();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{} has no examples", sub.get_name());
            assert!(sub.get_about().is_some(), "{} is not explained", sub.get_name());
        }
    }
}
