//! Runs a checked call: hooks, the tool, hooks.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempts;
use super::validate;
use crate::call::Call;
use crate::call::content::Output;
use crate::error::Error;
use crate::hook::{After, Before, Hook};

/// How long the hooks may take to hear of a call that was stopped.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Asks every hook whether the call may run, and with which arguments; a result
/// means that the tool does not run.
pub(crate) async fn before(
    call: &Call,
    hooks: &[Arc<dyn Hook>],
    strict: bool,
) -> Result<Option<Output>, Error> {
    for hook in hooks {
        match hook.before(call).await {
            Before::Run => {}
            Before::Rewrite(mut arguments) => {
                validate(&call.tool, &mut arguments, strict)?;
                call.arguments.rewrite(arguments);
            }
            Before::Skip(output) => return Ok(Some(output)),
            Before::Stop(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Runs the tool, and tells the hooks what came of it.
pub(crate) async fn execute(
    call: &Call,
    hooks: &[Arc<dyn Hook>],
    mut attempts: Attempts<'_, '_>,
) -> Result<Output, Error> {
    let outcome = attempts.run(call).await;
    if hooks.is_empty() {
        return outcome;
    }
    Box::pin(run_after(call, hooks, outcome)).await
}

/// Tells the hooks of a call that was stopped from outside: at its deadline or
/// by a cancel. They may still change what comes of it.
pub(crate) async fn tell_stopped(
    call: &Call,
    hooks: &[Arc<dyn Hook>],
    error: Error,
) -> Result<Output, Error> {
    if hooks.is_empty() {
        return Err(error);
    }
    let told = run_after(call, hooks, Err(error.clone()));
    tokio::time::timeout(LAST_WORDS, told).await.unwrap_or(Err(error))
}

async fn run_after(
    call: &Call,
    hooks: &[Arc<dyn Hook>],
    mut outcome: Result<Output, Error>,
) -> Result<Output, Error> {
    for hook in hooks {
        let decision = match &outcome {
            Ok(output) => hook.after(call, output).await,
            Err(error) => hook.error(call, error).await,
        };
        match decision {
            After::Keep => {}
            After::Rewrite(output) => outcome = Ok(output),
            After::Stop(error) => outcome = Err(error),
        }
    }
    outcome
}
