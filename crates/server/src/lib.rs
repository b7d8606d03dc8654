//! The HTTP and MCP server of Windlass as a library, and its command line.
//!
//! [`Server`] serves the tools of a program of one's own over HTTP and MCP, with
//! everything that `windlass serve` has; [`serve_mcp`] serves them to one MCP
//! client over a pair of streams, such as standard input and output. That is all
//! that is stable here.
//!
//! The command line is built on the same:
//!
//! ```text
//! arguments ─ cli ─► Command + Global ─ settings ─► Settings ─► Installation ─ wiring ─► Engine
//!                                                                 │
//!                                              commands/* ─► output (stdout) ─► Exit
//! ```
//!
//! A command returns how it ended or why it could not do its work; only this
//! file prints the latter and ends the process.

mod cli;
mod exit;
mod installation;
mod settings;
mod wiring;

mod approvals;
mod arguments;
mod audit;
mod consents;
mod context;
mod credential_source;
mod finish;
mod follow;
mod imports;
mod interrupt;
mod logging;
mod output;
mod permissions;
mod runs;
mod telemetry;

mod http;
mod mcp;

#[allow(dead_code, unused_imports, reason = "the HTTP layer uses what commands do not")]
mod identity;
mod prerequisites;
mod questions;
mod quota;
mod random;
#[allow(dead_code, reason = "the HTTP layer uses what commands do not")]
mod uses;
#[allow(dead_code, unused_imports, reason = "the HTTP layer uses what commands do not")]
mod vault;

mod commands;
mod server;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use commands::{
    agent, audit as audit_command, batch, call, calls, chat, check, completion, config,
    credentials, doctor, init, keys, login, mcp as mcp_command, providers, serve, stats, tools,
};
use exit::{Exit, Failure};
use output::Screen;
pub use server::{Server, ServerBuilder, ServerError, serve_mcp};
use settings::Settings;

/// Runs the command line of this process: what the program `windlass` does.
#[doc(hidden)]
pub fn command_line() -> ExitCode {
    let Cli { global, command } = Cli::parse();
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

fn run(global: &cli::Global, command: Command, screen: Screen) -> Result<Exit, Failure> {
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
        Command::Chat(args) => chat::run(&args, &settings()?, screen),
        Command::Tools(args) => tools::run(&args, &settings()?, screen),
        Command::Calls(args) => calls::run(args, &settings()?, screen),
        Command::Serve(args) => serve::run(settings_with(args.flags()?)?, screen),
        Command::Mcp(args) => mcp_command::run(&args, settings()?, screen),
        Command::Login(args) => login::run(&args, &settings()?, screen),
        Command::Stats(args) => stats::run(&args, &settings()?, screen),
        Command::Credentials(args) => credentials::run(args, &settings()?, screen),
        Command::Providers(args) => providers::run(args, &settings()?, screen),
        Command::Keys(args) => keys::run(args, &settings()?, screen),
        Command::Audit(args) => audit_command::run(args, &settings()?, screen),
        Command::Check(args) => check::run(&args, &settings()?, screen),
        Command::Config(args) => config::run(&args, &settings()?, screen),
        // These also work where the settings are broken.
        Command::Doctor(args) => doctor::run(&args, global, screen),
        Command::Init(args) => init::run(&args, screen),
        Command::Completion(args) => completion::run(&args, screen),
    }
}
