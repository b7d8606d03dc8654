//! Short schemas that expand to very many checks (algorithmic complexity attacks).

use std::fs;
use std::time::{Duration, Instant};

use needs_shared::needs_shared;
use serde_json::{Map, Value, json};
use windlass::definition::parse;
use windlass::{CallRequest, Engine, ErrorKind, ToolBuilder};

use super::export::{corpora, files};

/// Runs something that must not take long.
fn quickly<T>(run: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = run();
    // An unoptimised build on a busy machine is far slower than a release.
    let limit = if cfg!(debug_assertions) { 3_000 } else { 300 };
    assert!(begun.elapsed() < Duration::from_millis(limit), "{:?}", begun.elapsed());
    result
}

/// Definitions of which each refers to the next one twice.
fn doubling(levels: usize) -> Map<String, Value> {
    let mut defs = Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/n{}", level + 1)});
        defs.insert(format!("n{level}"), json!({"anyOf": [next, next]}));
    }
    defs.insert(format!("n{levels}"), json!({"type": "integer"}));
    defs
}

fn echo(input: Value) -> ToolBuilder {
    ToolBuilder::from_fn("t", |arguments: Value| async move { arguments })
        .with(|spec| spec.input = input)
}

/// A list in a list, and so on, around a text.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!("x"), |inner, _| json!([inner]))
}

#[test]
fn references_that_fan_out_are_refused_at_registration() {
    let bomb = json!({
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/n0"}},
        "$defs": doubling(30),
    });
    let refused = |tool: ToolBuilder| {
        quickly(|| Engine::builder().tool(tool).build()).err().expect("refused").to_string()
    };
    assert!(refused(echo(bomb.clone())).contains("expands to more than 100000 checks"));
    let output = echo(json!({"type": "object"})).with(|spec| spec.output = Some(bomb));
    assert!(refused(output).contains("expands to more than 100000 checks"));
}

#[test]
fn references_that_fan_out_are_refused_at_loading() {
    let engine = Engine::builder().build().unwrap();
    let whole = json!({"name": "t", "description": "x", "input_schema": {
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/n0", "default": "x"}},
        "$defs": doubling(30),
    }});
    let report = quickly(|| engine.load_text("t.json", &whole.to_string()));
    assert!(report.errors[0].to_string().contains("expands to more than"), "{:?}", report.errors);

    // The default is checked against its own part of the schema, before the
    // whole is compiled.
    let part = json!({"name": "t", "description": "x", "input_schema": {
        "type": "object",
        "properties": {
            "p": {"$ref": "#/$defs/n0", "$defs": doubling(30), "default": "x"},
        },
    }});
    quickly(|| parse("t.json", &part.to_string())).ok();
    let report = quickly(|| engine.load_text("t.json", &part.to_string()));
    assert_eq!((report.tools, report.errors.len()), (0, 1), "{:?}", report.errors);
}

#[tokio::test]
async fn a_recursive_type_that_fans_out_answers_quickly() {
    let lists = json!({"type": "array", "items": {"$ref": "#/$defs/node"}});
    let engine = Engine::builder()
        .tool(echo(json!({
            "type": "object",
            "properties": {"p": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {"anyOf": [lists, lists, {"type": "null"}]}},
        })))
        .build()
        .unwrap();
    for (depth, told) in [(3, "one of the alternatives"), (100, "too complex")] {
        let begun = Instant::now();
        let result = engine.call(CallRequest::new("t", json!({"p": nested(depth)}))).await;
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        let error = result.error().expect("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArguments);
        assert!(error.violations()[0].to_string().contains(told), "{error:?}");
    }
    let fits = (0..100).fold(json!(null), |inner, _| json!([inner]));
    let result = engine.call(CallRequest::new("t", json!({"p": fits}))).await;
    assert!(result.error().is_none(), "{result:?}");
}

#[needs_shared]
#[test]
fn real_tools_stay_within_the_bounds() {
    let mut checked = 0;
    let mut check = |text: &str| {
        let report = Engine::builder().build().unwrap().load_text("t.json", text);
        assert_eq!(report.errors, [], "{text}");
        checked += 1;
    };
    let folder = corpora("mcp/github-toolsnaps");
    for file in files(&folder, "snap") {
        check(&fs::read_to_string(&file).unwrap());
    }
    let folder = corpora("mcp/live-servers");
    for file in files(&folder, "json") {
        let server: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        server["tools"].as_array().unwrap().iter().for_each(|tool| check(&tool.to_string()));
    }
    let folder = corpora("functions/bfcl");
    for file in files(&folder, "json") {
        for line in fs::read_to_string(&file).unwrap().lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            case["function"].as_array().unwrap().iter().for_each(|tool| check(&tool.to_string()));
        }
    }
    assert_eq!(checked, 117 + 51 + 1_677);
}
