//! What an expression reads.

use windlass_expr::{Access, Expr, Reference};

fn shown(reference: &Reference<'_>) -> String {
    let mut shown = reference.root.to_owned();
    if reference.optional {
        shown.push('?');
    }
    for segment in &reference.path {
        shown += &match segment.access {
            Access::Key(key) => format!(".{key}"),
            Access::Index(index) => format!("[{index}]"),
        };
        if segment.optional {
            shown.push('?');
        }
    }
    format!("{shown} {}..{}", reference.at.start, reference.at.end)
}

#[track_caller]
fn reads(text: &str, expected: &[&str]) {
    let expr = Expr::parse(text).unwrap();
    let found: Vec<String> = expr.references().map(|reference| shown(&reference)).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn names_and_paths_are_known() {
    reads("a.b.c + d", &["a.b.c 0..5", "d 8..9"]);
    reads("a['b'][0].c", &["a.b[0].c 0..11"]);
    reads("a[b.c].d", &["a 0..1", "b.c 2..5"]);
    reads("a?.b", &["a?.b 0..4"]);
    reads("a.?b.c", &["a.b?.c 0..6"]);
    reads("a[?0]", &["a[0]? 0..5"]);
    reads("has(a.b.c)", &["a.b.c? 4..9"]);
    reads("has(a)", &["a? 4..5"]);
    reads("default(a.b, c)", &["a?.b? 8..11", "c 13..14"]);
    reads("first(a, b.c)", &["a? 6..7", "b?.c? 9..12"]);
    reads("a.b.map(x, x.c + d.e)", &["a.b 0..3", "d.e 17..20"]);
    reads("x.map(x, x)", &["x 0..1"]);
    reads("[1].map(a, .a)", &["a 11..13"]);
    reads("cel.bind(y, a.b, y.c)", &["a.b 12..15"]);
    reads("a.b.split(',')[0]", &["a.b 0..3"]);
    reads("math.abs(1) + json.encode(2).size()", &[]);
    reads("json.value", &["json.value 0..10"]);
    reads("type(1) == int", &[]);
    reads("`get-ticket`.id", &["get-ticket.id 0..15"]);
    reads("(a.b).c", &["a.b.c 1..7"]);
}

#[test]
fn a_name_that_was_asked_for_may_be_absent() {
    reads("has(a) ? a.b : 1", &["a? 4..5", "a?.b 9..12"]);
    reads("!has(a) ? 1 : a.b", &["a? 5..6", "a?.b 14..17"]);
    reads("has(a) ? 1 : a.b", &["a? 4..5", "a.b 13..16"]);
    reads("has(a) && a.b > a.c", &["a? 4..5", "a?.b 10..13", "a?.c 16..19"]);
    reads("a.b && has(a)", &["a.b 0..3", "a? 11..12"]);
    reads("!has(a) || a.b", &["a? 5..6", "a?.b 11..14"]);
    reads("has(a) || a.b", &["a? 4..5", "a.b 10..13"]);
    reads(
        "has(a?.x) && b ? [1].map(i, a.b) : a.c",
        &["a?.x? 4..8", "b 13..14", "a?.b 28..31", "a.c 35..38"],
    );
    reads("a?.x.hasValue() ? a.y : 0", &["a?.x 0..4", "a?.y 18..21"]);
    reads("(has(a) ? 1 : 2) + a.b", &["a? 5..6", "a.b 19..22"]);
}

#[test]
fn constants_read_nothing() {
    assert!(Expr::parse("[1, 2].map(x, x + 1)").unwrap().is_constant());
    assert!(!Expr::parse("[1, 2].map(x, x + a)").unwrap().is_constant());
}
