//! [`Executor`]: the one thing that a kind of tool has to bring.

use std::future::Future;
use std::pin::Pin;

use crate::call::Call;
use crate::call::content::Output;
use crate::error::Error;

/// A boxed future, as trait objects need it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs the calls of a tool.
///
/// The arguments of a [`Call`] have been checked against the tool's schema.
/// The future must stop promptly when it is dropped: that is how a timeout and
/// a cancel end it. A panic inside becomes an error result.
pub trait Executor: Send + Sync + 'static {
    /// Runs one call.
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>>;
}
