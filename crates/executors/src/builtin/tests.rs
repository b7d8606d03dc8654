//! The definitions and the handlers fit each other.

use serde_json::{Value, json};
use windlass::definition::{self, Definition};
use windlass::{CallRequest, Engine, Kind, ToolBuilder, ToolName};

use super::arguments::Operation;
use super::*;

fn definitions() -> Vec<Definition> {
    let parse = |&(file, text): &(&str, &str)| {
        definition::parse(file, text).unwrap_or_else(|errors| panic!("{file}: {errors:?}"))
    };
    DEFINITIONS.iter().flat_map(parse).collect()
}

fn spec(name: &str) -> ToolSpec {
    let found = definitions().into_iter().find(|tool| tool.spec.name.as_str() == name);
    found.unwrap_or_else(|| panic!("{name}")).spec
}

#[test]
fn every_definition_has_a_handler_and_every_handler_a_definition() {
    let names: Vec<String> = definitions().iter().map(|tool| tool.spec.name.to_string()).collect();
    let handlers: Vec<&str> = HANDLERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, handlers);
    for tool in definitions() {
        assert_eq!(tool.spec.kind, Kind::Builtin);
        assert!(tool.spec.behaviour.read_only && tool.spec.behaviour.idempotent);
        assert!(bind(&tool.spec).is_ok());
    }
}

#[test]
fn every_parameter_is_described_in_both_languages() {
    for (file, text) in DEFINITIONS {
        assert_eq!(text.matches("en_US:").count(), text.matches("zh_Hans:").count(), "{file}");
    }
    for tool in definitions() {
        let properties = tool.spec.input["properties"].as_object().unwrap();
        for (name, schema) in properties {
            assert!(schema["description"].as_str().is_some_and(|text| text.len() > 10), "{name}");
        }
    }
}

#[test]
fn the_schemas_name_the_operations_that_there_are() {
    let tables: [(&str, &[(&str, Operation)]); 4] = [
        ("array", array::OPERATIONS),
        ("datetime", datetime::OPERATIONS),
        ("object", object::OPERATIONS),
        ("string", string::OPERATIONS),
    ];
    for (tool, table) in tables {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        let schema = spec(tool).input["properties"]["operation"].clone();
        assert_eq!(schema["enum"], json!(names), "{tool}");
        let description = schema["description"].as_str().unwrap();
        for name in names {
            assert!(description.contains(name), "{tool}: `{name}` is not described");
        }
    }
    let comparisons: Vec<&str> =
        array::condition::COMPARISONS.iter().map(|(name, _)| *name).collect();
    assert_eq!(spec("array").input["properties"]["comparison"]["enum"], json!(comparisons));
}

#[test]
fn an_unknown_handler_is_an_error_that_lists_the_known() {
    let mut spec = ToolSpec::new(ToolName::new("mine").unwrap());
    let error = bind(&spec).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::ExecutorNotFound);
    assert!(error.message().starts_with("no built-in handler `mine`; known: array, calculator, "));
    spec.entry.handler = "echo".into();
    assert!(bind(&spec).is_ok(), "a tool of any name may use a handler");
}

#[tokio::test]
async fn the_tools_answer_through_the_engine() {
    let mut builder = Engine::builder();
    for tool in definitions() {
        let executor = bind(&tool.spec).unwrap();
        builder = builder.tool(ToolBuilder::new(tool.spec, executor));
    }
    let engine = builder.build().unwrap();
    let calls: [(&str, Value, &str); 6] = [
        ("echo", json!({"message": "hi"}), "hi"),
        ("calculator", json!({"expression": "0.1 + 0.2"}), "0.3"),
        ("weekday", json!({"date": "2024-05-17"}), "2024-05-17 is a Friday"),
        ("string", json!({"operation": "upper", "text": "hi"}), "HI"),
        ("array", json!({"operation": "sum", "items": [1, 2]}), "3"),
        ("object", json!({"operation": "get", "object": {"a": [7]}, "path": "a[0]"}), "7"),
    ];
    for (tool, arguments, expected) in calls {
        let result = engine.call(CallRequest::new(tool, arguments)).await;
        assert_eq!(result.to_text(windlass::Lang::En), expected, "{tool}");
    }
    let request = CallRequest::new("current_time", json!({"timezone": "Mars/Olympus"}));
    let result = engine.call(request).await;
    assert!(!result.is_success());
    assert_eq!(result.to_text(windlass::Lang::En), "Unknown timezone: Mars/Olympus");
}

#[test]
fn zz_timing() {
    let time = |label: &str, tool: Handler, arguments: Value| {
        let start = std::time::Instant::now();
        let result = tool(&Arguments::new(&arguments));
        let text = match result {
            Ok(o) => o.to_text(),
            Err(e) => format!("error {e}"),
        };
        println!("{label}: {:?} {}", start.elapsed(), text.chars().take(90).collect::<String>());
    };
    let calc = |label: &str, e: String| time(label, calculator::run, json!({"expression": e}));
    calc("pow", "9^10479".into());
    calc("pows", format!("9^9000{}", "-9^9000".repeat(1000)));
    calc("harm", (1..1000).map(|n| format!("1/{n}")).collect::<Vec<_>>().join("+"));
    calc("fact", "3249!".into());
    calc("facts", "3000!*0+".repeat(1000) + "1");
    calc("ratio", "10^4000/3^8000 + 7^3000/11^2000".into());
    calc("ratio2", "(10^1600+1)/3^3000 + 1/7^1000".into());
    calc("lits", vec!["1e-999"; 1250].join("+"));
    calc("lits2", vec!["1.23456789e-99"; 660].join("+"));
    calc("sqrt", "sqrt(10^9998+1)".into());
    calc("sqrt2", "sqrt(10^9998)".into());
    calc("gcd", "gcd(9^10000, 6^10000)".into());
    calc("gcd2", "gcd(9^3000+1, 6^3000+5)".into());
    calc("comb", "comb(33000,16500)".into());
    calc("smallpow", "1.0000001^1000000000".into());
    calc("neg", "10^-9999".into());
    calc("neg2", "1/3/10^3000".into());
    calc("dec", "0.1+".repeat(2400) + "1");
    let re = |label: &str, op: &str, pattern: &str, text: String| {
        time(
            label,
            string::run,
            json!({"operation": op, "text": text, "search": pattern, "regex": true, "replacement": "x"}),
        )
    };
    re("w", "count", r"\w+", "abc def ".repeat(12500));
    re("email", "extract", r"[\w.+-]+@\w+\.\w{2,}", "abc def@x.yz ".repeat(7000));
    re("quad", "count", r".*[^A-Z]|[A-Z]", "A".repeat(100_000));
    re("many", "contains", "[ab]*a[ab]{1000}c", "ab".repeat(50_000));
    re("many2", "contains", "[ab]*a[ab]{3000}c", "aab".repeat(33_000));
    re("many3", "contains", "(a|ab|b)*a(a|b|ab){900}c", "aab".repeat(33_000));
    re("uni", "contains", r"\w{0,30}é\w{0,30}x", "aabé".repeat(20_000));
    re("size", "contains", r"\p{L}{60}", "aabé".repeat(20_000));
    let big: Vec<Value> =
        (0..100_000).map(|n| json!({"k": (n * 7919) % 100_003, "s": format!("x{n}")})).collect();
    time("sort", array::run, json!({"operation": "sort", "items": big, "key": "k"}));
    time("unique", array::run, json!({"operation": "unique", "items": big}));
    time("group", array::run, json!({"operation": "group_by", "items": big, "key": "s"}));
    let floats: Vec<f64> = (0..100_000).map(|n| f64::from(n) * 0.01).collect();
    time("sum", array::run, json!({"operation": "sum", "items": floats}));
    let map: serde_json::Map<String, Value> =
        (0..20_000).map(|n| (format!("k{n}"), json!({"a": [n]}))).collect();
    let keys: Vec<String> = (0..20_000).map(|n| format!("k{n}")).collect();
    time("pick", object::run, json!({"operation": "pick", "object": map, "keys": keys}));
    time("flatten", object::run, json!({"operation": "flatten", "object": map}));
    time("remove", object::run, json!({"operation": "remove", "object": map, "path": "k3"}));
    let list: Vec<i32> = (0..100_000).collect();
    let l2 = list.clone();
    time(
        "in",
        array::run,
        json!({"operation": "filter", "items": list, "comparison": "in", "value": l2}),
    );
}
