//! Retries: only safe calls, only transient errors, with backoff and circuit breaker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass::{
    Behaviour, CallRequest, Caller, Context, Engine, EngineBuilder, Error, ErrorKind, EventBody,
    RetryPolicy, Status, TenantId, ToolBuilder,
};

use crate::support::{call, kind, only_record, slow};

/// A tool that fails with this error the first `failures` times.
fn flaky(name: &str, failures: usize, error: Error) -> (ToolBuilder, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let tool = ToolBuilder::from_fn(name, move |_: Value| {
        let fail = count.fetch_add(1, Ordering::SeqCst) < failures;
        let error = error.clone();
        async move { if fail { Err(error) } else { Ok("done") } }
    });
    (tool, asked)
}

fn network() -> Error {
    Error::new(ErrorKind::Network, "connection refused")
}

fn with(tool: ToolBuilder) -> EngineBuilder {
    Engine::builder().tool(tool)
}

#[tokio::test(start_paused = true)]
async fn a_read_is_tried_three_times_and_every_attempt_is_visible() {
    let (tool, asked) = flaky("look", 2, network());
    let engine = with(tool.behaviour(Behaviour::READ_ONLY)).build().unwrap();
    let mut events = engine.events();
    let start = Instant::now();
    let result = engine.call(call("look")).await;
    assert!(result.is_success());
    assert_eq!((result.attempts, asked.load(Ordering::SeqCst)), (3, 3));
    assert!(start.elapsed() <= Duration::from_secs(3), "at most 1 s and 2 s");

    let record = only_record(&engine).await;
    assert_eq!((record.status, record.attempts), (Status::Succeeded, 3));
    let failed = &record.details.as_ref().unwrap().failed_attempts;
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().all(|attempt| attempt.error.kind == ErrorKind::Network));
    assert!(failed[0].delay <= 1.0 && failed[1].delay <= 2.0);
    let mut names = Vec::new();
    while names.last() != Some(&"execution_completed") {
        let event = events.next().await.unwrap();
        if let EventBody::ExecutionRetried { attempt, error_kind, .. } = &event.body {
            assert_eq!((*attempt as usize, *error_kind), (names.len(), ErrorKind::Network));
        }
        names.push(event.body.name());
    }
    let wanted =
        ["execution_started", "execution_retried", "execution_retried", "execution_completed"];
    assert_eq!(names, wanted);
    let json = serde_json::to_value(&record).unwrap();
    assert_eq!(json["failed_attempts"][1]["error"]["kind"], "network");
}

#[tokio::test(start_paused = true)]
async fn a_side_effect_is_not_repeated_unless_asked_for() {
    let (tool, asked) = flaky("pay", 1, network());
    let engine = with(tool).build().unwrap();
    let result = engine.call(call("pay")).await;
    assert_eq!((kind(&result), asked.load(Ordering::SeqCst)), (ErrorKind::Network, 1));

    let (tool, asked) = flaky("put", 1, network());
    let idempotent = Behaviour { idempotent: true, ..Behaviour::default() };
    let engine = with(tool.behaviour(idempotent)).build().unwrap();
    assert!(engine.call(call("put")).await.is_success());
    assert_eq!(asked.load(Ordering::SeqCst), 2);

    let (tool, asked) = flaky("pay", 4, network());
    let policy = RetryPolicy { attempts: 5, ..RetryPolicy::default() };
    let engine = with(tool.retry(policy)).build().unwrap();
    assert!(engine.call(call("pay")).await.is_success());
    assert_eq!(asked.load(Ordering::SeqCst), 5);

    let (tool, asked) = flaky("look", 9, network());
    let engine = with(tool.behaviour(Behaviour::READ_ONLY)).build().unwrap();
    let once = engine.call(call("look").retry(RetryPolicy::ONCE)).await;
    assert_eq!((kind(&once), asked.load(Ordering::SeqCst)), (ErrorKind::Network, 1));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_pass_is_not_tried_again() {
    for kind_of in [ErrorKind::UpstreamRejected, ErrorKind::CredentialInvalid, ErrorKind::ToolError]
    {
        let (tool, asked) = flaky("look", 9, Error::new(kind_of, "no"));
        let engine = with(tool.behaviour(Behaviour::READ_ONLY)).build().unwrap();
        assert_eq!(kind(&engine.call(call("look")).await), kind_of);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_other_side_says_when_and_the_deadline_has_the_last_word() {
    let busy = Error::new(ErrorKind::RateLimited, "slow down");
    let (tool, asked) = flaky("look", 1, busy.clone().with_retry_after(Duration::from_secs(7)));
    let engine = with(tool.behaviour(Behaviour::READ_ONLY)).build().unwrap();
    let start = Instant::now();
    assert!(engine.call(call("look")).await.is_success());
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(7) && waited < Duration::from_secs(9), "{waited:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 2);

    // It would be tried after the deadline: the answer comes at once.
    let (tool, asked) = flaky("look", 1, busy.with_retry_after(Duration::from_secs(60)));
    let engine = with(tool.behaviour(Behaviour::READ_ONLY)).build().unwrap();
    let start = Instant::now();
    let result = engine.call(call("look")).await;
    assert_eq!((kind(&result), asked.load(Ordering::SeqCst)), (ErrorKind::RateLimited, 1));
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_next_attempt_has_no_slot() {
    let slow_down =
        Error::new(ErrorKind::RateLimited, "x").with_retry_after(Duration::from_secs(9));
    let (tool, _) = flaky("look", 1, slow_down);
    let engine = with(tool.behaviour(Behaviour::READ_ONLY))
        .tool(ToolBuilder::from_fn("quick", |_: Value| async { "quick" }))
        .settings(|settings| settings.limits.max_concurrent = 1)
        .build()
        .unwrap();
    let start = Instant::now();
    let (slow, quick) = tokio::join!(engine.call(call("look")), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let result = engine.call(call("quick")).await;
        assert!(start.elapsed() < Duration::from_secs(2));
        result
    });
    assert!(slow.is_success() && quick.is_success());
    assert_eq!(engine.limit_metrics().current_concurrent, 0);
}

#[tokio::test(start_paused = true)]
async fn a_dead_upstream_is_not_stormed() {
    let (tool, asked) = flaky("look", usize::MAX, network());
    let engine = with(tool.behaviour(Behaviour::READ_ONLY))
        .settings(|settings| {
            settings.breaker = None;
            settings.limits.max_concurrent = 10_000;
        })
        .build()
        .unwrap();
    let calls = (0..1_000).map(|n| {
        let engine = engine.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(n * 5)).await;
            engine.call(call("look")).await
        })
    });
    for one in calls.collect::<Vec<_>>() {
        assert_eq!(kind(&one.await.unwrap()), ErrorKind::Network);
    }
    let asked = asked.load(Ordering::SeqCst);
    assert!((1_100..=1_200).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn a_circuit_opens_for_its_tenant_and_closes_when_a_probe_succeeds() {
    let dead = Arc::new(AtomicBool::new(true));
    let asked = Arc::new(AtomicUsize::new(0));
    let tool = {
        let (dead, asked) = (Arc::clone(&dead), Arc::clone(&asked));
        ToolBuilder::from_fn("look", move |_: Value| {
            asked.fetch_add(1, Ordering::SeqCst);
            let dead = dead.load(Ordering::SeqCst);
            async move { if dead { Err(network()) } else { Ok("back") } }
        })
    };
    let engine = with(tool).build().unwrap();
    for _ in 0..10 {
        assert_eq!(kind(&engine.call(call("look")).await), ErrorKind::Network);
    }
    let refused = engine.call(call("look")).await;
    assert_eq!((kind(&refused), refused.attempts), (ErrorKind::CircuitOpen, 0));
    assert!(refused.error().unwrap().retry_after().unwrap() <= Duration::from_secs(5));
    assert_eq!(asked.load(Ordering::SeqCst), 10);

    let other = Caller { tenant: TenantId::new("other"), ..Caller::default() };
    let other = engine.call(call("look").context(Context::new(other))).await;
    assert_eq!(kind(&other), ErrorKind::Network, "another tenant's circuit is its own");

    // One probe at a time; it fails, and the circuit stays open for longer.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (probe, beside) = tokio::join!(engine.call(call("look")), engine.call(call("look")));
    assert_eq!((kind(&probe), kind(&beside)), (ErrorKind::Network, ErrorKind::CircuitOpen));
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(kind(&engine.call(call("look")).await), ErrorKind::CircuitOpen);
    dead.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(engine.call(call("look")).await.is_success());
    assert!(engine.call(call("look")).await.is_success());
}

#[tokio::test(start_paused = true)]
async fn a_site_that_fails_does_not_close_the_way_to_others() {
    let tool = ToolBuilder::from_fn("fetch", |asked: Value| async move {
        let url = asked["url"].as_str().unwrap_or_default().to_owned();
        if url.contains("DEAD") { Err(network()) } else { Ok("a page") }
    });
    let engine = with(tool.upstream("{url}")).build().unwrap();
    let fetch = |url: &str| engine.call(CallRequest::new("fetch", json!({"url": url})));
    for n in 0..10 {
        let result = fetch(&format!("https://user:{n}@DEAD.example:8443/{n}?a=b")).await;
        assert_eq!(kind(&result), ErrorKind::Network);
    }
    let refused = fetch("https://dead.example:8443/other").await;
    assert_eq!(kind(&refused), ErrorKind::CircuitOpen);
    assert!(refused.error().unwrap().message().contains("`dead.example:8443`"));
    assert!(fetch("https://alive.example/").await.is_success());
    assert!(fetch("https://alive.example?next=dead.example:8443").await.is_success());
    let nowhere = engine.call(CallRequest::new("fetch", json!({}))).await;
    assert!(nowhere.is_success(), "no argument says which: {nowhere:?}");
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_cancelled_does_not_keep_the_circuit_open() {
    let behave = Arc::new(AtomicUsize::new(0));
    let tool = {
        let behave = Arc::clone(&behave);
        ToolBuilder::from_fn("look", move |_: Value| {
            let behave = behave.load(Ordering::SeqCst);
            async move {
                match behave {
                    0 => Err(network()),
                    1 => std::future::pending().await,
                    _ => Ok("back"),
                }
            }
        })
        .behaviour(Behaviour::READ_ONLY)
        .retry(RetryPolicy::ONCE)
    };
    let engine = with(tool).build().unwrap();
    for _ in 0..10 {
        engine.call(call("look")).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    behave.store(1, Ordering::SeqCst);
    let probe = tokio::time::timeout(Duration::from_secs(1), engine.call(call("look")));
    assert!(probe.await.is_err());
    behave.store(2, Ordering::SeqCst);
    assert!(engine.call(call("look")).await.is_success());
}

#[tokio::test(start_paused = true)]
async fn twins_that_give_up_do_not_open_the_circuit() {
    let of_bank = |name, seconds| {
        slow(name, seconds, &Arc::default()).with(|spec| spec.upstream = Some("bank".into()))
    };
    let engine = with(of_bank("pay", 25)).tool(of_bank("look", 0)).build().unwrap();
    let pay = || call("pay").idempotency_key("k");
    let first = tokio::spawn({
        let (engine, pay) = (engine.clone(), pay());
        async move { engine.call(pay).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    for _ in 0..10 {
        let twin = engine.call(pay().timeout(Duration::from_secs(1))).await;
        assert_eq!((kind(&twin), twin.attempts), (ErrorKind::Timeout, 0));
    }
    let other = engine.call(call("look")).await;
    assert!(other.is_success(), "{:?}", other.error());
    assert!(first.await.unwrap().is_success());
}
