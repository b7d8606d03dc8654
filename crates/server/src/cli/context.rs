//! The options that `call` and `batch` share: the caller, and the variables, secrets
//! and limits of a call.

use std::io::{self, IsTerminal};

use clap::Args;
use windlass::{Caller, CallerType, Context, Secret};

use crate::cli::arguments;
use crate::cli::exit::Failure;

/// The context of a call.
#[derive(Debug, Args)]
pub(crate) struct ContextArgs {
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
}

impl ContextArgs {
    /// The context of a call. Where stdin already holds something else, no
    /// secret is read from it.
    pub(crate) fn resolve(&self, stdin: Stdin) -> Result<Context, Failure> {
        let mut context = Context::new(Caller {
            user: self.user.as_deref().map(Into::into),
            caller_id: self.caller.as_deref().map(Into::into),
            caller_type: CallerType::Direct,
            conversation: self.conversation.as_deref().map(Into::into),
            ..Caller::default()
        });
        for word in &self.variables {
            let (name, value) = arguments::variable(word)?;
            context = context.variable(&name, value);
        }
        for name in &self.secrets {
            context = context.secret(name, secret(name, stdin)?);
        }
        Ok(context)
    }
}

/// Whether stdin may be read for secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stdin {
    Free,
    Taken,
}

/// A secret: never from an argument, which other users of the machine and the
/// shell's history would see.
fn secret(name: &str, stdin: Stdin) -> Result<Secret, Failure> {
    let variable = secret_variable(name);
    if let Ok(value) = std::env::var(&variable) {
        return Ok(Secret::new(value));
    }
    let missing = || {
        Failure::usage(format!("there is no value for the secret `{name}`"))
            .hint(format!("set {variable}, or send it as a line on stdin"))
    };
    if stdin == Stdin::Taken || io::stdin().is_terminal() {
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
