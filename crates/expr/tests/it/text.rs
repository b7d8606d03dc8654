//! Strings and values of files.

use serde_json::{Value, json};
use windlass_expr::{Meter, Text, Tree};

use crate::scope;

#[track_caller]
fn check(text: &str, expected: Value) {
    let text = Text::parse(text).unwrap();
    let value = text.evaluate(scope().as_object().unwrap(), &mut Meter::default()).unwrap();
    assert_eq!(value, expected);
}

#[test]
fn a_text_that_is_one_expression_keeps_its_type() {
    check("${input.n}", json!(3));
    check("${ {'a': {'b': 1}} }", json!({"a": {"b": 1}}));
    check("${'}'}", json!("}"));
    check(" ${input.n}", json!(" 3"));
}

#[test]
fn other_texts_are_strings() {
    check("", json!(""));
    check("plain $ text { }", json!("plain $ text { }"));
    check("Dear ${input.name}, ${input.n} of ${input.price}", json!("Dear Ann, 3 of 2.5"));
    check("${input.tags}!", json!("[\"b\",\"a\"]!"));
    check("${input.none}/${input.ok}/${2.0}", json!("null/true/2.0"));
    check("<${skipped?.id}>", json!("<>"));
    check("$${x} costs $${input.n} or $${${input.n}", json!("${x} costs ${input.n} or ${3"));
    check("$$${x}", json!("$${x}"));
}

#[test]
fn values_are_never_read_as_expressions() {
    let scope = json!({"a": "${b}", "b": "secret"});
    let value = Text::parse("${a} ${a + '${b}'}").unwrap();
    let value = value.evaluate(scope.as_object().unwrap(), &mut Meter::default()).unwrap();
    assert_eq!(value, json!("${b} ${b}${b}"));
}

#[test]
fn errors_are_placed_in_the_text() {
    let error = Text::parse("ab ${1 + }").unwrap_err();
    assert_eq!(
        (error.at.clone(), error.to_string()),
        (9..10, "expected a value, found `}`".to_owned())
    );
    let error = Text::parse("ab ${1").unwrap_err();
    assert_eq!(
        (error.at.clone(), error.to_string()),
        (
            3..5,
            "`${` is not closed; close it with `}`, or write `$${` for the characters themselves"
                .to_owned()
        )
    );
    let text = Text::parse("äb ${input.nam}").unwrap();
    let error = text.evaluate(scope().as_object().unwrap(), &mut Meter::default()).unwrap_err();
    assert_eq!(error.at, 6..15);
    let places: Vec<_> = text.references().map(|reference| reference.at).collect();
    assert_eq!(places, vec![std::ops::Range { start: 6, end: 15 }]);
}

#[test]
fn conditions_stand_without_braces() {
    let tree = Tree::from(windlass_expr::Expr::parse("input.n > 2").unwrap());
    let value = tree.evaluate(scope().as_object().unwrap(), &mut Meter::default()).unwrap();
    assert_eq!(value, json!(true));
    windlass_expr::Expr::parse("input.ok} and ${input.ok").unwrap_err();
}

#[test]
fn trees_have_expressions_in_strings_only() {
    let tree = Tree::parse(
        &json!({"a": ["${input.n}", 1, null, "x$${"], "${k}": {"b": "${input.name}!"}}),
    )
    .unwrap();
    let value = tree.evaluate(scope().as_object().unwrap(), &mut Meter::default()).unwrap();
    assert_eq!(value, json!({"a": [3, 1, null, "x${"], "${k}": {"b": "Ann!"}}));
    let read: Vec<_> =
        tree.references().map(|(path, reference)| (path, reference.root.to_owned())).collect();
    assert_eq!(
        read,
        [("/a/0".to_owned(), "input".to_owned()), ("/${k}/b".to_owned(), "input".to_owned())]
    );
    assert!(!tree.is_constant());
    assert!(Tree::parse(&json!({"a": "${1}", "b": "x"})).unwrap().is_constant());

    let error = Tree::parse(&json!({"a/b": {"c": ["${"]}})).unwrap_err();
    assert_eq!(error.path, "/a~1b/c/0");
}
