//! Hooks: rewrite, skip and stop; before, after and on error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::json;
use windlass::hook::{self, After, Before};
use windlass::{
    CallRequest, Engine, EngineBuilder, Error, ErrorKind, JsonSchema, Lang, Output, PageRequest,
    RecordFilter, TenantId, ToolBuilder,
};

#[derive(Deserialize, JsonSchema)]
struct Double {
    n: u32,
}

fn engine(ran: &Arc<AtomicUsize>) -> EngineBuilder {
    let ran = Arc::clone(ran);
    Engine::builder().tool(ToolBuilder::from_fn("double", move |input: Double| {
        ran.fetch_add(1, Ordering::SeqCst);
        async move {
            match input.n {
                13 => Err("unlucky"),
                n => Ok(n * 2),
            }
        }
    }))
}

async fn call(engine: &Engine, n: u32) -> String {
    engine.call(CallRequest::new("double", json!({"n": n}))).await.to_text(Lang::En)
}

#[tokio::test]
async fn before_may_rewrite_skip_or_stop() {
    let ran = Arc::new(AtomicUsize::new(0));
    let engine = engine(&ran)
        .hook(hook::before(|call| match call.arguments()["n"].as_u64() {
            Some(1) => Before::Rewrite(json!({"n": 50})),
            Some(2) => Before::Skip(Output::text("skipped")),
            Some(3) => Before::Stop(Error::new(ErrorKind::Denied, "not three")),
            Some(4) => Before::Rewrite(json!({"n": "four"})),
            _ => Before::Run,
        }))
        .build()
        .unwrap();
    assert_eq!(call(&engine, 1).await, "100");
    assert_eq!(call(&engine, 2).await, "skipped");
    assert!(call(&engine, 3).await.contains("not three"));
    assert!(
        call(&engine, 4).await.starts_with("Invalid arguments"),
        "rewritten arguments are checked"
    );
    assert_eq!(call(&engine, 5).await, "10");
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    let all = RecordFilter::default();
    let page =
        engine.records().query(&TenantId::default(), &all, PageRequest::first(10)).await.unwrap();
    assert_eq!(page.records.len(), 5);
    assert_eq!(*page.records[4].arguments, json!({"n": 50}), "what ran is recorded");
}

#[tokio::test]
async fn after_and_on_error_see_and_may_change_the_outcome() {
    let ran = Arc::new(AtomicUsize::new(0));
    let engine = engine(&ran)
        .hook(hook::after(|_, output| match output.to_text().as_str() {
            "2" => After::Rewrite(Output::text("two")),
            "4" => After::Stop(Error::tool("no fours")),
            _ => After::Keep,
        }))
        .hook(hook::on_error(|_, error| match error.message() {
            "unlucky" => After::Rewrite(Output::text("lucky after all")),
            _ => After::Keep,
        }))
        .build()
        .unwrap();
    assert_eq!(call(&engine, 1).await, "two");
    assert_eq!(call(&engine, 2).await, "Tool execution failed: no fours");
    assert_eq!(call(&engine, 3).await, "6");
    assert_eq!(call(&engine, 13).await, "lucky after all");
}

#[tokio::test]
async fn a_panicking_hook_fails_the_call_only() {
    let ran = Arc::new(AtomicUsize::new(0));
    let engine = engine(&ran)
        .hook(hook::before(|call| {
            assert_ne!(call.arguments()["n"], 7, "the hook's own fault");
            Before::Run
        }))
        .build()
        .unwrap();
    let result = engine.call(CallRequest::new("double", json!({"n": 7}))).await;
    assert_eq!(result.error().unwrap().kind(), ErrorKind::Panicked);
    assert_eq!(call(&engine, 8).await, "16");
}

#[tokio::test(start_paused = true)]
async fn the_error_hook_hears_of_panics_and_timeouts() {
    let engine = Engine::builder()
        .tool(ToolBuilder::from_fn("hang", |_: serde_json::Value| std::future::pending::<String>()))
        .tool(ToolBuilder::from_fn("crash", |_: serde_json::Value| async {
            if true { panic!("crashed") } else { "never" }
        }))
        .hook(hook::on_error(|_, error| After::Rewrite(Output::text(error.kind().name()))))
        .build()
        .unwrap();
    for (tool, text) in [("hang", "timeout"), ("crash", "panicked")] {
        let result = engine.call(CallRequest::new(tool, json!({}))).await;
        assert_eq!(result.to_text(Lang::En), text);
    }
}
