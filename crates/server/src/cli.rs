//! The command line: arguments, output and exit codes.
//!
//! ```text
//! arguments ─ options ─► Command + Global ─ settings ─► commands/* ─► output (stdout) ─► Exit
//! ```
//!
//! A command returns its exit status or a [`Failure`]; only this file prints
//! failures.

pub(crate) mod arguments;
pub(crate) mod commands;
mod context;
pub(crate) mod exit;
mod finish;
mod follow;
mod interrupt;
pub(crate) mod options;
pub(crate) mod output;
mod permissions;

use std::process::ExitCode;

use clap::Parser;

use crate::settings::Settings;
use commands::{
    agent, audit, batch, call, calls, chat, check, completion, config, credentials, doctor, init,
    keys, login, mcp, providers, serve, stats, tools, workflow,
};
use exit::{Exit, Failure};
use options::Global;
use options::{Cli, Command};
use output::Screen;

/// Runs the command line of this process: what the program `windlass` does.
#[doc(hidden)]
pub fn command_line() -> ExitCode {
    let Cli { global, command } = Cli::try_parse().unwrap_or_else(|error| misused(&error));
    global.color.apply();
    let screen = Screen { json: global.json, quiet: global.quiet, verbose: global.verbose };
    let exit = run(&global, command, screen).unwrap_or_else(|failure| {
        if failure.broken_pipe {
            return Exit::Success;
        }
        screen.failure(&failure);
        failure.exit
    });
    exit.code().into()
}

/// Says what is wrong with the command line: as `clap` does, or as JSON where that was
/// asked for.
fn misused(error: &clap::Error) -> ! {
    let wants_json = std::env::args_os().any(|word| word == "--json");
    if !wants_json || !error.use_stderr() {
        error.exit();
    }
    let text = error.render().to_string();
    let message = text.strip_prefix("error: ").unwrap_or(&text);
    let message = message.split("\n\n").next().unwrap_or(message);
    let failure = Failure::usage(message.trim()).hint("`--help` lists all commands and options");
    Screen { json: true, quiet: false, verbose: false }.failure(&failure);
    std::process::exit(failure.exit.code().into())
}

fn run(global: &Global, command: Command, screen: Screen) -> Result<Exit, Failure> {
    let settings_with = |flags| {
        let settings = Settings::resolve(global, flags)?;
        settings.warnings.iter().for_each(|warning| screen.warn(warning));
        screen.detail(settings.describe());
        Ok::<_, Failure>(settings)
    };
    let settings = || settings_with(Vec::new());
    match command {
        Command::Call(args) => call::run(&args, settings()?, screen),
        Command::Batch(args) => batch::run(&args, settings()?, screen),
        Command::Agent(args) => agent::run(args, &settings()?, screen),
        Command::Workflow(args) => workflow::run(args, &settings()?, screen),
        Command::Chat(args) => chat::run(&args, &settings()?, screen),
        Command::Tools(args) => tools::run(&args, &settings()?, screen),
        Command::Calls(args) => calls::run(args, &settings()?, screen),
        Command::Serve(args) => serve::run(settings_with(args.flags()?)?, screen),
        Command::Mcp(args) => mcp::run(&args, settings()?, screen),
        Command::Login(args) => login::run(&args, &settings()?, screen),
        Command::Stats(args) => stats::run(&args, &settings()?, screen),
        Command::Credentials(args) => credentials::run(args, &settings()?, screen),
        Command::Providers(args) => providers::run(args, &settings()?, screen),
        Command::Keys(args) => keys::run(args, &settings()?, screen),
        Command::Audit(args) => audit::run(args, &settings()?, screen),
        Command::Check(args) => check::run(&args, &settings()?, screen),
        Command::Config(args) => config::run(&args, &settings()?, screen),
        // These also work where the settings are broken.
        Command::Doctor(args) => doctor::run(&args, global, screen),
        Command::Init(args) => init::run(&args, screen),
        Command::Completion(args) => completion::run(&args, screen),
    }
}
