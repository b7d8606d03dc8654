//! Takes one of the engine's slots, or waits for one.

use super::Attempts;
use crate::error::Error;

/// Puts a call into a slot. Returns whether it had to wait for it.
///
/// Where the upstream's circuit is open, the call is refused before it waits;
/// but for one with a key, which may get the result of an earlier call.
pub(crate) async fn admit(attempts: &Attempts<'_, '_>) -> Result<bool, Error> {
    let (request, call) = (attempts.request, attempts.call);
    if request.key().is_none() {
        attempts.look()?;
    }
    let permit = call.shared.limits.admit(call.demand(), request.priority).await?;
    let waited = permit.waited;
    call.hold(permit);
    attempts.until.check(&call.tool)?;
    Ok(waited)
}
