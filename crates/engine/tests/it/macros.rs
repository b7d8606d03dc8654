//! `#[tool]`: functions and methods as tools (S2.2 to S2.11, S2.15, S2.16).

#![expect(clippy::unwrap_used, reason = "the helpers are part of the tests")]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::{
    Agent, Behaviour, Call, CallId, CallRequest, CallResult, Content, Context, Emitter, Engine,
    Error, ErrorKind, EventBody, FilledBy, FromCall, Inject, InputKind, IntoOutput, Json,
    JsonSchema, Lang, Output, Preset, Secret, ToolBuilder, tool,
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
async fn context_objects_are_found_by_type_call_before_agent_before_engine() {
    struct User(&'static str);
    struct Missing;

    /// Says who calls.
    #[tool]
    async fn who(
        user: Inject<User>,
        none: Option<Inject<Missing>>,
        agent: Option<Arc<Agent>>,
    ) -> String {
        assert!(none.is_none());
        format!("{} {}", user.0.0, agent.map_or_else(String::new, |agent| agent.id.clone()))
    }
    /// Needs what nobody gives.
    #[tool]
    async fn needs(missing: Inject<Missing>) {
        drop(missing);
    }
    assert_eq!(model_schema(who::tool()), json!({"type": "object", "properties": {}}));

    let engine = Engine::builder()
        .tools([who::tool(), needs::tool()])
        .object(User("engine"))
        .build()
        .unwrap();
    let agent = Arc::new(Agent::new("a1", "Ann").object(User("agent")));
    let ask = async |context: Context| {
        let request = CallRequest::new("who", json!({})).context(context);
        engine.call(request).await.outcome.unwrap().to_text()
    };
    assert_eq!(ask(Context::default()).await, "engine ");
    assert_eq!(ask(Context::default().agent(Arc::clone(&agent))).await, "agent a1");
    assert_eq!(ask(Context::default().object(User("call")).agent(agent)).await, "call a1");

    let failed = engine.call(CallRequest::new("needs", json!({}))).await;
    assert_eq!(failed.error().unwrap().kind(), ErrorKind::Internal);
    assert!(failed.error().unwrap().message().contains("Missing"));
}

#[tokio::test]
async fn anything_from_a_call_can_be_injected() {
    struct Tenant(String);
    impl FromCall for Tenant {
        fn from_call(call: &Call, parameter: &str) -> Result<Self, Error> {
            Ok(Self(format!("{parameter}={}", call.caller().tenant)))
        }
    }

    /// Says what it was given.
    #[tool]
    async fn inspect(
        city: String,
        #[inject] tenant: Tenant,
        id: CallId,
        agent: Arc<Agent>,
        call: &Call,
    ) -> String {
        assert_eq!(id, call.id());
        assert_eq!(call.argument("city"), Some(&json!(city)));
        format!("{} {} {}", tenant.0, agent.name, call.tool().name())
    }
    /// Runs in place.
    #[tool(inline)]
    fn inspect_inline(call: &Call) -> String {
        call.arguments().to_string()
    }
    let city = json!({"type": "object", "properties": {"city": {"type": "string"}},
        "required": ["city"]});
    assert_eq!(model_schema(inspect::tool()), city);

    let context = Context::default().agent(Arc::new(Agent::new("a1", "Ann")));
    let request = CallRequest::new("inspect", json!({"city": "Bern"})).context(context);
    let result = engine(inspect::tool()).call(request).await;
    assert_eq!(result.outcome.unwrap().to_text(), "tenant=default Ann inspect");
    assert_eq!(text(inspect_inline::tool(), json!({"x": 1})).await, r#"{"x":1}"#);
    let without_agent = error(inspect::tool(), json!({"city": "Bern"})).await;
    assert!(without_agent.message().contains("agent"), "{without_agent}");
}

#[tokio::test]
async fn progress_goes_out_as_events() {
    /// Works on.
    #[tool]
    fn work(steps: u32, emitter: Emitter) {
        for step in 1..=steps {
            emitter.emit(format!("step {step}"));
        }
    }
    let engine = engine(work::tool());
    let mut events = engine.events();
    let request = CallRequest::new("work", json!({"steps": 2})).call_ref("toolu_1");
    assert!(engine.call(request).await.is_success());
    let mut progress = Vec::new();
    loop {
        match events.next().await.unwrap().body {
            EventBody::ExecutionProgress { call, progress: content } => {
                assert_eq!(call.call_ref.as_deref(), Some("toolu_1"));
                progress.push(content.to_text());
            }
            EventBody::ExecutionCompleted { .. } => break,
            _ => {}
        }
    }
    assert_eq!(progress, ["step 1", "step 2"]);
}

#[tokio::test]
async fn secrets_come_from_presets_or_the_context_and_are_never_arguments() {
    /// Asks a service.
    #[tool]
    async fn ask(
        question: String,
        /// The key of the service
        api_key: Secret,
        #[param(name = "proxy-key")] proxy: Option<Secret>,
        call: &Call,
    ) -> String {
        assert_eq!(call.arguments(), &json!({"question": question}));
        let proxy = proxy.as_ref().map_or("none", Secret::expose);
        format!("{} {proxy}", api_key.expose())
    }
    let builder = ask::tool();
    let key = &builder.spec().parameters["api_key"];
    assert_eq!((key.filled_by, key.input), (FilledBy::Secret, InputKind::SecretInput));
    assert!(key.required && !builder.spec().parameters["proxy-key"].required);
    assert_eq!(key.help.as_ref().unwrap().get(Lang::En), "The key of the service");
    let properties = model_schema(ask::tool())["properties"].clone();
    assert_eq!(properties, json!({"question": {"type": "string"}}));

    let question = json!({"question": "why"});
    let unset = error(ask::tool(), question.clone()).await;
    assert_eq!(unset.kind(), ErrorKind::CredentialInvalid);

    let preset = ask::tool().preset("api_key", Preset::secret("k1"));
    assert_eq!(text(preset.clone(), question.clone()).await, "k1 none");

    let context = Context::default().secret("api_key", "k2").secret("proxy-key", "p2");
    let request = CallRequest::new("ask", question).context(context);
    assert_eq!(engine(ask::tool()).call(request).await.outcome.unwrap().to_text(), "k2 p2");

    let sent = json!({"question": "why", "api_key": "mine"});
    let refused = error(preset, sent).await;
    assert_eq!(refused.violations()[0].path, "/api_key");
    assert!(!refused.message().contains("mine"));
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

#[tokio::test(flavor = "current_thread")]
async fn functions_run_where_they_should() {
    /// Tells its thread.
    #[tool]
    fn blocking() -> String {
        format!("{:?}", std::thread::current().id())
    }
    /// Tells its thread.
    #[tool(inline)]
    fn inline() -> String {
        format!("{:?}", std::thread::current().id())
    }
    /// Tells its thread.
    #[tool]
    async fn asynchronous() -> String {
        tokio::task::yield_now().await;
        format!("{:?}", std::thread::current().id())
    }
    let here = format!("{:?}", std::thread::current().id());
    assert_ne!(text(blocking::tool(), json!({})).await, here);
    assert_eq!(text(inline::tool(), json!({})).await, here);
    assert_eq!(text(asynchronous::tool(), json!({})).await, here);
}

#[tokio::test]
async fn a_blocking_function_cannot_outstay_its_timeout() {
    struct Gate(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

    /// Waits for a sign.
    #[tool(timeout = "20ms")]
    fn wait(gate: Inject<Gate>) {
        let _ = gate.0.0.lock().unwrap().recv();
    }
    // The sign never comes before the result: the sender lives until the end.
    let (sender, receiver) = std::sync::mpsc::channel();
    let engine =
        Engine::builder().tool(wait::tool()).object(Gate(receiver.into())).build().unwrap();
    let result = engine.call(CallRequest::new("wait", json!({}))).await;
    assert_eq!(result.error().unwrap().kind(), ErrorKind::Timeout);
    drop(sender);
}

#[tokio::test]
async fn return_values_become_outputs() {
    struct Page(String);
    impl IntoOutput for Page {
        fn into_output(self) -> Result<Output, Error> {
            Ok(Output::text(format!("page {}", self.0)).with_structured(json!({"page": self.0})))
        }
    }

    macro_rules! returns {
        ($type:ty, $value:expr => $text:expr) => {{
            /// Returns something.
            #[tool]
            async fn returning() -> $type {
                $value
            }
            assert_eq!(text(returning::tool(), json!({})).await, $text);
        }};
    }
    returns!(String, "owned".to_owned() => "owned");
    returns!(&'static str, "static" => "static");
    returns!((), () => "");
    returns!(u64, 7 => "7");
    returns!(Option<u64>, None => "null");
    returns!(Vec<u64>, vec![1, 2] => "[1,2]");
    returns!(Value, json!({"a": 1}) => r#"{"a":1}"#);
    returns!(Forecast, Forecast { city: "Bern".into(), days: 1 } => r#"{"city":"Bern","days":1}"#);
    returns!(Json<Forecast>, Json(Forecast { city: "Bern".into(), days: 1 })
        => r#"{"city":"Bern","days":1}"#);
    returns!(Content, Content::text("block") => "block");
    returns!(Vec<Content>, vec![Content::text("a"), Content::text("b")] => "a\nb");
    returns!(Page, Page("1".into()) => "page 1");
    returns!(impl Serialize, Unit::Celsius => r#""celsius""#);
    returns!(Result<Page, String>, Ok(Page("2".into())) => "page 2");
    returns!(Result<&'static str, Error>, Ok("fine") => "fine");
    returns!(Result<Forecast, Box<dyn std::error::Error>>,
        Ok(Forecast { city: "Rome".into(), days: 0 }) => r#"{"city":"Rome","days":0}"#);
}

#[tokio::test]
async fn errors_and_panics_become_error_results() {
    /// Fails.
    #[tool]
    fn fails(city: String) -> Result<Forecast, String> {
        Err(format!("there is no city {city}"))
    }
    let failed = error(fails::tool(), json!({"city": "Atlantis"})).await;
    assert_eq!(
        (failed.kind(), failed.message()),
        (ErrorKind::ToolError, "there is no city Atlantis")
    );

    /// Fails in the engine's words.
    #[tool]
    async fn overloaded() -> Result<String, Error> {
        Err(Error::new(ErrorKind::RateLimited, "slow down")
            .with_retry_after(Duration::from_secs(2)))
    }
    let failed = error(overloaded::tool(), json!({})).await;
    assert_eq!(failed.kind(), ErrorKind::RateLimited);
    assert_eq!(failed.retry_after(), Some(Duration::from_secs(2)));

    /// Panics on its own thread.
    #[tool]
    fn panics() -> String {
        panic!("out of cheese")
    }
    /// Panics in place.
    #[tool]
    async fn panics_async() -> String {
        panic!("out of cheese")
    }
    for builder in [panics::tool(), panics_async::tool()] {
        let failed = error(builder, json!({})).await;
        assert_eq!(failed.kind(), ErrorKind::Panicked);
        assert!(failed.message().contains("out of cheese"));
    }
}

struct Counter {
    count: AtomicU64,
}

#[tool(prefix = "counter_", group = "counting")]
impl Counter {
    const STEP: u64 = 2;

    /// Adds to the count.
    #[tool]
    fn add(&self, #[param(default = Self::STEP)] amount: u64) -> u64 {
        self.count.fetch_add(amount, Ordering::Relaxed) + amount
    }

    /// Reads the count.
    #[windlass::tool(name = "read", read_only, group = "reading")]
    async fn get(&self, call: &Call) -> Result<u64, std::fmt::Error> {
        assert_eq!(call.tool().name().as_str(), "counter_read");
        Ok(self.count.load(Ordering::Relaxed) + self.helper())
    }

    /// Says what is counted.
    #[tool(inline)]
    fn about(unit: Unit) -> String {
        format!("{unit:?}")
    }

    /// Is not there.
    #[tool]
    #[cfg(any())]
    fn absent(&self) {}

    fn helper(&self) -> u64 {
        0
    }
}

#[tokio::test]
async fn methods_of_an_object_share_it() {
    let counter = Arc::new(Counter { count: 40.into() });
    let builders = Counter::shared_tools(Arc::clone(&counter));
    let named: Vec<_> = (builders.iter())
        .map(|builder| (builder.spec().name.as_str(), builder.spec().group.as_deref().unwrap()))
        .collect();
    assert_eq!(
        named,
        [("counter_add", "counting"), ("counter_read", "reading"), ("counter_about", "counting")]
    );
    assert_eq!(
        builders[0].spec().input["properties"]["amount"],
        json!({"type": "integer", "minimum": 0, "default": 2})
    );

    let engine = (Engine::builder().tools(builders))
        .group("counting", "", true)
        .group("reading", "", true)
        .build()
        .unwrap();
    let ask = async |name: &str, arguments: Value| {
        engine.call(CallRequest::new(name, arguments)).await.outcome.unwrap().to_text()
    };
    assert_eq!(ask("counter_add", json!({})).await, "42");
    assert_eq!(ask("counter_add", json!({"amount": 8})).await, "50");
    assert_eq!(ask("counter_read", json!({})).await, "50");
    assert_eq!(ask("counter_about", json!({"unit": "celsius"})).await, "Celsius");
    assert_eq!(counter.add(1), 51);
    assert_eq!(Counter { count: 0.into() }.tools().len(), 3);
}

mod renamed {
    //! A program that has the engine under another name.
    pub(crate) use windlass as engine;

    /// Adds two numbers.
    #[engine::tool(crate = "crate::macros::renamed::engine")]
    pub(crate) fn add(a: i64, b: i64) -> i64 {
        a + b
    }
}

#[tokio::test]
async fn the_engine_may_have_another_name() {
    assert_eq!(text(renamed::add::tool(), json!({"a": 1, "b": 2})).await, "3");
    assert_eq!(renamed::add(1, 2), 3);
}
