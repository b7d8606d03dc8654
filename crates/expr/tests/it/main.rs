//! The tests of expressions: what a workflow's author writes, and what comes of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a failure here should stop the run"
)]

mod docs;
mod evaluate;
mod hostile;
mod infer;
mod parse;
mod random;
mod reference;
mod text;

use serde_json::{Value, json};
use windlass_expr::{Error, Expr, Meter};

/// What the tests read.
fn scope() -> Value {
    json!({
        "input": {"name": "Ann", "n": 3, "price": 2.5, "none": null, "tags": ["b", "a"], "ok": true},
        "found": {"results": [{"url": "u1", "score": 2}, {"url": "u2", "score": 1}]},
        "empty": {},
        "big": 18_446_744_073_709_551_615_u64,
        "get-ticket": {"id": 7},
    })
}

fn evaluate(text: &str) -> Result<Value, Error> {
    let expr = Expr::parse(text)?;
    let scope = scope();
    expr.evaluate(scope.as_object().unwrap(), &mut Meter::default())
}

/// Checks the value of an expression.
#[track_caller]
fn check(text: &str, expected: Value) {
    match evaluate(text) {
        Ok(value) => assert_eq!(value, expected, "{text}"),
        Err(error) => panic!("{text}: {error}, at {:?}", error.at),
    }
}

/// Checks what an expression fails with: the whole text of the error.
#[track_caller]
fn fails(text: &str, expected: &str) {
    match evaluate(text) {
        Ok(value) => panic!("{text} is {value}"),
        Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
    }
}
