//! The tools that Windlass ships: pure functions of their arguments.
//!
//! A tool here is two things: a definition in `definitions/`, in the formats
//! that users write, and a handler in `HANDLERS` that a definition names in
//! its `entry`. A user may therefore define another tool on the same handler.
//!
//! Handlers run inline on an async thread, so each bounds its own work: texts
//! and arrays have a largest size (`bounds`), numbers a largest number of
//! digits, patterns a largest program. None reads files, the network or the
//! environment; the clock is the only thing outside that any of them looks at.

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
mod value;

use std::sync::Arc;

use windlass::{BoxFuture, Call, Error, ErrorKind, Executor, Output, ToolSpec};

use arguments::Arguments;

/// The definitions of all built-in tools: a file name, and the YAML in it.
pub const DEFINITIONS: &[(&str, &str)] = &[
    ("array.yaml", include_str!("definitions/array.yaml")),
    ("calculator.yaml", include_str!("definitions/calculator.yaml")),
    ("current_time.yaml", include_str!("definitions/current_time.yaml")),
    ("datetime.yaml", include_str!("definitions/datetime.yaml")),
    ("echo.yaml", include_str!("definitions/echo.yaml")),
    ("object.yaml", include_str!("definitions/object.yaml")),
    ("string.yaml", include_str!("definitions/string.yaml")),
    ("timezone_conversion.yaml", include_str!("definitions/timezone_conversion.yaml")),
    ("weekday.yaml", include_str!("definitions/weekday.yaml")),
];

/// Finds what runs a built-in tool: the handler that its entry names, or the
/// one with the tool's own name.
pub fn bind(spec: &ToolSpec) -> Result<Arc<dyn Executor>, Error> {
    let wanted = match spec.entry.handler.as_str() {
        "" => spec.name.as_str(),
        handler => handler,
    };
    let found = HANDLERS.iter().find(|(name, _)| *name == wanted);
    let Some(&(_, handler)) = found else {
        let known: Vec<&str> = HANDLERS.iter().map(|(name, _)| *name).collect();
        return Err(Error::new(
            ErrorKind::ExecutorNotFound,
            format!("no built-in handler `{wanted}`; known: {}", known.join(", ")),
        ));
    };
    Ok(Arc::new(Builtin(handler)))
}

/// What runs a tool: a function of its arguments.
type Handler = fn(&Arguments<'_>) -> Result<Output, Error>;

const HANDLERS: &[(&str, Handler)] = &[
    ("array", array::run),
    ("calculator", calculator::run),
    ("current_time", time::current_time),
    ("datetime", datetime::run),
    ("echo", echo::run),
    ("object", object::run),
    ("string", string::run),
    ("timezone_conversion", time::timezone_conversion),
    ("weekday", time::weekday),
];

struct Builtin(Handler);

impl Executor for Builtin {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(async move { (self.0)(&Arguments::new(call.arguments())) })
    }
}

#[cfg(test)]
mod tests;
