//! Random expressions: nothing panics, the bounds hold, and types do not lie.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use windlass_expr::{ErrorKind, Expr, Meter, Text, Type};

use crate::scope;

/// What expressions are made of.
const PIECES: &[&str] = &[
    "input",
    ".name",
    ".n",
    ".none",
    ".tags",
    "found.results",
    "skipped",
    "x",
    "y",
    "?",
    ".?",
    "[?",
    "[0]",
    "`a-b`",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "+",
    "-",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    ">=",
    "&&",
    "||",
    "!",
    " in ",
    "1",
    "0",
    "-1",
    "2.5",
    "1e308",
    "9223372036854775807",
    "18446744073709551615u",
    "''",
    "'äb'",
    "b'\\xff'",
    "true",
    "null",
    "\"%s %d\"",
    "r'\\d+'",
    ".map(x,",
    ".filter(x,",
    ".all(x,",
    ".exists(x, y,",
    ".transformMap(x, y,",
    ".sortBy(x,",
    ".optMap(x,",
    "cel.bind(x,",
    "has(",
    "default(",
    "first(",
    "size(",
    "string(",
    "int(",
    "json(",
    "parseJson(",
    "range(",
    "max(",
    "math.abs(",
    "sets.contains(",
    "optional.of(",
    "optional.none()",
    "timestamp(",
    "duration('1h')",
    "type(",
    ".split(",
    ".join(",
    ".replace(",
    ".format(",
    ".substring(",
    ".indexOf(",
    ".lastIndexOf(",
    ".charAt(",
    ".matches(",
    ".slice(",
    ".flatten(",
    ".distinct()",
    ".sort()",
    ".reverse()",
    ".orValue(",
    ".hasValue()",
    ".upper()",
    ".trim()",
    ".getFullYear('Asia/Tokyo')",
    "${",
    "// c\n",
    "'",
    "@",
    "`",
    "“",
    "\\",
    "\\x",
    "\\u00",
    "ß",
];

/// Expressions of the grammar.
fn expression() -> impl Strategy<Value = String> {
    let leaf = select(vec![
        "input.name",
        "input.n",
        "input.price",
        "input.none",
        "input.tags",
        "input.ok",
        "found.results",
        "empty",
        "big",
        "skipped?",
        "skipped?.id",
        "input?.name",
        "found.?results",
        "1",
        "-7",
        "0",
        "2.5",
        "3u",
        "'a'",
        "''",
        "'ä,b'",
        "true",
        "false",
        "null",
        "[]",
        "[3, 1, 2]",
        "{'a': 1}",
        "b'ab'",
        "timestamp('2026-01-31T09:30:00Z')",
        "duration('90s')",
        "x",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(5, 40, 3, |inner| {
        let operators =
            select(vec!["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", "&&", "||", " in "]);
        let methods = select(vec![
            "size()",
            "trim()",
            "upper()",
            "sort()",
            "reverse()",
            "distinct()",
            "flatten()",
            "first()",
            "last()",
            "sum()",
            "hasValue()",
            "value()",
            "getHours()",
            "join()",
            "split(',')",
            "lowerAscii()",
            "min()",
            "name",
            "?url",
            "a",
        ]);
        let functions = select(vec![
            "size",
            "string",
            "int",
            "double",
            "uint",
            "bool",
            "bytes",
            "type",
            "json",
            "parseJson",
            "range",
            "abs",
            "round",
            "max",
            "min",
            "sum",
            "math.ceil",
            "math.sign",
            "math.bitNot",
            "optional.of",
            "optional.ofNonZeroValue",
            "strings.quote",
            "base64.encode",
            "timestamp",
            "duration",
            "dyn",
            "!",
            "-",
            "first",
        ]);
        let binary_methods = select(vec![
            "contains",
            "startsWith",
            "split",
            "join",
            "indexOf",
            "lastIndexOf",
            "charAt",
            "substring",
            "or",
            "orValue",
            "format",
            "flatten",
            "matches",
            "getDate",
        ]);
        let macros = select(vec![
            "map(x,",
            "filter(x,",
            "all(x,",
            "exists(x,",
            "exists_one(x,",
            "sortBy(x,",
            "transformMap(k, x,",
            "transformList(k, x,",
            "transformMapEntry(k, x,",
            "optMap(x,",
            "optFlatMap(x,",
        ]);
        prop_oneof![
            (inner.clone(), operators, inner.clone())
                .prop_map(|(a, operator, b)| format!("({a} {operator} {b})")),
            (inner.clone(), methods).prop_map(|(a, method)| format!("({a}).{method}")),
            (functions, inner.clone()).prop_map(|(function, a)| format!("{function}({a})")),
            (inner.clone(), binary_methods, inner.clone())
                .prop_map(|(a, method, b)| format!("({a}).{method}({b})")),
            (inner.clone(), macros, inner.clone())
                .prop_map(|(a, name, b)| format!("({a}).{name} {b})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a}).replace({b}, {c})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a}).slice({b}, {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{'a': {a}, 'name': {b}}}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("default({a}, {b})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("cel.bind(x, {a}, {b})")),
        ]
    })
}

/// Expressions most of which have a value: those of a type.
fn typed(of: char, depth: u32) -> BoxedStrategy<String> {
    let leaves: &[&str] = match of {
        'i' => &[
            "input.n",
            "1",
            "-7",
            "size(input.tags)",
            "found.results[0].score",
            "default(skipped.id, 4)",
            "(has(skipped) ? skipped.id : 4)",
            "(has(skipped) ? 4 : skipped.id)",
        ],
        't' => &[
            "input.name",
            "'a'",
            "''",
            "'ä,b'",
            "input.tags[0]",
            "default(input.none, 'x')",
            "found.results[1].url",
        ],
        'b' => &[
            "input.ok",
            "true",
            "has(input.nothing)",
            "input.none == null",
            "has(skipped)",
            "(has(skipped) && skipped.id == 1)",
            "(!has(skipped) || skipped.ok)",
        ],
        'T' => &["input.tags", "['a', 'b,c']", "found.results.map(r, r.url)"],
        'I' => &["[3, 1, 2]", "range(4)", "found.results.map(r, r.score)"],
        _ => &[
            "input",
            "found.results",
            "null",
            "2.5",
            "{'a': 1}",
            "skipped?.id",
            "big",
            "duration('90s')",
        ],
    };
    let leaf = select(leaves).prop_map(str::to_owned).boxed();
    if depth == 0 {
        return leaf;
    }
    let forms: &[(&str, &str)] = match of {
        'i' => &[
            ("(# + #)", "ii"),
            ("(# * #)", "ii"),
            ("(# - #)", "ii"),
            ("(# / 3)", "i"),
            ("size(#)", "t"),
            ("#.size()", "T"),
            ("#.sum()", "I"),
            ("abs(#)", "i"),
            ("max(#, #)", "ii"),
            ("round(# / 2.0)", "i"),
            ("#.indexOf(#)", "tt"),
            ("#.lastIndexOf(#)", "tt"),
            ("(# ? # : #)", "bii"),
            ("int(string(#))", "i"),
            ("cel.bind(x, #, x + x)", "i"),
            ("default(#[?0], #)", "Ii"),
            ("#.first().orValue(#)", "Ii"),
            ("math.bitXor(#, #)", "ii"),
        ],
        't' => &[
            ("(# + #)", "tt"),
            ("#.upper()", "t"),
            ("#.trim()", "t"),
            ("#.replace(#, #)", "ttt"),
            ("#.join(#)", "Tt"),
            ("string(#)", "i"),
            ("json(#)", "a"),
            ("'%s-%d'.format([#, #])", "ti"),
            ("(# ? # : #)", "btt"),
            ("#.reverse()", "t"),
            ("strings.quote(#)", "t"),
            ("base64.encode(bytes(#))", "t"),
            ("#.substring(0)", "t"),
            ("default(#[?1], #)", "Tt"),
            ("#.map(x, x + #).join('-')", "Tt"),
        ],
        'b' => &[
            ("(# < #)", "ii"),
            ("(# == #)", "tt"),
            ("(# != #)", "II"),
            ("(# && #)", "bb"),
            ("(# || #)", "bb"),
            ("!#", "b"),
            ("#.contains(#)", "tt"),
            ("#.startsWith(#)", "tt"),
            ("(# in #)", "tT"),
            ("#.all(x, x > #)", "Ii"),
            ("#.exists(x, x.matches('^a') || #)", "Tb"),
            ("#.exists_one(i, x, i < # && #)", "Iib"),
            ("sets.intersects(#, #)", "TT"),
            ("type(#) == string", "a"),
        ],
        'T' => &[
            ("#.split(#)", "tt"),
            ("[#, #]", "tt"),
            ("(# + #)", "TT"),
            ("#.sort()", "T"),
            ("#.reverse()", "T"),
            ("#.filter(x, #)", "Tb"),
            ("#.map(x, # + x)", "Tt"),
            ("#.map(x, string(x))", "I"),
            ("#.distinct()", "T"),
            ("#.sortBy(x, x.size())", "T"),
            ("[?#.first(), #]", "Tt"),
        ],
        'I' => &[
            ("[#, #]", "ii"),
            ("(# + #)", "II"),
            ("#.sort()", "I"),
            ("#.filter(x, x < #)", "Ii"),
            ("#.map(x, x * #)", "Ii"),
            ("#.transformList(i, x, i + x)", "I"),
            ("#.map(x, size(x))", "T"),
            ("[#, #].flatten()", "II"),
            ("#.slice(0, 1)", "I"),
        ],
        _ => &[
            ("#", "i"),
            ("#", "t"),
            ("#", "b"),
            ("#", "T"),
            ("#", "I"),
            ("[#, #]", "aa"),
            ("{'a': #, 'b': #}", "aa"),
            ("{?'a': #.first(), 'b': #}", "Ta"),
            ("#.transformMap(i, x, #)", "Ta"),
            ("#.transformMapEntry(i, x, {x: #})", "Ta"),
            ("first(#, #)", "aa"),
            ("default(#, #)", "aa"),
            ("optional.of(#)", "a"),
            ("parseJson(json(#))", "a"),
            ("#.optMap(x, #)", "?a"),
            ("max(#)", "I"),
        ],
    };
    let composed = select(forms).prop_flat_map(move |(form, parts)| {
        let parts: Vec<_> = parts
            .chars()
            .map(|part| {
                if part == '?' {
                    Just("input?.name".to_owned()).boxed()
                } else {
                    typed(part, depth - 1)
                }
            })
            .collect();
        parts.prop_map(move |parts| {
            let mut parts = parts.into_iter();
            form.chars()
                .map(|c| if c == '#' { parts.next().unwrap_or_default() } else { c.to_string() })
                .collect::<String>()
        })
    });
    prop_oneof![1 => leaf, 5 => composed].boxed()
}

/// The types of the scope, as a schema would tell them.
fn types() -> HashMap<String, Type> {
    let schema = json!({
        "input": {"properties": {
            "name": {"type": "string"}, "n": {"type": "integer"}, "price": {"type": "number"}, "none": {"type": ["string", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}}, "ok": {"type": "boolean"},
        }, "additionalProperties": false},
        "found": {"type": "object", "properties": {"results": {"type": "array", "items": {
            "type": "object", "properties": {"url": {"type": "string"}, "score": {"type": "number"}},
        }}}},
        "empty": {"type": "object"},
        "big": {"type": "integer"},
    });
    schema
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, schema)| (name.clone(), Type::from_schema(schema)))
        .collect()
}

/// Does with an expression all that one can, within small bounds.
fn use_all(text: &str) {
    let within = format!("ä {text} ${{{text}}}");
    match Text::parse(&within) {
        Ok(text) => {
            text.references().for_each(|reference| assert!(within.get(reference.at).is_some()));
        }
        Err(error) => assert!(within.get(error.at.clone()).is_some(), "{within}: {error:?}"),
    }
    let expr = match Expr::parse(text) {
        Ok(expr) => expr,
        Err(error) => {
            assert!(text.get(error.at.clone()).is_some(), "{text}: {error:?}");
            assert!(!error.message.is_empty());
            return;
        }
    };
    for reference in expr.references() {
        assert!(text.get(reference.at.clone()).is_some(), "{text}: {reference:?}");
    }
    const BYTES: u64 = 50_000;
    let mut meter = Meter::new(5_000, BYTES);
    let scope = scope();
    let value = expr.evaluate(scope.as_object().unwrap(), &mut meter);
    let inferred = expr.infer(&types());
    match (&value, inferred) {
        (Ok(value), Ok(of)) => {
            let found = Type::from_schema(&json!({"const": value}));
            assert!(found.can_be(&of), "{text} is {value}, which is not {of}");
        }
        (Err(error), _) => {
            assert!(text.get(error.at.clone()).is_some(), "{text}: {error:?}");
            let absent = error.message == "there is no `skipped` here";
            let mut references = expr.references();
            let read =
                references.any(|reference| reference.root == "skipped" && !reference.optional);
            assert!(!absent || read, "{text}: the reference says that it may be absent");
            assert!(error.kind == ErrorKind::Evaluate || error.kind == ErrorKind::Limit);
        }
        // What is not reached may be wrong.
        (Ok(_), Err(_)) => {}
    }
    if let Ok(value) = value {
        // Escapes make a text of JSON up to six times as long.
        assert!(value.to_string().len() as u64 <= 6 * BYTES + 100, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,60}") {
        use_all(&text);
    }

    #[test]
    fn any_pieces_are_parsed_or_refused(pieces in prop::collection::vec(select(PIECES), 0..14)) {
        use_all(&pieces.concat());
    }

    #[test]
    fn expressions_are_evaluated_within_their_bounds(text in expression()) {
        use_all(&format!("cel.bind(x, input.n, {text})"));
        use_all(&format!("[1, 'a', null, {{'a': [1.5]}}].map(x, {text})"));
    }

    #[test]
    fn typed_expressions_have_the_inferred_type(text in typed('a', 4)) {
        use_all(&text);
    }

    #[test]
    fn json_returns_as_it_was(value in json_value()) {
        let scope = json!({"v": value});
        let scope = scope.as_object().unwrap();
        for text in ["v", "[v][0]", "{'a': v}.a", "parseJson(json(v))", "optional.of(v)", "v == v ? v : 1"] {
            let found = Expr::parse(text).unwrap().evaluate(scope, &mut Meter::new(100_000, 10_000_000)).unwrap();
            prop_assert_eq!(&found, &value, "{}", text);
        }
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("JSON has no such number", |number| number
            .is_finite()
            .then(|| json!(number))),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("\\PC{0,4}", inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}
