//! The tools that Windlass ships: functions of their arguments.
//!
//! A tool here is two things: a definition in `definitions/`, in the formats
//! that users write, and a handler in `HANDLERS` that a definition names in
//! its `entry`. A user may therefore define another tool on the same handler.
//!
//! Each handler bounds its own work: texts and arrays have a largest size
//! (`bounds`), numbers a largest number of digits, patterns a largest program.
//! Small arguments are worked on at once, large ones on a thread for that, so
//! that a call never holds up the others. None reads files, the network or the
//! environment; the clock is the only thing outside that any of them looks at.
//! Tools that do are in boxes of their own, which [`Builtins::with`] adds.

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

/// The definitions of all built-in tools: a file name, and the YAML in it.
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

/// What runs a tool.
#[derive(Clone, Copy)]
enum Handler {
    /// A function of the arguments alone.
    Pure(fn(&Arguments<'_>) -> Result<Output, Error>),
    /// A function that waits.
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
                Box::pin(run_blocking(move || handler(&Arguments::new(&arguments))))
            }
        }
    }
}

#[cfg(test)]
mod tests;
