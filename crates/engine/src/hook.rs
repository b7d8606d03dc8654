//! Hooks: what an embedder does before, after and instead of a call (S3.13).
//!
//! Hooks run in the order in which they were added, each with the call as the
//! one before left it. They run within the call's deadline, and a hook that
//! panics fails the call.

use serde_json::Value;

use crate::call::Call;
use crate::call::content::Output;
use crate::error::Error;
use crate::tool::executor::BoxFuture;

/// Looks at calls and may change them. Every method has a default that does
/// nothing.
pub trait Hook: Send + Sync + 'static {
    /// Called when the arguments have been checked, before the tool runs.
    fn before<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Before> {
        let _ = call;
        Box::pin(std::future::ready(Before::Run))
    }

    /// Called when the tool has given a result.
    fn after<'a>(&'a self, call: &'a Call, output: &'a Output) -> BoxFuture<'a, After> {
        let _ = (call, output);
        Box::pin(std::future::ready(After::Keep))
    }

    /// Called when the tool has failed.
    fn error<'a>(&'a self, call: &'a Call, error: &'a Error) -> BoxFuture<'a, After> {
        let _ = (call, error);
        Box::pin(std::future::ready(After::Keep))
    }
}

/// What becomes of a call that is about to run.
pub enum Before {
    /// It runs.
    Run,
    /// It runs with these arguments, once they have been checked.
    Rewrite(Value),
    /// It does not run; this is its result.
    Skip(Output),
    /// It does not run; this is its error.
    Stop(Error),
}

/// What becomes of a call that ran.
pub enum After {
    /// Its result or error stays.
    Keep,
    /// This is its result.
    Rewrite(Output),
    /// This is its error.
    Stop(Error),
}

/// A hook from a function that decides before a call runs.
pub fn before(decide: impl Fn(&Call) -> Before + Send + Sync + 'static) -> impl Hook {
    struct BeforeFn<F>(F);
    impl<F: Fn(&Call) -> Before + Send + Sync + 'static> Hook for BeforeFn<F> {
        fn before<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Before> {
            Box::pin(async move { (self.0)(call) })
        }
    }
    BeforeFn(decide)
}

/// A hook from a function that looks at results.
pub fn after(decide: impl Fn(&Call, &Output) -> After + Send + Sync + 'static) -> impl Hook {
    struct AfterFn<F>(F);
    impl<F: Fn(&Call, &Output) -> After + Send + Sync + 'static> Hook for AfterFn<F> {
        fn after<'a>(&'a self, call: &'a Call, output: &'a Output) -> BoxFuture<'a, After> {
            Box::pin(async move { (self.0)(call, output) })
        }
    }
    AfterFn(decide)
}

/// A hook from a function that looks at errors.
pub fn on_error(decide: impl Fn(&Call, &Error) -> After + Send + Sync + 'static) -> impl Hook {
    struct ErrorFn<F>(F);
    impl<F: Fn(&Call, &Error) -> After + Send + Sync + 'static> Hook for ErrorFn<F> {
        fn error<'a>(&'a self, call: &'a Call, error: &'a Error) -> BoxFuture<'a, After> {
            Box::pin(async move { (self.0)(call, error) })
        }
    }
    ErrorFn(decide)
}
