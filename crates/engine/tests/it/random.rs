//! Property tests of validation: the engine agrees with the schema, never panics, and
//! answers every call once.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass::{CallRequest, Engine, ErrorKind, PageRequest, RecordFilter, TenantId, ToolBuilder};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^[a-z]"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "ratio": {"type": "number", "exclusiveMinimum": 0},
            "flag": {"type": "boolean", "default": false},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "place": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
                "required": ["city"],
            },
            "unit": {"enum": ["c", "f"]},
        },
        "required": ["name", "age"],
    })
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-10i64..200).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9]{0,10}".prop_map(Value::from),
        Just(json!("5")),
        Just(json!("true")),
        Just(json!("[\"a\"]")),
        Just(json!("{\"city\": \"x\", \"zip\": \"9\"}")),
        any::<String>().prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("city|zip|name|[a-z]{1,3}", inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec(("name|age|ratio|flag|tags|place|unit|x", value()), 0..8)
        .prop_map(|entries| entries.into_iter().collect())
}

fn engine(strict: bool) -> Engine {
    let tool = ToolBuilder::from_fn("probe", |input: Value| async move { input })
        .with(|spec| spec.input = schema());
    Engine::builder()
        .tool(tool)
        .settings(|settings| settings.strict_validation = strict)
        .build()
        .unwrap()
}

fn run(engine: &Engine, arguments: Value) -> Result<Value, ErrorKind> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let result = runtime.block_on(engine.call(CallRequest::new("probe", arguments)));
    let page = runtime
        .block_on(engine.records().query(
            &TenantId::default(),
            &RecordFilter::default(),
            PageRequest::first(10),
        ))
        .unwrap();
    assert_eq!(page.records.len(), 1);
    match result.outcome {
        Ok(output) => Ok(output.value().unwrap().clone()),
        Err(error) => Err(error.kind()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_engine_agrees_with_the_schema(arguments in arguments()) {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        let sent = Value::Object(arguments);
        let fits = validator.is_valid(&sent);
        match run(&engine(false), sent.clone()) {
            Ok(seen) => {
                prop_assert!(validator.is_valid(&seen), "the tool saw {seen}");
                if fits {
                    let mut expected = sent;
                    expected.as_object_mut().unwrap().entry("flag").or_insert(json!(false));
                    prop_assert_eq!(seen, expected, "an accepted value was touched");
                }
            }
            Err(kind) => {
                prop_assert_eq!(kind, ErrorKind::InvalidArguments);
                prop_assert!(!fits, "refused what the schema accepts: {sent}");
            }
        }
    }

    #[test]
    fn strict_accepts_exactly_what_the_schema_accepts(arguments in arguments()) {
        let mut closed = schema();
        closed["additionalProperties"] = json!(false);
        let fits = jsonschema::validator_for(&closed).unwrap().is_valid(&Value::Object(arguments.clone()));
        prop_assert_eq!(run(&engine(true), Value::Object(arguments)).is_ok(), fits);
    }

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        let _ = run(&engine(false), Value::String(text));
    }
}
