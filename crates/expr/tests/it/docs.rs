//! The examples of `docs/concepts/expressions.md`.

use serde_json::Value;
use windlass_expr::{Expr, Meter, Text};

const PAGE: &str = include_str!("../../../../docs/concepts/expressions.md");

/// The first two cells of each row below a header, without backticks.
fn rows(header: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut within = false;
    for line in PAGE.lines() {
        if !line.starts_with('|') {
            within = false;
        } else if line == header {
            within = true;
        } else if within && !line.starts_with("|---") {
            // Within a table, `|` is written `\|`.
            let line = line.replace("\\|", "\u{1}");
            let cells: Vec<String> =
                line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
            found.push((cells[1].clone(), cells[2].clone()));
        }
    }
    found
}

fn code(cell: &str) -> &str {
    let cell = cell
        .strip_prefix("`` ")
        .or_else(|| cell.strip_prefix("``"))
        .and_then(|cell| cell.strip_suffix("``"))
        .unwrap_or(cell);
    cell.trim().strip_prefix('`').and_then(|cell| cell.strip_suffix('`')).unwrap_or(cell).trim()
}

fn scope() -> Value {
    let json = PAGE.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    serde_json::from_str(json).unwrap()
}

#[test]
fn examples_have_the_values_that_the_page_says() {
    let scope = scope();
    let scope = scope.as_object().unwrap();
    let rows = rows("| expression | value |");
    assert!(rows.len() > 100, "{}", rows.len());
    for (text, expected) in rows {
        let expected: Value = serde_json::from_str(code(&expected)).expect(&expected);
        let value =
            Expr::parse(code(&text)).and_then(|expr| expr.evaluate(scope, &mut Meter::default()));
        assert_eq!(value, Ok(expected), "{text}");
    }
}

#[test]
fn strings_have_the_values_that_the_page_says() {
    let scope = scope();
    let scope = scope.as_object().unwrap();
    let rows = rows("| string | value |");
    assert!(rows.len() > 4, "{}", rows.len());
    for (text, expected) in rows {
        let expected: Value = serde_json::from_str(code(&expected)).expect(&expected);
        let value =
            Text::parse(code(&text)).and_then(|text| text.evaluate(scope, &mut Meter::default()));
        assert_eq!(value, Ok(expected), "{text}");
    }
}

#[test]
fn errors_are_those_that_the_page_says() {
    let scope = scope();
    let scope = scope.as_object().unwrap();
    let rows = rows("| expression | error |");
    assert!(rows.len() > 9, "{}", rows.len());
    for (text, expected) in rows {
        let value =
            Expr::parse(code(&text)).and_then(|expr| expr.evaluate(scope, &mut Meter::default()));
        assert_eq!(value.map_err(|error| error.to_string()), Err(expected), "{text}");
    }
}
