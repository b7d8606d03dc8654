//! Runs a checked call: hooks, then the tool. Panics become errors.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use super::validate;
use crate::call::Call;
use crate::content::Output;
use crate::error::{Error, ErrorKind};
use crate::hook::{After, Before, Hook};

/// Runs the call and whatever hooks there are around it.
pub(crate) async fn execute(
    call: &mut Call,
    hooks: &[Arc<dyn Hook>],
    strict: bool,
) -> Result<Output, Error> {
    let work = async {
        if hooks.is_empty() {
            call.tool.executor().execute(call).await
        } else {
            execute_hooked(call, hooks, strict).await
        }
    };
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => Err(Error::new(ErrorKind::Panicked, panic_message(&*panic))),
    }
}

async fn execute_hooked(
    call: &mut Call,
    hooks: &[Arc<dyn Hook>],
    strict: bool,
) -> Result<Output, Error> {
    let mut outcome = match run_before(call, hooks, strict).await? {
        Some(skipped) => return Ok(skipped),
        None => call.tool.executor().execute(call).await,
    };
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

/// Asks every hook; a result means that the tool does not run.
async fn run_before(
    call: &mut Call,
    hooks: &[Arc<dyn Hook>],
    strict: bool,
) -> Result<Option<Output>, Error> {
    for hook in hooks {
        match hook.before(call).await {
            Before::Run => {}
            Before::Rewrite(mut arguments) => {
                validate(&call.tool, &mut arguments, strict)?;
                call.arguments = Arc::new(arguments);
            }
            Before::Skip(output) => return Ok(Some(output)),
            Before::Stop(error) => return Err(error),
        }
    }
    Ok(None)
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned());
    format!("the tool panicked: {message}")
}
