//! Expressions that are made to burn time or memory.

use serde_json::json;
use windlass_expr::{ErrorKind, Expr, Meter, Text};

/// Evaluates with the usual bounds.
fn kind(text: &str) -> Result<(), ErrorKind> {
    let expr = Expr::parse(text).map_err(|error| error.kind)?;
    let scope = json!({});
    expr.evaluate(scope.as_object().unwrap(), &mut Meter::default())
        .map(drop)
        .map_err(|error| error.kind)
}

#[test]
fn deep_nesting_is_refused() {
    let deep = 100_000;
    for text in [
        format!("{}1{}", "(".repeat(deep), ")".repeat(deep)),
        "(".repeat(deep),
        "[".repeat(deep),
        "{1:".repeat(deep),
        "!".repeat(deep),
        "-".repeat(deep),
        format!("{}1", "!(!!(".repeat(deep)),
        "a?".repeat(deep),
        "a?b:".repeat(deep),
        "x.map(y,".repeat(deep),
        "has(".repeat(deep),
        format!("a{}", ".b".repeat(deep)),
        format!("a{}", "[0]".repeat(deep)),
    ] {
        assert_eq!(kind(&text), Err(ErrorKind::Parse), "{}", &text[..20]);
        let text = format!("${{{text}}}");
        Text::parse(&text).unwrap_err();
    }
}

#[test]
fn long_texts_are_refused_and_long_literals_are_not() {
    let long = 1_000_000;
    for text in [
        "1||".repeat(long),
        "'a',".repeat(long),
        format!("'{}'", "a".repeat(long)),
        "// ".repeat(long),
    ] {
        assert_eq!(kind(&text), Err(ErrorKind::Parse), "{}", &text[..20]);
    }
    assert!(Text::parse(&"${1} ".repeat(1_000)).is_ok());
    assert!(Text::parse(&"${1}".repeat(1_001)).is_err());
    let text = format!("{}${{1}}", "$ {".repeat(long));
    assert_eq!(Text::parse(&text).unwrap().parts().len(), 2);
}

#[test]
fn the_deepest_that_is_accepted_is_evaluated_on_a_small_stack() {
    // Threads of servers have 2 MB.
    let run = || {
        let half = Expr::MAX_DEPTH - 1;
        for text in [
            format!("{}1{}", "[".repeat(half), "]".repeat(half)),
            format!("1{}", "+1".repeat(5_000)),
            format!("1{}", "==1".repeat(1_000)),
            format!("true{}", "||true".repeat(1_000)),
            format!("{}1{}", "[1].map(x, ".repeat(half), ")".repeat(half)),
            format!("{}1{}", "optional.of(".repeat(half), ")".repeat(half)),
        ] {
            assert_eq!(kind(&text), Ok(()), "{text}");
            let expr = Expr::parse(&text).unwrap();
            let types = std::collections::HashMap::<String, windlass_expr::Type>::new();
            drop(expr.infer(&types));
            assert_eq!(expr.references().count(), 0);
        }
        // The deepest value that a reader of JSON accepts.
        let deep = format!("{}1{}", "[".repeat(120), "]".repeat(120));
        let scope = json!({"v": serde_json::from_str::<serde_json::Value>(&deep).unwrap()});
        let scope = scope.as_object().unwrap();
        for text in [
            "v",
            "v == v",
            "v.flatten(1000)",
            "'%s'.format([v])",
            "json(v)",
            "parseJson(json(v))",
            "[v].distinct()[0]",
        ] {
            Expr::parse(text).unwrap().evaluate(scope, &mut Meter::default()).unwrap();
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

/// Expressions that need more than the usual bounds.
fn greedy() -> Vec<String> {
    let doubled = |inner: &str| {
        let binds = (0..40).fold("x".to_owned(), |body, _| format!("cel.bind(x, {inner}, {body})"));
        format!("cel.bind(x, 'aaaaaaaa', {binds})")
    };
    vec![
        // 2⁴⁰ bytes.
        doubled("x + x"),
        doubled("[x, x].join()"),
        doubled("x.replace('a', 'aa')"),
        doubled("'%s%s'.format([x, x])"),
        doubled("json([x, x])"),
        // A shared list, whose size is that of a tree.
        doubled("[x, x]"),
        format!("cel.bind(y, {}, y == y)", doubled("[x, x]")),
        // Time.
        "range(100000)".to_owned(),
        "range(9223372036854775807)".to_owned(),
        "range(1000).map(a, range(1000).map(b, range(1000)))".to_owned(),
        "range(1000).all(a, range(1000).all(b, true))".to_owned(),
        "range(2000).distinct()".to_owned(),
        "range(1000).map(x, string(x)).join(range(1000).map(x, 'aaaaaaaaaa').join())".to_owned(),
        "range(1000).map(x, 'aaaaaaaaaaaaaaa').join().replace('', range(1000).map(x, 'a').join())"
            .to_owned(),
        "range(1000).exists(x, 'a'.matches(string(x) + '{2}b'))".to_owned(),
        "'%.99f'.format([1.0]).size() > 0 && range(20000).all(x, '%.99f'.format([1.0]).size() > 0)"
            .to_owned(),
    ]
}

#[test]
fn the_meter_holds() {
    for text in greedy() {
        let started = std::time::Instant::now();
        assert_eq!(kind(&text), Err(ErrorKind::Limit), "{}", &text[..text.len().min(60)]);
        // A hundredth of this, on a machine with nothing else to do.
        assert!(started.elapsed().as_secs() < 10, "{text}: {:?}", started.elapsed());
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "reads the memory in use from /proc")]
fn memory_stays_flat() {
    for _ in 0..20 {
        for text in greedy() {
            assert_eq!(kind(&text), Err(ErrorKind::Limit));
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    // Of all tests of this program, which run beside this one.
    assert!(peak < 200_000, "{peak} kB");
}

#[test]
fn results_do_not_nest_without_end() {
    let wrap = Expr::parse(&format!("{}v{}", "[".repeat(30), "]".repeat(30))).unwrap();
    let mut scope = serde_json::Map::from_iter([("v".to_owned(), json!(1))]);
    for round in 0..5 {
        match wrap.evaluate(&scope, &mut Meter::default()) {
            Ok(value) => {
                serde_json::from_str::<serde_json::Value>(&value.to_string()).unwrap();
                scope.insert("v".to_owned(), value);
            }
            Err(error) => {
                assert_eq!((round, error.kind), (4, ErrorKind::Limit));
                return;
            }
        }
    }
    panic!("no end");
}

#[test]
fn parsed_expressions_go_to_other_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Expr>();
    shared::<Text>();
    shared::<windlass_expr::Tree>();
    shared::<windlass_expr::Type>();
}

#[test]
fn a_limit_is_not_absorbed() {
    assert_eq!(kind("range(9223372036854775807) == [] || true"), Err(ErrorKind::Limit));
    assert_eq!(kind("[1].exists(x, range(9223372036854775807) == [])"), Err(ErrorKind::Limit));
}

#[test]
fn one_meter_serves_many_expressions() {
    let mut meter = Meter::new(100, 10_000);
    let scope = json!({});
    let scope = scope.as_object().unwrap();
    let expr = Expr::parse("[1, 2, 3].map(x, x)").unwrap();
    let mut done = 0;
    while expr.evaluate(scope, &mut meter).is_ok() {
        done += 1;
    }
    assert!((2..20).contains(&done), "{done}");
    assert!(expr.evaluate(scope, &mut meter).is_err());
}
