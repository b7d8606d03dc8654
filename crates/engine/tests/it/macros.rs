//! `#[tool]`: functions and methods as tools (S2.2 to S2.11, S2.15, S2.16).

mod injected;
mod methods;
mod returned;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::{
    Behaviour, CallRequest, CallResult, Engine, Error, ErrorKind, JsonSchema, Lang, ToolBuilder,
    tool,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    #[default]
    Celsius,
    Fahrenheit,
}

/// A place on earth.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the schema matters")]
struct Place {
    /// Its name
    name: String,
    position: Option<Position>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Position {
    latitude: f64,
    longitude: f32,
}

#[derive(Serialize)]
struct Forecast {
    city: String,
    days: u32,
}

fn engine(tool: ToolBuilder) -> Engine {
    Engine::builder().tool(tool).build().unwrap()
}

async fn call(tool: ToolBuilder, arguments: Value) -> CallResult {
    let name = tool.spec().name.shared();
    engine(tool).call(CallRequest::new(name, arguments)).await
}

async fn text(tool: ToolBuilder, arguments: Value) -> String {
    call(tool, arguments).await.outcome.unwrap().to_text()
}

async fn error(tool: ToolBuilder, arguments: Value) -> Error {
    call(tool, arguments).await.outcome.unwrap_err()
}

/// The schema that a model sees.
fn model_schema(tool: ToolBuilder) -> Value {
    let name = tool.spec().name.shared();
    engine(tool).registry().get(&name).unwrap().model_schema().clone()
}

/// Gets the weather of a city.
///
/// Works best for large cities:
///   - of Europe
#[tool(
    name = "weather.get",
    read_only,
    concurrency_safe,
    idempotent,
    timeout = "1500ms",
    group = "weather",
    category = "http"
)]
async fn get_weather(
    /// City name
    city: String,
    /// How many days,
    /// today included
    #[param(default = 3)]
    days: u32,
    #[param(name = "in", description = "The unit")] unit: Option<Unit>,
) -> Result<Forecast, std::fmt::Error> {
    assert_ne!(unit, Some(Unit::Fahrenheit));
    Ok(Forecast { city, days })
}

#[test]
fn the_attribute_describes_the_tool() {
    let builder = get_weather::tool();
    let spec = builder.spec();
    assert_eq!(spec.name.as_str(), "weather.get");
    assert_eq!(
        spec.description.get(Lang::En),
        "Gets the weather of a city.\n\nWorks best for large cities:\n  - of Europe"
    );
    assert_eq!(spec.behaviour, Behaviour::READ_ONLY);
    assert_eq!(spec.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(spec.group.as_deref(), Some("weather"));
    assert_eq!(spec.category.as_str(), "http");

    /// In the comment
    #[tool(description = concat!("In the ", "attribute"), destructive, concurrency_safe = false)]
    fn careful() {}
    let builder = careful::tool();
    let spec = builder.spec();
    assert_eq!(spec.description.get(Lang::En), "In the attribute");
    assert!(spec.behaviour.destructive && !spec.behaviour.read_only);
    assert_eq!(spec.behaviour.concurrency_safe, Some(false));
    assert_eq!((spec.timeout, spec.group.as_ref()), (None, None));
}

#[test]
fn the_schema_is_flat_and_exact() {
    assert_eq!(
        get_weather::tool().spec().input,
        json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City name"},
                "days": {
                    "type": "integer",
                    "minimum": 0,
                    "default": 3,
                    "description": "How many days,\ntoday included",
                },
                "in": {
                    "type": "string",
                    "enum": ["celsius", "fahrenheit"],
                    "description": "The unit",
                },
            },
            "required": ["city"],
        })
    );
    let keys: Vec<_> = get_weather::tool().spec().input["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(keys, ["city", "days", "in"], "the order of the signature");
}

#[test]
fn every_type_has_its_schema() {
    /// Takes everything.
    #[tool]
    #[allow(unused_variables)]
    fn everything(
        text: String,
        long: i64,
        double: f64,
        yes: bool,
        list: Vec<String>,
        map: HashMap<String, i32>,
        place: Place,
        places: Vec<Position>,
        unit: Unit,
        free: Option<BTreeMap<String, Unit>>,
    ) {
    }
    let position = json!({
        "type": "object",
        "properties": {"latitude": {"type": "number"}, "longitude": {"type": "number"}},
        "required": ["latitude", "longitude"],
    });
    let unit = json!({"type": "string", "enum": ["celsius", "fahrenheit"]});
    assert_eq!(
        everything::tool().spec().input,
        json!({
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "long": {"type": "integer"},
                "double": {"type": "number"},
                "yes": {"type": "boolean"},
                "list": {"type": "array", "items": {"type": "string"}},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "place": {
                    "description": "A place on earth.",
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "description": "Its name"},
                        "position": position,
                    },
                    "required": ["name"],
                },
                "places": {"type": "array", "items": position},
                "unit": unit,
                "free": {"type": "object", "additionalProperties": unit},
            },
            "required":
                ["text", "long", "double", "yes", "list", "map", "place", "places", "unit"],
        })
    );

    /// Takes nothing.
    #[tool]
    fn nothing() {}
    assert_eq!(nothing::tool().spec().input, json!({"type": "object", "properties": {}}));
}

#[tokio::test]
async fn arguments_reach_the_function() {
    let full = json!({"city": "Bern", "days": 5, "in": "celsius"});
    let result = call(get_weather::tool(), full).await;
    assert_eq!(result.output().unwrap().value(), Some(&json!({"city": "Bern", "days": 5})));
    let result = call(get_weather::tool(), json!({"city": "Bern"})).await;
    assert_eq!(result.output().unwrap().value(), Some(&json!({"city": "Bern", "days": 3})));

    let missing = error(get_weather::tool(), json!({"days": 5})).await;
    assert_eq!(missing.kind(), ErrorKind::InvalidArguments);
    let unknown = error(get_weather::tool(), json!({"city": "Bern", "in": "kelvin"})).await;
    assert_eq!(unknown.violations()[0].path, "/in");
}

#[tokio::test]
async fn the_function_can_be_called_directly() {
    let forecast = get_weather("Bern".to_owned(), 2, None).await.unwrap();
    assert_eq!((forecast.city.as_str(), forecast.days), ("Bern", 2));
}

#[tokio::test]
async fn defaults_are_literals_expressions_or_the_types_own() {
    const LIMIT: i64 = 10;

    /// Lists.
    #[tool]
    fn list(
        #[param(default = "date")] by: String,
        #[param(default = LIMIT * 2)] limit: i64,
        #[param(default = -1.5)] below: f64,
        #[param(default)] unit: Unit,
        #[param(default = "asc")] order: Option<String>,
        #[param(default = vec![Unit::Fahrenheit])] units: Vec<Unit>,
        #[param(default)] r#type: String,
    ) -> String {
        let kind = r#type;
        format!("{by} {limit} {below} {unit:?} {order:?} {units:?} {kind:?}")
    }
    let builder = list::tool();
    let input = &builder.spec().input;
    assert_eq!(input.get("required"), None);
    let defaults: Value = (input["properties"].as_object().unwrap().iter())
        .map(|(name, property)| (name.clone(), property["default"].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    assert_eq!(
        defaults,
        json!({
            "by": "date", "limit": 20, "below": -1.5, "unit": "celsius", "order": "asc",
            "units": ["fahrenheit"], "type": "",
        })
    );
    assert_eq!(
        text(list::tool(), json!({})).await,
        r#"date 20 -1.5 Celsius Some("asc") [Fahrenheit] """#
    );
    assert_eq!(
        text(list::tool(), json!({"by": "size", "order": "desc", "units": [], "type": "x"})).await,
        r#"size 20 -1.5 Celsius Some("desc") [] "x""#
    );
}

#[tokio::test]
async fn presets_fill_parameters_and_hide_them() {
    let preset = || get_weather::tool().with(|spec| spec.group = None).preset("days", 7);
    let schema = model_schema(preset());
    assert_eq!(schema["properties"].get("days"), None);
    assert_eq!(schema["required"], json!(["city"]));
    let result = call(preset(), json!({"city": "Bern"})).await;
    assert_eq!(result.output().unwrap().value(), Some(&json!({"city": "Bern", "days": 7})));

    let unknown = get_weather::tool().preset("emitter", 1);
    let refused = Engine::builder().tool(unknown).build().err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::InvalidDefinition);
}

/// Changes notes.
#[tool(
    writes = ["notes:{name}"],
    safe_when(action = ["load", "list"], depth = [1, 2]),
    retry(attempts = 4, backoff = "10ms", multiplier = 3, max_backoff = "1m")
)]
async fn notes(name: String, action: String, depth: i64) -> String {
    format!("{action} {name} {depth}")
}

/// Looks a word up.
#[tool(read_only, cache, retry = 2, writes = "log")]
async fn look_up(word: String) -> String {
    word
}

#[tokio::test]
async fn writes_retry_cache_and_safe_when_are_what_definitions_say() {
    let notes = notes::tool();
    let spec = notes.spec();
    assert_eq!(spec.writes, ["notes:{name}"]);
    assert_eq!(spec.safe_when["action"], [json!("load"), json!("list")]);
    assert_eq!(spec.safe_when["depth"], [json!(1), json!(2)]);
    let policy = spec.retry.unwrap();
    assert_eq!((policy.attempts, policy.multiplier), (4, 3.0));
    assert_eq!(policy.backoff, Duration::from_millis(10));
    assert_eq!(policy.max_backoff, Duration::from_secs(60));
    let looks = look_up::tool();
    assert_eq!(looks.spec().cache, Some(Duration::from_secs(300)));
    assert_eq!(looks.spec().retry.unwrap().attempts, 2);
    assert_eq!(looks.spec().writes, ["log"]);
    let engine = engine(looks);
    let first = engine.call(CallRequest::new("look_up", json!({"word": "a"}))).await;
    let again = engine.call(CallRequest::new("look_up", json!({"word": "a"}))).await;
    assert_eq!(again.same_as, Some(first.id));
}

/// How fast something comes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Speed {
    /// Within a week
    Standard,
    /// By tomorrow
    Express,
    /// By bicycle
    Courier,
}

/// What is drawn.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[expect(dead_code, reason = "only the schema matters")]
enum Shape {
    /// Round
    Circle { radius: f64 },
    /// Four sides
    Square { side: f64 },
}

/// Ships something.
#[tool]
async fn ship(
    /// How fast
    speed: Speed,
    shape: Option<Shape>,
) -> String {
    format!("{speed:?} {shape:?}")
}

#[tokio::test]
async fn an_enum_with_doc_comments_lists_its_alternatives() {
    let told = |arguments: Value| async move {
        let error = error(ship::tool(), arguments).await;
        (error.message().to_owned(), error.feedback(Lang::Zh))
    };
    let (english, chinese) = told(json!({"speed": "fast"})).await;
    let listed = "\"standard\", \"express\", \"courier\"";
    assert_eq!(english, format!("/speed: expected one of {listed}, got \"fast\""));
    assert_eq!(chinese, format!("工具输入参数无效: /speed: 应为以下之一: {listed}, 实为\"fast\""));
    let (english, _) = told(json!({"speed": "express", "shape": {"kind": "star"}})).await;
    assert!(english.contains("\"circle\", \"square\""), "{english}");
    let (english, _) = told(json!({"speed": "express", "shape": {"kind": "circle"}})).await;
    assert!(english.contains("/shape/radius: expected a required value"), "{english}");
}

#[tokio::test]
async fn violations_are_told_in_chinese_to_who_reads_it() {
    let arguments = json!({"nam": "x", "action": 5, "depth": "deep"});
    let chinese = error(notes::tool(), arguments).await.feedback(Lang::Zh);
    for said in [
        "/name: 应为必填的值, 实为空(`nam` 不是参数;是否指 `name`?)",
        "/action: 应为字符串, 实为5",
        "/depth: 应为整数, 实为\"deep\"",
    ] {
        assert!(chinese.contains(said), "{chinese}");
    }
    let chinese = error(notes::tool(), json!([])).await.feedback(Lang::Zh);
    assert_eq!(chinese, "工具输入参数无效: 参数: 应为以工具参数为键的对象, 实为数组");
    let unknown = engine(notes::tool()).call(CallRequest::new("zzzzzz", json!({}))).await;
    let unknown = unknown.outcome.unwrap_err();
    assert_eq!(unknown.explain(Lang::En), "unknown tool: zzzzzz");
    assert_eq!(unknown.explain(Lang::Zh), "未知工具: zzzzzz");
}
