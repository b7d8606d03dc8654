//! [`Executor`]: the one trait that a kind of tool implements.

use std::future::Future;
use std::pin::Pin;

use crate::call::Call;
use crate::call::content::Output;
use crate::error::Error;

/// A boxed future, for trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs the calls of a tool.
///
/// The arguments of a [`Call`] have been validated. The future must stop
/// promptly when it is dropped, which is how timeouts and cancellation work. A
/// panic becomes an error result.
pub trait Executor: Send + Sync + 'static {
    /// Runs one call.
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>>;
}
