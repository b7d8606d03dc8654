//! Hooks: code of the embedding program that runs before, after or instead of a
//! tool.
//!
//! Hooks run in registration order, each on the call as the previous one left
//! it. They run within the call's deadline, and a panic in a hook fails the
//! call.

use serde_json::Value;

use crate::call::Call;
use crate::call::content::Output;
use crate::error::Error;
use crate::tool::executor::BoxFuture;

/// Observes calls and may change them. All methods have no-op defaults.
pub trait Hook: Send + Sync + 'static {
    /// Called after validation, before the tool runs.
    fn before<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Before> {
        let _ = call;
        Box::pin(std::future::ready(Before::Run))
    }

    /// Called after the tool returned a result.
    fn after<'a>(&'a self, call: &'a Call, output: &'a Output) -> BoxFuture<'a, After> {
        let _ = (call, output);
        Box::pin(std::future::ready(After::Keep))
    }

    /// Called after the tool failed.
    fn error<'a>(&'a self, call: &'a Call, error: &'a Error) -> BoxFuture<'a, After> {
        let _ = (call, error);
        Box::pin(std::future::ready(After::Keep))
    }
}

/// Decision of a hook before the tool runs.
pub enum Before {
    /// Run the tool.
    Run,
    /// Run the tool with these arguments, which are validated first.
    Rewrite(Value),
    /// Do not run the tool; use this result.
    Skip(Output),
    /// Do not run the tool; fail with this error.
    Stop(Error),
}

/// Decision of a hook after the tool ran.
pub enum After {
    /// Keep the result or error.
    Keep,
    /// Use this result.
    Rewrite(Output),
    /// Fail with this error.
    Stop(Error),
}

/// Makes a hook from a function that runs before the tool.
pub fn before(decide: impl Fn(&Call) -> Before + Send + Sync + 'static) -> impl Hook {
    struct BeforeFn<F>(F);
    impl<F: Fn(&Call) -> Before + Send + Sync + 'static> Hook for BeforeFn<F> {
        fn before<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Before> {
            Box::pin(async move { (self.0)(call) })
        }
    }
    BeforeFn(decide)
}

/// Makes a hook from a function of results.
pub fn after(decide: impl Fn(&Call, &Output) -> After + Send + Sync + 'static) -> impl Hook {
    struct AfterFn<F>(F);
    impl<F: Fn(&Call, &Output) -> After + Send + Sync + 'static> Hook for AfterFn<F> {
        fn after<'a>(&'a self, call: &'a Call, output: &'a Output) -> BoxFuture<'a, After> {
            Box::pin(async move { (self.0)(call, output) })
        }
    }
    AfterFn(decide)
}

/// Makes a hook from a function of errors.
pub fn on_error(decide: impl Fn(&Call, &Error) -> After + Send + Sync + 'static) -> impl Hook {
    struct ErrorFn<F>(F);
    impl<F: Fn(&Call, &Error) -> After + Send + Sync + 'static> Hook for ErrorFn<F> {
        fn error<'a>(&'a self, call: &'a Call, error: &'a Error) -> BoxFuture<'a, After> {
            Box::pin(async move { (self.0)(call, error) })
        }
    }
    ErrorFn(decide)
}
