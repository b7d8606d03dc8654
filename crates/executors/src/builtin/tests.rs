//! Definitions and handlers match.

use serde_json::{Value, json};
use windlass::definition::{self, Definition};
use windlass::{CallRequest, Engine, ErrorKind, Kind, ToolBuilder, ToolName, ToolSpec};

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
        assert!(Builtins::default().bind(&tool.spec).is_ok());
        assert_eq!(definition::lint(&tool), [], "{}", tool.spec.name);
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
    let error = Builtins::default().bind(&spec).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::ExecutorNotFound);
    assert!(error.message().starts_with("no built-in handler `mine`; known: array, calculator, "));
    spec.entry.handler = "echo".into();
    assert!(Builtins::default().bind(&spec).is_ok(), "a tool of any name may use a handler");
}

#[tokio::test]
async fn the_tools_answer_through_the_engine() {
    let mut builder = Engine::builder();
    for tool in definitions() {
        let executor = Builtins::default().bind(&tool.spec).unwrap();
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
