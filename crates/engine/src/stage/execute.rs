//! Runs a validated call: hooks, the tool, hooks.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempts;
use super::validate::validate_rewritten;
use crate::call::Call;
use crate::call::content::Output;
use crate::engine::StopReason;
use crate::error::Error;
use crate::hook::{After, Before, Hook};

/// Timeout for hooks that are told about a stopped call.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The outcome of a call.
pub(crate) enum Outcome {
    /// A new result.
    New(Output),
    /// The result of an earlier call (idempotency key or cache).
    Earlier(Arc<Output>),
}

/// Runs the hooks before the tool: they may rewrite the arguments or refuse the
/// call. A result means that the tool does not run.
pub(crate) async fn before(
    call: &Call,
    hooks: &[Arc<dyn Hook>],
    strict: bool,
) -> Result<Option<Output>, Error> {
    for hook in hooks {
        match hook.before(call).await {
            Before::Run => {}
            Before::Rewrite(arguments) => {
                call.rewrite(validate_rewritten(&call.tool, arguments, strict)?);
            }
            Before::Skip(output) => return Ok(Some(output)),
            Before::Stop(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Runs the tool, then the hooks.
pub(crate) async fn execute(
    attempts: &mut Attempts<'_, '_>,
    hooks: &[Arc<dyn Hook>],
) -> Result<Outcome, Error> {
    let outcome = attempts.run().await;
    let outcome = match hooks {
        [] => outcome,
        hooks => Box::pin(run_after(attempts.call, hooks, outcome)).await,
    };
    outcome.map(Outcome::New)
}

/// Ends a call that was stopped by its deadline or by cancellation. The hooks
/// are told, and may still replace the outcome.
pub(crate) async fn stopped(
    attempts: &mut Attempts<'_, '_>,
    hooks: &[Arc<dyn Hook>],
    stop: StopReason,
) -> Result<Outcome, Error> {
    let error = attempts.stopped(stop);
    if hooks.is_empty() {
        return Err(error);
    }
    let told = run_after(attempts.call, hooks, Err(error.clone()));
    let told = tokio::time::timeout(LAST_WORDS, told).await.unwrap_or(Err(error));
    told.map(Outcome::New)
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
