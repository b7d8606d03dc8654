//! Result cache: hits, TTL, and who shares results with whom.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windlass::hook::{self, Before};
use windlass::{
    Behaviour, BoxFuture, Call, CallRequest, Caller, Context, Engine, Error, ErrorKind, Executor,
    Lang, Output, Status, TenantId, ToolBuilder,
};

use crate::support::records;

fn counter(name: &str) -> (ToolBuilder, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let tool = ToolBuilder::from_fn(name, move |input: Value| {
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        async move { if input.get("fail").is_some() { Err("no") } else { Ok(number) } }
    });
    (tool.behaviour(Behaviour::READ_ONLY), asked)
}

fn call(arguments: Value) -> CallRequest {
    CallRequest::new("look", arguments)
}

#[tokio::test(start_paused = true)]
async fn a_result_is_given_again_until_it_is_too_old() {
    let (tool, asked) = counter("look");
    let engine = Engine::builder().tool(tool.cache(Duration::from_secs(60))).build().unwrap();
    let first = engine.call(call(json!({"a": 1, "b": 2}))).await;
    let again = engine.call(call(json!({"b": 2, "a": 1}))).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(again.to_text(Lang::En), first.to_text(Lang::En));
    assert_eq!((again.same_as, again.attempts), (Some(first.id), 0));
    assert_eq!(records(&engine).await[0].status, Status::Succeeded);
    engine.call(call(json!({"a": 1}))).await;
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(engine.call(call(json!({"a": 1, "b": 2}))).await.same_as, None);
}

#[tokio::test]
async fn nobody_gets_what_is_not_theirs() {
    let (tool, asked) = counter("look");
    let engine = Engine::builder().tool(tool.cache(Duration::from_secs(60))).build().unwrap();
    let by = |tenant: &str, user: &str| {
        Context::new(Caller {
            tenant: TenantId::new(tenant),
            user: Some(user.into()),
            ..Caller::default()
        })
    };
    let contexts = [
        by("a", "u"),
        by("b", "u"),
        by("a", "v"),
        by("a", "u").secret("token", "one"),
        by("a", "u").secret("token", "two"),
        by("a", "u").variable("region", "eu"),
    ];
    for context in &contexts {
        for _ in 0..2 {
            assert!(engine.call(call(json!({})).context(context.clone())).await.is_success());
        }
    }
    assert_eq!(asked.load(Ordering::SeqCst), contexts.len());
}

#[tokio::test]
async fn failures_and_other_tools_are_not_kept_and_a_new_version_starts_anew() {
    let (tool, asked) = counter("look");
    let tool = tool.cache(Duration::from_secs(60));
    let (plain, plain_asked) = counter("plain");
    let engine = Engine::builder().tool(tool.clone()).tool(plain).build().unwrap();
    for _ in 0..2 {
        assert!(!engine.call(call(json!({"fail": 1}))).await.is_success());
        engine.call(CallRequest::new("plain", json!({}))).await;
    }
    assert_eq!((asked.load(Ordering::SeqCst), plain_asked.load(Ordering::SeqCst)), (2, 2));
    engine.call(call(json!({}))).await;
    engine.registry().replace(tool).unwrap();
    engine.call(call(json!({}))).await;
    assert_eq!(asked.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn the_cache_is_bounded_and_only_for_tools_that_change_nothing() {
    let (tool, asked) = counter("look");
    let engine = Engine::builder()
        .tool(tool.cache(Duration::from_secs(60)))
        .settings(|settings| settings.cache_entries = 10)
        .build()
        .unwrap();
    for n in 0..30 {
        engine.call(call(json!({"n": n}))).await;
    }
    // The last ten are there, the one before is not.
    for n in (20..30).chain([19]) {
        engine.call(call(json!({"n": n}))).await;
    }
    assert_eq!(asked.load(Ordering::SeqCst), 31);
    let (tool, _) = counter("save");
    let refused = tool.behaviour(Behaviour::default()).cache(Duration::from_secs(1));
    let error = engine.registry().register(refused).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidDefinition);
    assert!(error.message().contains("read_only"), "{error}");
}

/// Answers with the name of the object that the call carries.
struct Carried;

struct Named(&'static str);

impl Executor for Carried {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        let name = call.object::<Named>().map_or("none", |named| named.0);
        Box::pin(std::future::ready(Ok(Output::text(name))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_carries_another_object_is_another_call() {
    let tool = ToolBuilder::native("look", json!({"type": "object"}), Arc::new(Carried))
        .behaviour(Behaviour::READ_ONLY)
        .cache(Duration::from_secs(60));
    let engine = Engine::builder().tool(tool).build().unwrap();
    for name in ["session a", "session b"] {
        let context = Context::default().object(Named(name));
        let result = engine.call(call(json!({})).context(context)).await;
        assert_eq!(result.to_text(Lang::En), name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_has_its_say_before_the_cache() {
    let (tool, _) = counter("look");
    let engine = Engine::builder()
        .tool(tool.cache(Duration::from_secs(60)))
        .hook(hook::before(|call| match call.caller().conversation.as_deref() {
            Some("b") => Before::Stop(Error::new(ErrorKind::Denied, "no")),
            _ => Before::Run,
        }))
        .build()
        .unwrap();
    for (conversation, answered) in [("a", true), ("b", false)] {
        let context = Context::for_conversation("agent", conversation);
        let result = engine.call(call(json!({})).context(context)).await;
        assert_eq!(result.is_success(), answered, "{conversation}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_noisy_tenant_evicts_only_its_own_results() {
    let (tool, asked) = counter("look");
    let engine = Engine::builder()
        .settings(|settings| settings.cache_entries = 10)
        .tool(tool.cache(Duration::from_secs(60)))
        .build()
        .unwrap();
    let ask = async |tenant: &str, number: usize| {
        let caller = Caller { tenant: TenantId::new(tenant), ..Caller::default() };
        engine.call(call(json!({"a": number})).context(Context::new(caller))).await
    };
    for number in 0..3 {
        ask("quiet", number).await;
    }
    for number in 0..100 {
        ask("noisy", number).await;
    }
    assert_eq!(asked.load(Ordering::SeqCst), 103);
    for number in 0..3 {
        ask("quiet", number).await;
    }
    ask("noisy", 99).await;
    assert_eq!(asked.load(Ordering::SeqCst), 103, "they are still there");
    ask("noisy", 0).await;
    assert_eq!(asked.load(Ordering::SeqCst), 104);
}
