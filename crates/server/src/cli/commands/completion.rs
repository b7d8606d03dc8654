//! `windlass completion`: shell completion scripts.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::exit::{Exit, Failure};
use crate::cli::options::{self, Cli};
use crate::cli::output::Screen;

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct CompletionArgs {
    /// The shell
    shell: Shell,
}

fn after_help() -> String {
    options::examples(&[
        ("bash", "windlass completion bash > ~/.local/share/bash-completion/completions/windlass"),
        ("zsh, where ~/.zfunc is in $fpath", "windlass completion zsh > ~/.zfunc/_windlass"),
        ("fish", "windlass completion fish > ~/.config/fish/completions/windlass.fish"),
    ])
}

/// Runs the command.
pub(crate) fn run(args: &CompletionArgs, screen: Screen) -> Result<Exit, Failure> {
    // Buffered first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "windlass", &mut script);
    screen.bytes(&script)?;
    Ok(Exit::Success)
}
