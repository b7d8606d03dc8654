//! Dependency injection: what a function receives besides its arguments.

use std::sync::Arc;

use serde_json::json;
use windlass::{
    Agent, Call, CallId, CallRequest, Context, Emitter, Engine, Error, ErrorKind, EventBody,
    FilledBy, FromCall, Inject, InputKind, Lang, Preset, Secret, tool,
};

use super::{engine, error, model_schema, text};

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
