//! Checks that do not depend on the tool: nesting depth and idempotency key.

use crate::call::CallOptions;
use crate::call::context::Context;
use crate::error::{Error, ErrorKind};
use crate::journal::record::IdempotencyKey;

/// Refuses a call that is nested too deeply, or has an invalid idempotency key.
pub(crate) fn check_request(
    request: &CallOptions,
    context: &Context,
    max_depth: u32,
) -> Result<(), Error> {
    let depth = context.depth;
    if depth > max_depth {
        let why = format!("tools called tools {depth} times, {max_depth} are allowed");
        return Err(Error::new(ErrorKind::DepthExceeded, why));
    }
    request.key().map_or(Ok(()), |key| IdempotencyKey::check(key))
}
