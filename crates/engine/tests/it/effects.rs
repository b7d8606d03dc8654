//! Feedback to the model about a call that failed after it had begun and is not safe to
//! retry: it may have taken effect, so check first.

use std::time::Duration;

use serde_json::{Value, json};
use windlass::{
    Behaviour, CallRequest, CallResult, Engine, Error, ErrorKind, Lang, TenantId, ToolBuilder,
};

use crate::support::{call, kind};

const IDEMPOTENT: Behaviour =
    Behaviour { idempotent: true, read_only: false, concurrency_safe: None, destructive: false };

/// The tool `pay`, which fails as its argument says.
fn engine(behaviour: Behaviour) -> Engine {
    let pay = ToolBuilder::from_fn("pay", |given: Value| async move {
        match given["how"].as_str().unwrap_or_default() {
            "sleep" => tokio::time::sleep(Duration::from_secs(60)).await,
            "panic" => panic!("out of paper"),
            "ok" => {}
            "unsent" => {
                return Err(Error::new(ErrorKind::Network, "no route").nothing_done());
            }
            "said" => {
                let error = Error::new(ErrorKind::UpstreamFailed, "503");
                return Err(error.with_feedback("The bank is on fire."));
            }
            name => {
                let kind = ErrorKind::from_name(name).unwrap();
                return Err(Error::new(kind, "why").with_retry_after(Duration::from_secs(9)));
            }
        }
        Ok(json!({"paid": true}))
    });
    let pay = pay.behaviour(behaviour).with(|spec| {
        spec.output = Some(json!({"type": "object", "required": ["receipt"]}));
    });
    let once = |settings: &mut windlass::EngineSettings| settings.retry.attempts = 1;
    Engine::builder().tool(pay).settings(once).build().unwrap()
}

fn pay(how: &str) -> CallRequest {
    CallRequest::new("pay", json!({"how": how})).timeout(Duration::from_secs(5))
}

fn says_doubt(result: &CallResult) -> bool {
    let (english, chinese) = (result.to_text(Lang::En), result.to_text(Lang::Zh));
    let doubt = english.contains("may have taken effect") && english.contains("check first");
    assert_eq!(doubt, chinese.contains("可能已经生效") && chinese.contains("请先确认"));
    let again = ["ry again", "another way"].iter().any(|advice| english.contains(advice))
        || ["重试", "其他方式"].iter().any(|advice| chinese.contains(advice));
    assert!(!(doubt && again), "{english} {chinese}");
    let error = result.error().unwrap();
    assert_eq!(doubt, error.may_have_acted());
    assert!(!(doubt && (error.is_retryable() || error.retry_after().is_some())));
    doubt
}

/// Kinds that say nothing about what was done.
const OPEN: [&str; 6] =
    ["timeout", "network", "upstream_failed", "internal", "storage_unavailable", "invalid_output"];
/// Kinds that say that nothing was.
const CLEAR: [&str; 6] = [
    "upstream_rejected",
    "rate_limited",
    "credential_invalid",
    "denied",
    "circuit_open",
    "invalid_arguments",
];

#[tokio::test(start_paused = true)]
async fn a_payment_that_failed_half_way_is_not_to_be_repeated_unseen() {
    let engine = engine(Behaviour::default());
    for how in OPEN.into_iter().chain(["sleep", "panic", "ok", "said"]) {
        let result = engine.call(pay(how)).await;
        assert!(says_doubt(&result), "{how}: {}", result.to_text(Lang::En));
    }
    let said = engine.call(pay("said")).await.to_text(Lang::Zh);
    assert!(said.starts_with("The bank is on fire."), "the other side's words stay: {said}");
    for how in CLEAR.into_iter().chain(["unsent"]) {
        let result = engine.call(pay(how)).await;
        assert!(!says_doubt(&result), "{how}: {}", result.to_text(Lang::En));
    }
    let reported = engine.call(pay("tool_error")).await;
    assert_eq!(reported.to_text(Lang::En), "Tool execution failed: why");
    assert!(!reported.to_text(Lang::Zh).contains("重试"), "{}", reported.to_text(Lang::Zh));
}

#[tokio::test(start_paused = true)]
async fn a_payment_that_is_cancelled_while_it_runs_may_have_happened() {
    let engine = engine(Behaviour::default());
    let running = tokio::spawn({
        let engine = engine.clone();
        async move { engine.call(pay("sleep")).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(engine.cancel_all(), 1);
    let result = running.await.unwrap();
    assert_eq!(kind(&result), ErrorKind::Cancelled);
    assert!(says_doubt(&result), "{}", result.to_text(Lang::En));
}

#[tokio::test(start_paused = true)]
async fn what_may_be_repeated_says_so_as_before() {
    for behaviour in [Behaviour::READ_ONLY, IDEMPOTENT] {
        let engine = engine(behaviour);
        for how in OPEN.into_iter().chain(["sleep", "panic", "said"]) {
            let result = engine.call(pay(how)).await;
            assert!(!says_doubt(&result), "{how}: {}", result.to_text(Lang::En));
        }
        let text = engine.call(pay("sleep")).await.to_text(Lang::En);
        assert!(text.contains("Try again"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_began_may_be_tried_again() {
    let engine = engine(Behaviour::default());
    let mut one = engine.limits();
    one.max_concurrent = 1;
    engine.set_limits(one);
    let first = tokio::spawn({
        let engine = engine.clone();
        async move { engine.call(pay("sleep").timeout(Duration::from_secs(30))).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let waiting = engine.call(pay("ok")).await;
    assert_eq!((kind(&waiting), waiting.attempts), (ErrorKind::Timeout, 0));
    assert!(!says_doubt(&waiting), "{}", waiting.to_text(Lang::En));
    let unknown = engine.call(call("nothing_here")).await;
    assert!(!says_doubt(&unknown));
    assert!(says_doubt(&first.await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_again_with_the_same_key_reads_the_same_in_both_languages() {
    let engine = engine(Behaviour::default());
    let keyed = || pay("said").idempotency_key("k");
    let first = engine.call(keyed()).await;
    let again = engine.call(keyed()).await;
    assert_eq!((again.same_as, again.attempts), (Some(first.id), 0));
    assert_eq!(first.to_text(Lang::En), again.to_text(Lang::En));
    assert!(says_doubt(&again), "{}", again.to_text(Lang::Zh));
    let record = engine.records().get(&TenantId::default(), first.id).await.unwrap().unwrap();
    let feedback = record.error.unwrap().feedback.unwrap();
    assert!(feedback.contains("may have taken effect"), "{feedback}");
}
