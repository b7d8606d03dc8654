//! Admission: acquires a slot, waiting in the queue if necessary.

use super::Attempts;
use crate::error::Error;

/// Acquires a slot for a call. Returns whether it had to wait for it.
///
/// If the upstream's circuit is open, the call is refused before it waits,
/// unless it has an idempotency key and so may get the result of an earlier
/// call.
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
