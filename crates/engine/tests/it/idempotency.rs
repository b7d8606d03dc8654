//! Calls with a key: one effect, one result, however often they are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use windlass::{
    CallRequest, Caller, Context, Engine, Error, ErrorKind, JsonSchema, Lang, Status, TenantId,
    ToolBuilder,
};

use crate::support::{kind, records};

#[derive(Deserialize, JsonSchema)]
struct Payment {
    amount: u64,
    #[serde(default)]
    fail: bool,
}

fn engine(paid: &Arc<AtomicUsize>) -> Engine {
    let count = Arc::clone(paid);
    let pay = move |payment: Payment| {
        let paid = Arc::clone(&count);
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let number = paid.fetch_add(1, Ordering::SeqCst) + 1;
            if payment.fail {
                return Err(Error::tool("no money").with_feedback("Ask for less."));
            }
            Ok(format!("receipt {number} for {} {}", payment.amount, "x".repeat(30_000)))
        }
    };
    Engine::builder()
        .tool(ToolBuilder::from_fn("pay", pay.clone()))
        .tool(ToolBuilder::from_fn("pay_again", pay))
        .build()
        .unwrap()
}

fn pay(amount: u64, key: &str) -> CallRequest {
    CallRequest::new("pay", json!({"amount": amount})).idempotency_key(key)
}

#[tokio::test(start_paused = true)]
async fn the_same_call_gives_the_same_result_and_runs_once() {
    let paid = Arc::default();
    let engine = engine(&paid);
    let first = engine.call(pay(5, "k")).await;
    let again = engine.call(pay(5, "k")).await;
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    assert_eq!(first.output().unwrap().to_text(), again.output().unwrap().to_text());
    assert_eq!((again.same_as, again.attempts), (Some(first.id), 0));
    assert_ne!(first.id, again.id);
    let records = records(&engine).await;
    assert_eq!(records.len(), 2, "each call has its own record");
    assert!(records.iter().all(|record| record.idempotency_key().is_some()));
    assert_eq!(records[0].details.as_ref().unwrap().same_as, Some(first.id));
    // Without a key, or with another one, it is another payment.
    engine.call(CallRequest::new("pay", json!({"amount": 5}))).await;
    engine.call(pay(5, "other")).await;
    assert_eq!(paid.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn other_arguments_or_another_tool_are_an_error() {
    let paid = Arc::default();
    let engine = engine(&paid);
    assert!(engine.call(pay(5, "k")).await.is_success());
    for request in
        [pay(6, "k"), CallRequest::new("pay_again", json!({"amount": 5})).idempotency_key("k")]
    {
        let refused = engine.call(request).await;
        assert_eq!(kind(&refused), ErrorKind::IdempotencyConflict);
    }
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    // The order of keys and a repaired value make no difference.
    let same = json!({"fail": false, "amount": "5"});
    let same = engine.call(CallRequest::new("pay", same).idempotency_key("k")).await;
    assert!(same.is_success() && same.same_as.is_some(), "{same:?}");
}

#[tokio::test(start_paused = true)]
async fn twins_wait_for_the_first_and_hold_no_slot() {
    let paid = Arc::default();
    let engine = engine(&paid);
    engine.set_limits({
        let mut limits = engine.limits();
        limits.max_concurrent = 2;
        limits
    });
    let calls = (0..50).map(|_| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.call(pay(5, "k")).await })
    });
    let mut texts = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        texts.push(call.await.unwrap().to_text(Lang::En));
    }
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    assert!(texts.iter().all(|text| *text == texts[0]));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_a_result_too() {
    let paid = Arc::default();
    let engine = engine(&paid);
    let request =
        || CallRequest::new("pay", json!({"amount": 1, "fail": true})).idempotency_key("k");
    let first = engine.call(request()).await;
    let again = engine.call(request()).await;
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    assert_eq!(kind(&again), ErrorKind::ToolError);
    assert_eq!(first.to_text(Lang::En), "Ask for less.");
    assert_eq!(again.to_text(Lang::En), "Ask for less.");
    assert_eq!(records(&engine).await[0].status, Status::Failed);
}

#[tokio::test(start_paused = true)]
async fn tenants_do_not_share_keys_and_what_never_ran_takes_none() {
    let paid = Arc::default();
    let engine = engine(&paid);
    let of = |tenant: &str, request: CallRequest| {
        let caller = Caller { tenant: TenantId::new(tenant), ..Caller::default() };
        request.context(Context::new(caller))
    };
    let invalid = CallRequest::new("pay", json!({"amount": "lots"})).idempotency_key("k");
    assert_eq!(kind(&engine.call(invalid).await), ErrorKind::InvalidArguments);
    assert!(engine.call(of("a", pay(1, "k"))).await.is_success());
    assert!(engine.call(of("b", pay(2, "k"))).await.is_success());
    assert!(engine.call(pay(3, "k")).await.is_success());
    assert_eq!(paid.load(Ordering::SeqCst), 3);
    for bad in ["", &"k".repeat(256)] {
        assert_eq!(kind(&engine.call(pay(4, bad)).await), ErrorKind::InvalidArguments);
    }
}

#[tokio::test(start_paused = true)]
async fn a_twin_gives_up_at_its_own_deadline() {
    let paid = Arc::default();
    let engine = engine(&paid);
    let (first, twin) = tokio::join!(
        engine.call(pay(1, "k")),
        engine.call(pay(1, "k").timeout(Duration::from_millis(300)))
    );
    assert!(first.is_success());
    assert_eq!(kind(&twin), ErrorKind::Timeout);
}
