//! Built-in tools: pure functions such as arithmetic, dates, strings, arrays and objects.
//!
//! A tool has two parts: a definition in `definitions/`, in the format that users write,
//! and a handler in `HANDLERS` that the definition's `entry` names. So users can define
//! other tools on the same handler.
//!
//! Each handler bounds its own work: texts and arrays have a maximum size (`bounds`),
//! numbers a maximum number of digits, regular expressions a maximum program size. Small
//! arguments are processed inline, large ones on a blocking thread, so that a call never
//! delays others. None reads files, the network or the environment; only the clock. Tools
//! that do are in toolboxes of their own, which [`Builtins::with`] adds.

mod arguments;
mod array;
mod bounds;
mod calculator;
mod datetime;
mod echo;
mod moment;
mod object;
mod path;
mod string;
mod time;
mod toolbox;
mod value;
mod wait;

use std::sync::Arc;

use windlass::native::run_blocking;
use windlass::{BoxFuture, Call, Error, Executor, Output};

use arguments::Arguments;
pub use toolbox::{Builtins, Toolbox};

/// The definitions of all built-in tools: a file name and its YAML.
pub const DEFINITIONS: &[(&str, &str)] = &[
    ("array.yaml", include_str!("builtin/definitions/array.yaml")),
    ("calculator.yaml", include_str!("builtin/definitions/calculator.yaml")),
    ("current_time.yaml", include_str!("builtin/definitions/current_time.yaml")),
    ("datetime.yaml", include_str!("builtin/definitions/datetime.yaml")),
    ("echo.yaml", include_str!("builtin/definitions/echo.yaml")),
    ("object.yaml", include_str!("builtin/definitions/object.yaml")),
    ("string.yaml", include_str!("builtin/definitions/string.yaml")),
    ("timezone_conversion.yaml", include_str!("builtin/definitions/timezone_conversion.yaml")),
    ("wait.yaml", include_str!("builtin/definitions/wait.yaml")),
    ("weekday.yaml", include_str!("builtin/definitions/weekday.yaml")),
];

/// The tools of this module.
fn toolbox() -> Toolbox {
    HANDLERS.iter().fold(Toolbox::new(DEFINITIONS), |tools, &(name, handler)| {
        tools.handler(name, Arc::new(Builtin(handler)))
    })
}

/// How a tool is run.
#[derive(Clone, Copy)]
enum Handler {
    /// A pure function of the arguments.
    Pure(fn(&Arguments<'_>) -> Result<Output, Error>),
    /// An async function.
    Waiting(for<'a> fn(&'a Call) -> BoxFuture<'a, Result<Output, Error>>),
}

const HANDLERS: &[(&str, Handler)] = &[
    ("array", Handler::Pure(array::run)),
    ("calculator", Handler::Pure(calculator::run)),
    ("current_time", Handler::Pure(time::current_time)),
    ("datetime", Handler::Pure(datetime::run)),
    ("echo", Handler::Pure(echo::run)),
    ("object", Handler::Pure(object::run)),
    ("string", Handler::Pure(string::run)),
    ("timezone_conversion", Handler::Pure(time::timezone_conversion)),
    ("wait", Handler::Waiting(wait::run)),
    ("weekday", Handler::Pure(time::weekday)),
];

struct Builtin(Handler);

impl Executor for Builtin {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        match self.0 {
            Handler::Waiting(handler) => handler(call),
            Handler::Pure(handler) if bounds::is_small(call.arguments()) => {
                Box::pin(async move { handler(&Arguments::new(call.arguments())) })
            }
            Handler::Pure(handler) => {
                let arguments = call.arguments().clone();
                let tenant = &call.caller().tenant;
                Box::pin(run_blocking(tenant, move || handler(&Arguments::new(&arguments))))
            }
        }
    }
}

#[cfg(test)]
mod tests;
