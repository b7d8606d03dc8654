//! Idempotency keys: one side effect and one result, however often the call is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use windlass::hook::{self, Before};
use windlass::{
    Behaviour, BoxFuture, Call, CallId, CallRequest, Caller, Context, Engine, Error, ErrorKind,
    Executor, IdempotencyKey, Intent, JsonSchema, Lang, MemoryStore, Output, RecordStore, Status,
    TenantId, ToolBuilder,
};

use crate::support::{call, kind, records, slow};

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

/// Tells whose inbox it is.
struct Inbox;

impl Executor for Inbox {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        let user = call.caller().user.as_deref().unwrap_or("nobody");
        Box::pin(std::future::ready(Ok(Output::text(format!("inbox of {user}")))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_does_not_give_the_result_of_one_user_to_another() {
    let inbox = ToolBuilder::native("get_inbox", json!({"type": "object"}), Arc::new(Inbox))
        .behaviour(Behaviour::READ_ONLY)
        .cache(Duration::from_secs(600));
    let engine = Engine::builder().tool(inbox).build().unwrap();
    let by = |user: &str| {
        let caller = Caller { user: Some(user.into()), ..Caller::default() };
        call("get_inbox").context(Context::new(caller))
    };
    engine.call(by("alice").idempotency_key("k")).await;
    let refused = engine.call(by("bob").idempotency_key("k")).await;
    assert_eq!(kind(&refused), ErrorKind::IdempotencyConflict);
    assert_eq!(engine.call(by("bob")).await.to_text(Lang::En), "inbox of bob");
}

#[tokio::test(start_paused = true)]
async fn a_read_whose_caller_went_away_gives_its_key_back() {
    let look = slow("look", 10, &Arc::default()).behaviour(Behaviour::READ_ONLY);
    let engine = Engine::builder().tool(look).build().unwrap();
    let look = || engine.call(call("look").idempotency_key("k"));
    assert!(tokio::time::timeout(Duration::from_secs(1), look()).await.is_err());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let again = look().await;
    assert!(again.is_success(), "{:?}", again.error());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_hook_stops_takes_no_key() {
    let (saved, denied) = (Arc::default(), Arc::new(AtomicBool::new(true)));
    let asked = Arc::clone(&denied);
    let engine = Engine::builder()
        .tool(slow("save", 0, &saved))
        .hook(hook::before(move |_| match asked.load(Ordering::SeqCst) {
            true => Before::Stop(Error::new(ErrorKind::Denied, "not approved yet")),
            false => Before::Run,
        }))
        .build()
        .unwrap();
    let save = || engine.call(call("save").idempotency_key("k"));
    assert_eq!(kind(&save().await), ErrorKind::Denied);
    assert_eq!(saved.load(Ordering::SeqCst), 0);
    denied.store(false, Ordering::SeqCst);
    let again = save().await;
    assert!(again.is_success(), "{:?}", again.error());
}

#[tokio::test(start_paused = true)]
async fn the_key_of_a_running_call_is_not_pushed_out_of_memory() {
    let saved = Arc::default();
    let engine = Engine::builder()
        .tool(slow("save", 10, &saved))
        .tool(slow("look", 0, &Arc::default()).behaviour(Behaviour::READ_ONLY))
        .store(MemoryStore::with_capacity(2))
        .build()
        .unwrap();
    let save = || {
        let engine = engine.clone();
        tokio::spawn(async move { engine.call(call("save").idempotency_key("k")).await })
    };
    let first = save();
    tokio::time::sleep(Duration::from_secs(1)).await;
    for key in ["a", "b"] {
        engine.call(call("look").idempotency_key(key)).await;
    }
    let twin = save();
    first.await.unwrap();
    twin.await.unwrap();
    assert_eq!(saved.load(Ordering::SeqCst), 1);
}

/// An intent under a key, and the record of a call that never ran.
async fn take_and_free(store: &dyn RecordStore, key: String) {
    let intent = Intent {
        id: CallId::at(jiff::Timestamp::now()),
        call_ref: None,
        tool_name: "other".into(),
        arguments: Arc::new(json!({})),
        caller: Arc::default(),
        created_at: jiff::Timestamp::now(),
        key: Some(IdempotencyKey { key: key.into(), fingerprint: [0; 32] }),
    };
    let mut record = intent.clone().interrupted();
    record.attempts = 0;
    store.begin(intent).await.unwrap();
    store.append(record);
}

#[tokio::test(start_paused = true)]
async fn keys_that_were_given_back_push_out_no_others() {
    let saved = Arc::default();
    let engine = Engine::builder()
        .tool(slow("save", 0, &saved))
        .store(MemoryStore::with_capacity(100))
        .build()
        .unwrap();
    engine.call(call("save").idempotency_key("k")).await;
    for n in 0..100 {
        take_and_free(engine.records(), format!("free{n}")).await;
    }
    engine.call(call("save").idempotency_key("k")).await;
    assert_eq!(saved.load(Ordering::SeqCst), 1);
}
