//! Requirements that fix names or numbers and that no other test shows as a whole.
//! `docs/requirements.md` says which requirement each test shows.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass::definition::{lint, parse};
use windlass::{
    Behaviour, CallRequest, Category, Content, Context, Engine, EngineSettings, ErrorKind,
    EventBody, Kind, Lang, Output, RetryPolicy, Strategy, ToolBuilder,
};

use crate::support::{call, kind, only_record, records, slow};

#[test]
fn settings_begin_as_the_documents_say() {
    let EngineSettings { limits, max_parallel, max_batch, cache_entries, .. } =
        EngineSettings::default();
    assert_eq!((limits.max_concurrent, limits.queue_size), (10, 100));
    assert_eq!(limits.strategy, Strategy::Fifo);
    assert!(limits.bucket_limits.is_empty());
    assert_eq!((max_parallel, max_batch, cache_entries), (10, 50, 1_000));
    let settings = EngineSettings::default();
    assert_eq!(settings.default_timeout, Duration::from_secs(30));
    assert!(!settings.strict_validation);
    let RetryPolicy { attempts, backoff, multiplier, .. } = settings.retry;
    assert_eq!((attempts, backoff, multiplier), (3, Duration::from_secs(1), 2.0));
}

/// A definition without a handler: what its arguments break is told first.
#[tokio::test]
async fn every_limit_of_a_parameter_holds() {
    for (parameter, fits, breaks) in [
        ("type: string, validation: {pattern: '^a'}", json!("ab"), json!("b")),
        ("type: string, validation: {min_length: 2}", json!("ab"), json!("a")),
        ("type: string, validation: {max_length: 2}", json!("ab"), json!("abc")),
        ("type: string, validation: {enum: [a, b]}", json!("b"), json!("c")),
        ("type: number, validation: {min: 1.5}", json!(1.5), json!(1)),
        ("type: number, validation: {max: 1.5}", json!(1.5), json!(2)),
        ("type: integer, validation: {min: 1, max: 3}", json!(3), json!(4)),
        ("type: integer", json!(3), json!(3.5)),
        ("type: boolean", json!(false), json!(7)),
        ("type: array, validation: {items: integer}", json!([1]), json!([{}])),
        ("type: array, validation: {min_items: 1}", json!([1]), json!([])),
        ("type: array, validation: {max_items: 1}", json!([1]), json!([1, 2])),
        (
            "type: object, validation: {properties: {a: integer}, required: [a]}",
            json!({"a": 1}),
            json!({"a": {}}),
        ),
        (
            "type: object, validation: {properties: {a: integer}, required: [a]}",
            json!({"a": 1, "b": 2}),
            json!({}),
        ),
    ] {
        let engine = Engine::builder().build().unwrap();
        let text = format!("name: t\nparameters:\n- {{name: p, required: true, {parameter}}}\n");
        assert_eq!(engine.load_text("t.yaml", &text).errors, [], "{parameter}");
        let fitting = engine.call(CallRequest::new("t", json!({"p": fits}))).await;
        assert_eq!(kind(&fitting), ErrorKind::ExecutorNotFound, "{parameter}: {fits}");
        let broken = engine.call(CallRequest::new("t", json!({"p": breaks}))).await;
        assert_eq!(kind(&broken), ErrorKind::InvalidArguments, "{parameter}: {breaks}");
    }
}

#[test]
fn six_categories_are_known_and_others_are_allowed() {
    assert_eq!(Category::KNOWN, ["http", "database", "file", "ai", "notification", "custom"]);
    let advice = |category: &str| {
        let text = format!("name: find\ndescription: Finds what is lost.\ncategory: {category}\n");
        let tool = parse("t.yaml", &text).unwrap().remove(0);
        assert_eq!(tool.spec.category.as_str(), category);
        lint(&tool).iter().any(|lint| lint.message.contains("category"))
    };
    for known in Category::KNOWN {
        assert!(!advice(known), "{known}");
    }
    assert!(advice("htp"));
    assert_eq!(Category::default().as_str(), "custom");
}

#[tokio::test]
async fn a_record_has_the_documents_fields_and_says_who_called() {
    let engine = Engine::builder()
        .tool(ToolBuilder::from_fn("look", |_: Value| async { "seen" }))
        .build()
        .unwrap();
    engine.call(call("look").context(Context::for_conversation("agent-1", "talk-1"))).await;
    let record = only_record(&engine).await;
    let mut json = serde_json::to_value(&record).unwrap();
    let mut take = |key: &str| json.as_object_mut().unwrap().remove(key).unwrap_or_default();
    assert_eq!(take("record_id"), json!(record.id));
    assert_eq!((take("tool_name"), take("params")), (json!("look"), json!({})));
    assert_eq!(take("result")["content"][0]["message"], "seen");
    assert!(take("execution_time").is_number());
    assert_eq!((take("is_success"), take("error")), (json!(true), Value::Null));
    assert_eq!(take("caller_id"), "agent-1");
    assert_eq!(take("caller_type"), "conversation_agent");
    assert_eq!(take("conversation_id"), "talk-1");
    assert!(take("created_at").as_str().is_some_and(|at| at.starts_with("20")));
    let caller = |context: &Context| serde_json::to_value(context.caller()).unwrap();
    assert_eq!(caller(&Context::default())["caller_type"], "unknown");
    let node = caller(&Context::for_workflow("flow-1", "node-1"));
    assert_eq!(
        (&node["workflow_id"], &node["caller_id"], &node["caller_type"]),
        (&json!("flow-1"), &json!("node-1"), &json!("workflow_node"))
    );
}

#[tokio::test(start_paused = true)]
async fn first_come_is_first_served() {
    let began: Arc<Mutex<Vec<u64>>> = Arc::default();
    let tool = {
        let began = Arc::clone(&began);
        ToolBuilder::from_fn("look", move |given: Value| {
            began.lock().push(given["n"].as_u64().unwrap());
            tokio::time::sleep(Duration::from_secs(1))
        })
    };
    let engine = Engine::builder()
        .tool(tool)
        .settings(|settings| settings.limits.max_concurrent = 1)
        .build()
        .unwrap();
    let calls = (0..6u64).map(|n| {
        // Without the strategy for it, priority counts for nothing.
        let request = CallRequest::new("look", json!({"n": n})).priority(n as i32);
        let engine = engine.clone();
        async move { engine.call(request).await }
    });
    let mut running = Vec::new();
    for one in calls {
        running.push(tokio::spawn(one));
        tokio::task::yield_now().await;
    }
    for one in running {
        assert!(one.await.unwrap().is_success());
    }
    assert_eq!(*began.lock(), [0, 1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn calls_that_gave_up_waiting_are_counted() {
    let engine = Engine::builder()
        .tool(slow("look", 5, &Arc::default()))
        .settings(|settings| settings.limits.max_concurrent = 1)
        .build()
        .unwrap();
    let soon = || engine.call(call("look").timeout(Duration::from_secs(1)));
    let (first, second, third) = tokio::join!(engine.call(call("look")), soon(), soon());
    assert!(first.is_success());
    assert_eq!((kind(&second), kind(&third)), (ErrorKind::Timeout, ErrorKind::Timeout));
    let metrics = engine.limit_metrics();
    assert_eq!((metrics.total_acquired, metrics.total_timeout), (1, 2), "{metrics:?}");
}

/// They take no slot, and that is all.
#[tokio::test(start_paused = true)]
async fn workflow_nodes_keep_to_all_other_rules() {
    let engine = Engine::builder()
        .tool(slow("look", 5, &Arc::default()))
        .settings(|settings| settings.limits.calls_per_second = Some(1))
        .build()
        .unwrap();
    let mut events = engine.events();
    let node = |arguments: Value| {
        let request = CallRequest::new("look", arguments).timeout(Duration::from_secs(1));
        engine.call(request.context(Context::for_workflow("flow", "node")))
    };
    let (wrong, late, many) = tokio::join!(node(json!([1])), node(json!({})), node(json!({})));
    assert_eq!(kind(&wrong), ErrorKind::InvalidArguments);
    assert_eq!((kind(&late), kind(&many)), (ErrorKind::Timeout, ErrorKind::RateLimited));
    assert_eq!(records(&engine).await.len(), 3);
    let mut failed = 0;
    while failed < 3 {
        failed += usize::from(events.next().await.unwrap().body.name() == "execution_failed");
    }
}

#[test]
fn every_kind_has_a_provider_type_of_the_documents() {
    for (kind, provider_type) in [
        (Kind::Builtin, "BUILT_IN"),
        (Kind::Rest, "API"),
        (Kind::Wasm, "PLUGIN"),
        (Kind::Workflow, "WORKFLOW"),
        (Kind::Mcp, "MCP"),
        (Kind::Retrieval, "DATASET_RETRIEVAL"),
    ] {
        assert_eq!(kind.provider_type(), provider_type);
    }
}

#[tokio::test]
async fn refused_arguments_are_an_event() {
    let engine = Engine::builder().build().unwrap();
    let text = "name: t\nparameters: [{name: p, type: integer, required: true}]\n";
    assert_eq!(engine.load_text("t.yaml", text).errors, []);
    let mut events = engine.events();
    engine.call(CallRequest::new("t", json!({"p": "x"}))).await;
    let event = events.next().await.unwrap();
    let EventBody::ValidationError { call, errors } = &event.body else { panic!("{event:?}") };
    assert_eq!((&*call.tool_name, errors[0].path.as_str()), ("t", "/p"));
    assert_eq!(serde_json::to_value(&event).unwrap()["event_type"], "validation_error");
    assert_eq!(events.next().await.unwrap().body.name(), "execution_failed");
}

#[tokio::test]
async fn a_result_has_the_documents_fields() {
    let engine = Engine::builder()
        .tool(ToolBuilder::from_fn("look", |_: Value| async {
            Output::text("seen").with_metadata("source", "window")
        }))
        .build()
        .unwrap();
    let result = engine.call(call("look")).await.to_json(Lang::En);
    assert_eq!((&result["is_success"], &result["tool_name"]), (&json!(true), &json!("look")));
    assert_eq!(
        (&result["output"], &result["metadata"]["source"]),
        (&json!("seen"), &json!("window"))
    );
    assert!(result["execution_time"].is_number() && result["executed_at"].is_string(), "{result}");
    assert!(result.get("error").is_none(), "what is not there is left out: {result}");
    let failed = engine.call(call("nothing")).await.to_json(Lang::En);
    assert_eq!(
        (&failed["is_success"], &failed["error_type"]),
        (&json!(false), &json!("tool_not_found"))
    );
    assert_eq!(failed["error"], "nothing");
}

#[test]
fn blocks_have_the_documents_form() {
    let wire = |block: Content| serde_json::to_value(block).unwrap();
    for (block, wanted) in [
        (Content::text("hi"), json!({"type": "text", "message": "hi"})),
        (Content::json(json!({"a": 1})), json!({"type": "json", "message": {"a": 1}})),
        (
            Content::link("https://x.example/", "A page"),
            json!({"type": "link", "message": "https://x.example/", "meta": {"title": "A page"}}),
        ),
        (
            Content::image("https://x.example/a.png").saved_as("picture"),
            json!({"type": "image_link", "message": "https://x.example/a.png", "save_as": "picture"}),
        ),
        (
            Content::image("data:image/gif;base64,AAAA"),
            json!({"type": "image", "message": {"base64": "AAAA", "mime_type": "image/gif"}}),
        ),
        (Content::file("report"), json!({"type": "file_var", "message": "report"})),
        (
            Content::blob([0, 0, 0], "application/pdf"),
            json!({"type": "blob", "message": {"base64": "AAAA", "mime_type": "application/pdf"}}),
        ),
    ] {
        assert_eq!(wire(block.clone()), wanted);
        assert_eq!(serde_json::from_value::<Content>(wanted).unwrap(), block);
    }
}

/// What an agent reads of a result: its text, its files, and facts about it.
#[tokio::test]
async fn a_result_is_text_and_files_and_facts() {
    let engine = Engine::builder()
        .tool(ToolBuilder::from_fn("draw", |given: Value| async move {
            let blocks = vec![
                Content::text("Here it is:"),
                Content::image("https://x.example/a.png"),
                Content::json(given),
            ];
            Output::from(blocks).with_metadata("time_cost", 0.1)
        }))
        .build()
        .unwrap();
    // Models write arguments as text.
    let result = engine.call(CallRequest::new("draw", r#"{"colour": "red"}"#)).await;
    let output = result.output().unwrap();
    assert_eq!(output.to_text(), "Here it is:\nhttps://x.example/a.png\n{\"colour\":\"red\"}");
    assert_eq!(output.files().collect::<Vec<_>>(), [&Content::image("https://x.example/a.png")]);
    assert_eq!(output.metadata.get("time_cost"), Some(&json!(0.1)));
}

#[test]
fn every_name_of_an_error_in_the_documents_is_some_kinds() {
    let has = |name: &str| {
        ErrorKind::ALL.iter().any(|kind| {
            let row = kind.info();
            [row.error_type, row.class, row.code].contains(&name)
        })
    };
    for name in [
        "tool_not_found",
        "validation_error",
        "executor_not_found",
        "timeout",
        "execution_error",
        "NetworkError",
        "TimeoutError",
        "ValidationError",
        "AuthenticationError",
        "RateLimitError",
        "ServerError",
        "ToolExecutionError",
        "TOOL_PROVIDER_NOT_FOUND",
        "TOOL_NOT_FOUND",
        "PARAMETER_VALIDATION_ERROR",
        "CREDENTIAL_VALIDATION_ERROR",
        "TOOL_INVOKE_TIMEOUT",
        "TOOL_INVOKE_ERROR",
    ] {
        assert!(has(name), "{name}");
    }
}

/// The texts of a model that speaks Chinese, through the engine.
#[tokio::test(start_paused = true)]
async fn failures_have_the_documents_texts() {
    let engine = Engine::builder()
        .tool(
            ToolBuilder::from_fn("get_broken", |_: Value| async { Err::<(), _>("断线") })
                .behaviour(Behaviour::READ_ONLY),
        )
        .tool(slow("get_slow", 60, &Arc::default()).behaviour(Behaviour::READ_ONLY))
        .build()
        .unwrap();
    let said = async |request: CallRequest| engine.call(request).await.to_text(Lang::Zh);
    assert_eq!(said(call("nothing")).await, "错误: Unknown tool: nothing");
    assert_eq!(
        said(call("get_broken")).await,
        "工具执行失败: 断线。请重试或使用其他方式获取信息。"
    );
    let soon = call("get_slow").timeout(Duration::from_millis(50));
    assert_eq!(said(soon.clone()).await, "工具执行超时,请重试或使用其他方式获取信息。");
    let late = engine.call(soon).await;
    assert_eq!(late.error().unwrap().message(), "Tool get_slow timed out after 50ms");
    let wrong = CallRequest::new("get_broken", json!([1]));
    assert!(said(wrong).await.starts_with("工具输入参数无效: "));
}

#[tokio::test(start_paused = true)]
async fn ten_calls_of_800_ms_take_800_ms() {
    let tool = ToolBuilder::from_fn("get_thing", |_: Value| {
        tokio::time::sleep(Duration::from_millis(800))
    });
    let engine = Engine::builder().tool(tool).build().unwrap();
    let start = Instant::now();
    let results = engine.call_batch((0..10).map(|_| call("get_thing"))).await;
    assert!(results.iter().all(windlass::CallResult::is_success));
    let took = start.elapsed();
    assert!(took < Duration::from_millis(810), "{took:?}");
}
