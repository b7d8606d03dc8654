//! Refuses what no tool may be asked, whatever its arguments are.

use crate::call::CallRequest;
use crate::error::{Error, ErrorKind};
use crate::journal::record::IdempotencyKey;

/// Refuses a call that is nested too deeply, or whose idempotency key is none.
pub(crate) fn check_request(request: &CallRequest, max_depth: u32) -> Result<(), Error> {
    let depth = request.context.depth;
    if depth > max_depth {
        let why = format!("tools called tools {depth} times, {max_depth} are allowed");
        return Err(Error::new(ErrorKind::DepthExceeded, why));
    }
    request.key().map_or(Ok(()), |key| IdempotencyKey::check(key))
}
