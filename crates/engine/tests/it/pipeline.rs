//! Every way in which a call can end: exactly one result, one record, one finished event.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass::{
    BoxFuture, CallRequest, CancellationToken, Context, Engine, EngineBuilder, Error, ErrorKind,
    Grace, JsonSchema, Lang, Preset, Secret, Status, TenantId, ToolBuilder,
};

use crate::support::{Faults, Faulty, call, kind, only_record, records, slow};

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// The dish.
    dish: String,
    /// How many.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 9))]
    count: u32,
    /// Extra wishes.
    wishes: Option<Vec<String>>,
}

fn one() -> u32 {
    1
}

fn order() -> ToolBuilder {
    ToolBuilder::from_fn("order_dish", |order: Order| async move {
        format!("{} x {} {:?}", order.count, order.dish, order.wishes.unwrap_or_default())
    })
    .description("Orders a dish.")
}

/// Counts how many of its calls were dropped before they were done.
fn sleeper(dropped: Arc<AtomicUsize>) -> ToolBuilder {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    #[derive(Deserialize, JsonSchema)]
    struct Sleep {
        ms: u64,
    }
    ToolBuilder::from_fn("sleep", move |sleep: Sleep| {
        let guard = Guard(Arc::clone(&dropped));
        async move {
            tokio::time::sleep(Duration::from_millis(sleep.ms)).await;
            std::mem::forget(guard);
            "slept"
        }
    })
}

fn engine(build: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Engine {
    build(Engine::builder().tool(order())).build().unwrap()
}

#[tokio::test]
async fn a_call_gives_its_result_and_one_record() {
    let engine = engine(|builder| builder);
    let context = Context::for_conversation("agent-1", "conv-1");
    let request = CallRequest::new("order_dish", json!({"dish": "ramen"}))
        .call_ref("toolu_1")
        .context(context);
    let result = engine.call(request).await;
    assert_eq!(result.to_text(Lang::En), "1 x ramen []");
    assert_eq!(result.call_ref.as_deref(), Some("toolu_1"));
    let record = only_record(&engine).await;
    assert_eq!(record.id, result.id);
    assert_eq!(record.status, Status::Succeeded);
    assert_eq!(*record.arguments, json!({"dish": "ramen", "count": 1}));
    assert_eq!(record.caller.conversation.as_deref(), Some("conv-1"));
    assert_eq!(record.caller.caller_id.as_deref(), Some("agent-1"));
    assert_eq!(record.attempts, 1);
}

#[tokio::test]
async fn an_unknown_tool_is_refused_with_the_nearest_names() {
    let engine = engine(|builder| builder);
    let result = engine.call(CallRequest::new("order_dihs", json!({"a": 1}))).await;
    assert_eq!(kind(&result), ErrorKind::ToolNotFound);
    assert_eq!(result.to_text(Lang::En), "Unknown tool: order_dihs; did you mean `order_dish`?");
    let record = only_record(&engine).await;
    assert_eq!((record.status, &*record.tool_name), (Status::Refused, "order_dihs"));
    assert_eq!(*record.arguments, json!({"a": 1}));
    let long = "x".repeat(100_000);
    let result = engine.call(CallRequest::new(long.as_str(), Value::Null)).await;
    assert!(result.error().unwrap().message().len() < 200);
}

#[tokio::test]
async fn all_that_is_wrong_with_arguments_is_told_at_once() {
    let engine = engine(|builder| builder);
    let result =
        engine.call(CallRequest::new("order_dish", json!({"count": 99, "wishes": [1]}))).await;
    assert_eq!(kind(&result), ErrorKind::InvalidArguments);
    let mut wrong: Vec<String> =
        result.error().unwrap().violations().iter().map(ToString::to_string).collect();
    wrong.sort();
    assert_eq!(
        wrong,
        [
            "/count: expected at most 9, got 99",
            "/dish: expected a required value, got nothing",
            "/wishes/0: expected a string, got 1",
        ]
    );
    assert!(result.to_text(Lang::Zh).starts_with("工具输入参数无效: "));
    let misspelt = engine.call(CallRequest::new("order_dish", json!({"dihs": "x"}))).await;
    assert!(misspelt.to_text(Lang::En).contains("is `dish` meant?"), "{misspelt:?}");
    assert!(records(&engine).await.iter().all(|record| record.status == Status::Refused));
}

#[tokio::test]
async fn plain_meanings_are_understood_and_accepted_values_never_touched() {
    let engine = engine(|builder| builder);
    for (arguments, text) in [
        (json!({"dish": "[1]", "count": "2"}), "2 x [1] []"),
        (json!({"dish": "5", "wishes": "[\"hot\"]"}), "1 x 5 [\"hot\"]"),
        (json!({"dish": "true", "wishes": null, "count": 2.0}), "2 x true []"),
        (json!("```json\n{\"dish\": \"pho\"}\n```"), "1 x pho []"),
    ] {
        let result = engine.call(CallRequest::new("order_dish", arguments.clone())).await;
        assert_eq!(result.to_text(Lang::En), text, "{arguments}");
    }
}

#[tokio::test]
async fn a_null_gives_way_to_the_default() {
    let engine = engine(|builder| builder);
    let result =
        engine.call(CallRequest::new("order_dish", json!({"dish": "x", "count": null}))).await;
    assert_eq!(result.to_text(Lang::En), "1 x x []");
    assert_eq!(*only_record(&engine).await.arguments, json!({"dish": "x", "count": 1}));
}

#[tokio::test]
async fn a_call_by_wire_name_is_recorded_under_the_tools_name() {
    let engine = engine(|builder| {
        builder.tool(ToolBuilder::from_fn("shop.order", |_: Value| async { "ok" }))
    });
    let wire = engine.registry().get("shop.order").unwrap().name().wire();
    assert!(engine.call(CallRequest::new(wire, json!({}))).await.is_success());
    assert_eq!(&*only_record(&engine).await.tool_name, "shop.order");
}

#[tokio::test]
async fn errors_are_bounded_and_say_whether_the_tool_ran() {
    let engine = engine(|builder| {
        builder
            .tool(ToolBuilder::from_fn("rant", |_: Value| async {
                Err::<(), _>("é".repeat(5_000_000))
            }))
            .tool(ToolBuilder::from_fn("picky", |_: Value| async {
                Err::<(), _>(Error::new(ErrorKind::InvalidArguments, "not on Mondays"))
            }))
            .settings(|settings| settings.strict_validation = true)
    });
    let result = engine.call(CallRequest::new("rant", json!({}))).await;
    assert!(result.to_text(Lang::En).len() < 10_000);
    let keys: serde_json::Map<String, Value> =
        (0..50_000).map(|n| (format!("{n}{}", "k".repeat(1000)), json!(1))).collect();
    let result = engine.call(CallRequest::new("order_dish", Value::Object(keys))).await;
    assert_eq!(kind(&result), ErrorKind::InvalidArguments);
    assert!(result.to_json(Lang::En).to_string().len() < 60_000);
    engine.call(CallRequest::new("picky", json!({}))).await;
    let statuses: Vec<(Status, u32)> =
        records(&engine).await.iter().map(|record| (record.status, record.attempts)).collect();
    assert_eq!(statuses, [(Status::Failed, 1), (Status::Refused, 0), (Status::Failed, 1)]);
    let statistics = engine.records().statistics(&TenantId::default()).await.unwrap();
    assert_eq!(statistics.tools["order_dish"].p50_ms, 0.0);
    assert_eq!(statistics.total.calls, 3);
}

#[tokio::test]
async fn a_hidden_value_stays_hidden_whatever_its_name() {
    let tool = ToolBuilder::from_fn("odd", |_: Value| async { "ok" })
        .with(|spec| {
            spec.input = json!({
                "type": "object",
                "properties": {"api/key~": {"type": "string", "maxLength": 3}},
            });
        })
        .preset("api/key~", Preset::variable("key"));
    let engine = engine(|builder| builder.tool(tool));
    let context = Context::default().variable("key", "hush-hush");
    let result = engine.call(CallRequest::new("odd", json!({})).context(context)).await;
    assert_eq!(kind(&result), ErrorKind::InvalidArguments);
    assert!(!format!("{result:?} {:?}", records(&engine).await).contains("hush"), "{result:?}");
    let overridable = ToolBuilder::from_fn("secretive", |_: Value| async { "ok" })
        .with(|spec| spec.input = json!({"type": "object", "properties": {"k": {}}}))
        .preset("k", Preset::secret("s").overridable());
    let refused = engine.registry().register(overridable).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidDefinition);
}

/// A store that has fallen behind and never catches up.
struct Stuck;

impl Faults for Stuck {
    fn keeps_up(&self) -> bool {
        false
    }
    fn caught_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
    fn before_output(&self) -> BoxFuture<'_, Result<(), Error>> {
        panic!("the store's own fault")
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_write_ends_calls_within_their_time() {
    let engine = engine(|builder| builder.store(Faulty::new(Stuck)));
    let request =
        CallRequest::new("order_dish", json!({"dish": "x"})).timeout(Duration::from_secs(2));
    let result = engine.call(request).await;
    assert_eq!(kind(&result), ErrorKind::StorageUnavailable);
    assert_eq!(only_record(&engine).await.status, Status::Refused);
}

#[tokio::test]
async fn strict_repairs_nothing_and_refuses_unknown_keys() {
    let engine = engine(|builder| builder.settings(|settings| settings.strict_validation = true));
    for arguments in [json!({"dish": "x", "count": "2"}), json!({"dish": "x", "extra": 1})] {
        let result = engine.call(CallRequest::new("order_dish", arguments.clone())).await;
        assert_eq!(kind(&result), ErrorKind::InvalidArguments, "{arguments}");
    }
    assert!(engine.call(CallRequest::new("order_dish", json!({"dish": "x"}))).await.is_success());
}

#[tokio::test(start_paused = true)]
async fn timeouts_stop_the_work_call_before_tool_before_engine() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let engine = engine(|builder| {
        builder
            .tool(sleeper(Arc::clone(&dropped)))
            .tool(
                sleeper(Arc::clone(&dropped))
                    .with(|spec| spec.name = windlass::ToolName::new("nap").unwrap())
                    .timeout(Duration::from_secs(2)),
            )
            .settings(|settings| settings.default_timeout = Duration::from_secs(5))
    });
    let call = |tool: &str| CallRequest::new(tool, json!({"ms": 60_000}));
    for (request, millis) in [
        (call("sleep"), 5_000),
        (call("nap"), 2_000),
        (call("nap").timeout(Duration::from_millis(300)), 300),
    ] {
        let start = tokio::time::Instant::now();
        let result = engine.call(request).await;
        assert_eq!(kind(&result), ErrorKind::Timeout);
        // The timer has a granularity of a millisecond.
        let took = start.elapsed().as_millis() as u64;
        assert!((millis..=millis + 2).contains(&took), "{took}");
        assert!(result.error().unwrap().message().ends_with(&format!("after {millis}ms")));
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 3, "the work itself was stopped");
    assert!(records(&engine).await.iter().all(|record| record.status == Status::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_more_time_while_it_runs_ends_later() {
    let engine = engine(|builder| {
        builder.tool(ToolBuilder::from_fn("ask", |_: Value| async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            "answered"
        }))
    });
    let start = tokio::time::Instant::now();
    let call = |grace: &Grace| {
        let limit = Duration::from_secs(30);
        engine.call(CallRequest::new("ask", json!({})).timeout(limit).grace(grace.clone()))
    };
    // Who asks nothing has the time that everybody has.
    assert_eq!(kind(&call(&Grace::default()).await), ErrorKind::Timeout);
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    let grace = Grace::default();
    let given = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        grace.extend(Duration::from_secs(300));
    };
    let (result, ()) = tokio::join!(call(&grace), given);
    assert_eq!(result.to_text(Lang::En), "answered");
    let grace = Grace::default();
    grace.extend(Duration::from_secs(40));
    let late = call(&grace).await;
    assert!(late.error().unwrap().message().ends_with("40000ms"), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_may_be_as_long_as_it_likes() {
    let endless = slow("look", 0, &Arc::default()).timeout(Duration::MAX);
    let engine = engine(|builder| builder.tool(endless));
    let result = engine.call(call("look")).await;
    assert!(result.is_success(), "{:?}", result.error());
}

#[tokio::test]
async fn a_blocking_function_does_not_outlast_its_deadline() {
    let engine = engine(|builder| {
        builder.tool(ToolBuilder::from_blocking_fn("block", |_: Value| {
            std::thread::sleep(Duration::from_millis(700));
            "late"
        }))
    });
    let start = std::time::Instant::now();
    let request = CallRequest::new("block", json!({})).timeout(Duration::from_millis(50));
    assert_eq!(kind(&engine.call(request).await), ErrorKind::Timeout);
    assert!(start.elapsed() < Duration::from_millis(600));
}

#[tokio::test]
async fn a_panic_is_an_error_result() {
    let engine = engine(|builder| {
        builder.tool(ToolBuilder::from_fn("boom", |_: Value| async {
            if true { panic!("ouch") } else { "never" }
        }))
    });
    let result = engine.call(CallRequest::new("boom", json!({}))).await;
    assert_eq!(kind(&result), ErrorKind::Panicked);
    assert!(result.error().unwrap().message().contains("ouch"));
    assert!(!result.to_text(Lang::En).contains("ouch"), "the model does not see internals");
    assert_eq!(only_record(&engine).await.status, Status::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_caller_stops_what_changes_nothing_and_leaves_a_record() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let sleeper = sleeper(Arc::clone(&dropped)).behaviour(windlass::Behaviour::READ_ONLY);
    let engine = engine(|builder| builder.tool(sleeper));
    let running = tokio::spawn({
        let engine = engine.clone();
        async move { engine.call(CallRequest::new("sleep", json!({"ms": 60_000}))).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let record = only_record(&engine).await;
    assert_eq!(record.status, Status::Cancelled);
    assert_eq!(record.error.unwrap().message, "the caller went away");
    assert_eq!(record.run_time, Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_stops_the_work_but_not_a_result() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let engine = engine(|builder| builder.tool(sleeper(Arc::clone(&dropped))));
    let token = CancellationToken::new();
    let request = CallRequest::new("sleep", json!({"ms": 60_000})).cancel_token(token.clone());
    let (result, ()) = tokio::join!(engine.call(request), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        token.cancel();
    });
    assert_eq!(kind(&result), ErrorKind::Cancelled);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    // A call that was cancelled before it began does not begin.
    let request = CallRequest::new("order_dish", json!({"dish": "x"})).cancel_token(token);
    let result = engine.call(request).await;
    assert_eq!((kind(&result), result.run_time), (ErrorKind::Cancelled, Duration::ZERO));
}

#[tokio::test]
async fn presets_win_are_hidden_and_never_recorded() {
    #[derive(Deserialize, JsonSchema)]
    struct Mail {
        to: String,
        sender: String,
        footer: String,
    }
    let mail = ToolBuilder::from_fn("send_mail", |mail: Mail| async move {
        format!("{} {} {}", mail.to, mail.sender, mail.footer)
    })
    .preset("sender", "canary-sender")
    .preset("footer", Preset::variable("footer").overridable());
    let engine = engine(|builder| builder.tool(mail));
    let tool = engine.registry().get("send_mail").unwrap();
    assert_eq!(
        tool.model_schema(),
        &json!({
            "type": "object",
            "properties": {"to": {"type": "string"}, "footer": {"type": "string"}},
            "required": ["to"],
        })
    );
    let context = Arc::new(Context::default().variable("footer", "from-context"));
    let call = |arguments: Value| {
        engine.call(CallRequest::new("send_mail", arguments).context(Arc::clone(&context)))
    };
    let result = call(json!({"to": "a"})).await;
    assert_eq!(result.to_text(Lang::En), "a canary-sender from-context");
    assert!(
        !serde_json::to_string(&only_record(&engine).await.arguments).unwrap().contains("canary")
    );
    let result = call(json!({"to": "a", "footer": "own"})).await;
    assert_eq!(result.to_text(Lang::En), "a canary-sender own");
    let result = call(json!({"to": "a", "sender": "evil-value"})).await;
    assert_eq!(kind(&result), ErrorKind::InvalidArguments);
    assert!(!result.to_text(Lang::En).contains("evil-value"));
    assert!(!format!("{:?}", records(&engine).await).contains("evil-value"));
    // Markers in arguments are text like any other.
    let result = call(json!({"to": "{{footer}}"})).await;
    assert!(result.to_text(Lang::En).starts_with("{{footer}} "));
}

#[tokio::test]
async fn a_secret_reaches_the_tool_and_nothing_else() {
    let definition = "
name: pay
description: Pays.
parameters:
  - {name: amount, type: integer, required: true}
";
    let mut spec = windlass::definition::parse("pay.yaml", definition).unwrap().remove(0).spec;
    let parameter = windlass::Parameter {
        filled_by: windlass::FilledBy::Secret,
        required: true,
        ..windlass::Parameter::default()
    };
    spec.parameters.insert("key".to_owned(), parameter);
    struct Pay;
    impl windlass::Executor for Pay {
        fn execute<'a>(
            &'a self,
            call: &'a windlass::Call,
        ) -> windlass::BoxFuture<'a, Result<windlass::Output, Error>> {
            Box::pin(async move {
                assert_eq!(call.secret("key").unwrap().expose(), "canary-key");
                assert!(call.argument("key").is_none());
                Ok(windlass::Output::text("paid"))
            })
        }
    }
    let engine = engine(|builder| builder.tool(ToolBuilder::new(spec, Arc::new(Pay))));
    let mut events = engine.events();
    let missing = engine.call(CallRequest::new("pay", json!({"amount": 1}))).await;
    assert_eq!(kind(&missing), ErrorKind::CredentialInvalid);
    let context = Context::default().secret("key", Secret::new("canary-key"));
    let result = engine.call(CallRequest::new("pay", json!({"amount": 1})).context(context)).await;
    assert!(result.is_success(), "{:?}", result.outcome);
    let mut seen = format!("{:?} {:?}", records(&engine).await, result);
    for _ in 0..3 {
        seen += &format!("{:?}", events.next().await);
    }
    assert!(!seen.contains("canary-key"), "{seen}");
}

#[tokio::test]
async fn large_results_are_cut_and_kept_whole() {
    let engine = engine(|builder| {
        builder
            .tool(ToolBuilder::from_fn("dump", |_: Value| async { "é".repeat(200_000) }))
            .output_tool()
    });
    let result = engine.call(CallRequest::new("dump", json!({}))).await;
    let output = result.output().unwrap();
    let cut = output.truncated.clone().unwrap();
    assert_eq!(cut.total_bytes, 400_000);
    assert!(output.to_text().len() <= 100 * 1024);
    assert!(output.to_text().contains("read_output"));
    let mut whole = String::new();
    while (whole.len() as u64) < cut.total_bytes {
        let arguments = json!({"handle": cut.handle, "offset": whole.len(), "limit": 40_000});
        let part = engine.call(CallRequest::new("read_output", arguments)).await;
        let text = part.to_text(Lang::En);
        whole += text.split("\n\n[").next().unwrap();
    }
    assert_eq!(whole, "é".repeat(200_000));
    let nobody = json!({"handle": "nope"});
    let missing = engine.call(CallRequest::new("read_output", nobody)).await;
    assert_eq!(kind(&missing), ErrorKind::NotFound);
    let other = Context::new(windlass::Caller {
        tenant: TenantId::new("other"),
        ..windlass::Caller::default()
    });
    let arguments = json!({"handle": cut.handle});
    let foreign = engine.call(CallRequest::new("read_output", arguments).context(other)).await;
    assert_eq!(kind(&foreign), ErrorKind::NotFound, "another tenant's result is not found");
}

#[tokio::test]
async fn a_structured_value_is_kept_whole_unless_the_text_says_it_all() {
    let rows = json!({"rows": vec!["a row"; 50_000]});
    let tool = |name: &str, text: String| {
        let rows = rows.clone();
        ToolBuilder::from_fn(name, move |_: Value| {
            let mut output = windlass::Output::text(text.as_str());
            output.structured = Some(Box::new(rows.clone()));
            async move { output }
        })
    };
    let engine = engine(|builder| {
        let (short, whole) = (tool("short", "x".to_owned()), tool("whole", rows.to_string()));
        builder.tool(short).tool(whole).output_tool()
    });
    let call = async |name: &str| {
        let result = engine.call(CallRequest::new(name, json!({}))).await;
        let output = result.output().unwrap();
        let cut = output.truncated.clone().unwrap();
        let id = cut.handle.unwrap().parse().unwrap();
        let kept = engine.records().read_output(&TenantId::default(), id, 0, u64::MAX).await;
        let kept: Value = serde_json::from_slice(&kept.unwrap().unwrap().bytes).unwrap();
        (kept, output.to_text())
    };
    let (kept, text) = call("short").await;
    assert_eq!(kept["structured"], rows);
    assert!(text.starts_with("x\n") && text.contains("\"offset\": 0"), "{text}");
    let (kept, text) = call("whole").await;
    assert_eq!(kept, rows);
    assert!(!text.contains("\"offset\": 0"), "it goes on where the beginning ends: {text}");
}

#[tokio::test]
async fn a_result_must_fit_the_tools_own_output_schema() {
    let tool = |name: &str, value: Value| {
        ToolBuilder::from_fn(name, move |_: Value| {
            let value = value.clone();
            async move { value }
        })
        .with(|spec| spec.output = Some(json!({"type": "object", "required": ["n"]})))
    };
    let engine = engine(|builder| {
        builder.tool(tool("good", json!({"n": 1}))).tool(tool("bad", json!({"m": 1})))
    });
    assert!(engine.call(CallRequest::new("good", json!({}))).await.is_success());
    let result = engine.call(CallRequest::new("bad", json!({}))).await;
    assert_eq!(kind(&result), ErrorKind::InvalidOutput);
}

#[tokio::test]
async fn results_have_the_documents_json_form() {
    let engine = engine(|builder| builder);
    let result = engine.call(CallRequest::new("order_dish", json!({"dish": "x"}))).await;
    let json = result.to_json(Lang::En);
    for (key, value) in [
        ("is_success", json!(true)),
        ("tool_name", json!("order_dish")),
        ("output", json!("1 x x []")),
        ("content", json!([{"type": "text", "message": "1 x x []"}])),
    ] {
        assert_eq!(json[key], value, "{key}");
    }
    for key in ["error", "error_type", "validation_errors", "metadata", "retry_after"] {
        assert!(json.get(key).is_none(), "{key} is left out where there is none");
    }
    let json = engine.call(CallRequest::new("order_dish", json!({}))).await.to_json(Lang::En);
    assert_eq!(json["error_type"], "validation_error");
    assert_eq!(json["error_code"], "PARAMETER_VALIDATION_ERROR");
    assert_eq!(json["validation_errors"][0]["path"], "/dish");
}
