//! `calculator`: arithmetic that is exact where it can be.
//!
//! ```text
//! text ─ lexer ─► tokens ─ parser ─► steps (postfix) ─ evaluate ─► Number ─ display ─► text
//! ```
//!
//! Numbers are rationals of any size, so `0.1 + 0.2` is `0.3` and `2^200` has
//! all its digits. Only what cannot be rational (most roots, logarithms,
//! angles) becomes a 64-bit float, and the result then says so.
//!
//! Nothing here recurses over the expression without a limit, and every step
//! is paid from a [`number::Budget`]: an expression is refused before its
//! result would be too large, not after.

mod display;
mod evaluate;
mod functions;
mod lexer;
mod number;
mod parser;

use serde_json::json;
use windlass::{Error, ErrorKind, Output};

use super::arguments::Arguments;

/// The longest expression, in bytes.
const MAX_LENGTH: usize = 10_000;

/// Gives the result as text, and beside it `{expression, result, exact}`,
/// with `fraction` where the decimal digits were rounded.
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

/// What is wrong with an expression, and where.
#[derive(Debug)]
struct Fault {
    kind: ErrorKind,
    /// The character, counted from 1; 0 for the whole.
    at: usize,
    message: String,
}

impl Fault {
    /// The expression cannot be read.
    fn syntax(at: usize, message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::InvalidArguments, at, message: message.into() }
    }

    /// The expression has no value.
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
