//! `calculator`: exact arithmetic where possible.
//!
//! ```text
//! text ─ lexer ─► tokens ─ parser ─► steps (postfix) ─ evaluate ─► Number ─ display ─► text
//! ```
//!
//! Numbers are rationals of arbitrary precision, so `0.1 + 0.2` is `0.3` and `2^200` has
//! all its digits. Only irrational results (most roots, logarithms, trigonometry) become
//! 64-bit floats, and are marked as inexact.
//!
//! Recursion is bounded, and every step is charged to a [`number::Budget`]: an expression
//! is refused before its result becomes too large, not after.

mod display;
mod evaluate;
mod functions;
mod lexer;
mod number;
mod parser;

use serde_json::json;
use windlass::{Error, ErrorKind, Output};

use super::arguments::Arguments;

/// Maximum length of an expression in bytes.
const MAX_LENGTH: usize = 10_000;

/// The result as text and as `{expression, result, exact}`, with `fraction` if the
/// decimals were rounded.
pub(super) fn run(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let expression = arguments.text("expression")?;
    let shown = calculate(expression).map_err(Fault::into_error)?;
    let mut structured = json!({
        "expression": expression,
        "result": shown.value,
        "exact": shown.exact,
    });
    if let Some(fraction) = &shown.fraction {
        structured["fraction"] = json!(fraction);
    }
    let text = match (&shown.fraction, shown.exact) {
        (_, true) => shown.text,
        (Some(fraction), false) => format!("{} (rounded; exactly {fraction})", shown.text),
        (None, false) => format!("{} (approximate)", shown.text),
    };
    Ok(Output::text(text).with_structured(structured))
}

fn calculate(expression: &str) -> Result<display::Shown, Fault> {
    if expression.len() > MAX_LENGTH {
        let message = format!("the expression is longer than {MAX_LENGTH} bytes");
        return Err(Fault::syntax(0, message));
    }
    let tokens = lexer::lex(expression)?;
    let steps = parser::parse(&tokens)?;
    Ok(display::show(&evaluate::evaluate(&steps)?))
}

/// An error in an expression, with its position.
#[derive(Debug)]
struct Fault {
    kind: ErrorKind,
    /// The character, counted from 1; 0 for the whole expression.
    at: usize,
    message: String,
}

impl Fault {
    /// A syntax error.
    fn syntax(at: usize, message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::InvalidArguments, at, message: message.into() }
    }

    /// An evaluation error.
    fn value(at: usize, message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::ToolError, at, message: message.into() }
    }

    fn into_error(self) -> Error {
        let Self { kind, at, message } = self;
        let place = if at == 0 { String::new() } else { format!(" (at character {at})") };
        Error::new(kind, format!("{message}{place}"))
    }
}

#[cfg(test)]
mod tests;
