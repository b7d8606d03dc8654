//! Texts that are no expressions.

use windlass_expr::{Expr, is_reserved};

#[track_caller]
fn refused(text: &str, expected: &str, at: std::ops::Range<usize>) {
    let error = Expr::parse(text).expect_err(text);
    assert_eq!((error.to_string(), error.at), (expected.to_owned(), at), "{text}");
}

#[test]
fn says_what_to_write_instead() {
    refused("", "the expression is empty; write a value, for example `input.name`", 0..0);
    refused("1 +", "expected a value, found the end", 3..3);
    refused("a = 1", "an expression cannot contain `=` here; write == to compare", 2..3);
    refused("a and b", "the expression is complete before this; write && for `and`", 2..5);
    refused("(1", "`)` is missing; close this with `)`", 0..1);
    refused("a ?? b", "there is no operator `??`; write default(value, otherwise)", 2..4);
    refused("len(a)", "there is no function `len`; write size(value)", 0..3);
    refused("a.lenght()", "there is no method `lenght`", 2..8);
    refused("a.trm()", "there is no method `trm`; did you mean `trim`?", 2..5);
    refused(
        "trim(a)",
        "there is no function `trim`; `trim` is a method; write value.trim(…)",
        0..4,
    );
    refused(
        "a.split()",
        "`split` has 0 arguments here; write string.split(string) or string.split(string, int)",
        0..9,
    );
    refused(
        "now()",
        "there is no function `now`; expressions have no clock, randomness, environment or secrets; take such values from steps",
        0..3,
    );
    refused("'abc", "a string is not closed; close it with '", 0..1);
    refused(
        "'a\\qb'",
        "there is no such escape; write \\\\ for a backslash, or r\"…\" for a string without escapes",
        2..4,
    );
    refused("if a", "`if` is a reserved word; write condition ? this : that", 0..2);
    refused("99999999999999999999", "the number does not fit into 64 bits", 0..20);
    refused(
        "a.map(1, 2)",
        "expected a name for the element in `map`, found a number; write map(x, …)",
        6..7,
    );
    refused("a.all(x, x, x > 1)", "the two variables have the same name", 9..10);
    refused("has(1)", "`has` asks for one field; write has(value.field)", 0..6);
    refused(
        "x.matches('[')",
        "the regular expression is invalid: unclosed character class; write backslashes twice, or the pattern as r\"…\"",
        10..13,
    );
    refused("“a”", "an expression cannot contain `“` here; write straight quotes", 0..3);
    refused(
        "`a€`",
        "a name in backticks has letters, digits and `_-./ ` only; write `[\"name\"]` for any other name",
        2..5,
    );
}

#[test]
fn keeps_names() {
    for name in ["true", "null", "in", "for", "list", "string", "type"] {
        assert!(is_reserved(name), "{name}");
    }
    for name in ["input", "lists", "item", "first", "size"] {
        assert!(!is_reserved(name), "{name}");
    }
}
