//! An engine on a real store: outages, and several engines on one database.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::Connection;
use serde_json::{Value, json};
use windlass::{
    Approvals, Behaviour, BoxFuture, Call, CallRequest, Decision, Engine, EngineBuilder, Error,
    ErrorKind, Lang, Status, SuspendedCall, TenantId, ToolBuilder, Verdict,
};
use windlass_store::{Options, SqliteStore};

/// `pay` counts, `look` only looks.
fn engine(path: &Path, paid: &Arc<AtomicUsize>) -> Engine {
    builder(path, paid).build().unwrap()
}

fn builder(path: &Path, paid: &Arc<AtomicUsize>) -> EngineBuilder {
    let options = Options { busy_timeout: Duration::from_millis(50), ..Options::default() };
    let paid = Arc::clone(paid);
    Engine::builder()
        .tool(ToolBuilder::from_fn("pay", move |_: Value| {
            let paid = Arc::clone(&paid);
            async move {
                tokio::time::sleep(Duration::from_millis(200)).await;
                format!("receipt {}", paid.fetch_add(1, Ordering::SeqCst) + 1)
            }
        }))
        .tool(
            ToolBuilder::from_fn("look", |_: Value| async { "seen" })
                .behaviour(Behaviour::READ_ONLY),
        )
        .store(SqliteStore::open_with(path, options).unwrap())
}

fn call(tool: &str) -> CallRequest {
    CallRequest::new(tool, json!({}))
}

#[tokio::test]
async fn while_nothing_can_be_written_effects_are_refused_and_reads_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let paid = Arc::default();
    let engine = engine(&path, &paid);
    let before = engine.call(call("pay")).await;
    assert!(before.is_success());

    let lock = Connection::open(&path).unwrap();
    lock.busy_timeout(Duration::from_secs(5)).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    for _ in 0..3 {
        let start = Instant::now();
        let refused = engine.call(call("pay")).await;
        let error = refused.error().unwrap();
        assert_eq!((error.kind(), refused.attempts), (ErrorKind::StorageUnavailable, 0));
        assert!(error.message().contains("is locked by another process"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(5));
        assert!(engine.call(call("look")).await.is_success());
    }
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    let known = engine.records().get(&TenantId::default(), before.id).await.unwrap();
    assert_eq!(known.unwrap().status, Status::Succeeded, "what is kept can be read");

    lock.execute_batch("COMMIT").unwrap();
    assert!(engine.call(call("pay")).await.is_success(), "the next one, without a restart");
    let total = engine.records().statistics(&TenantId::default()).await.unwrap().total;
    assert_eq!((total.calls, total.successful), (8, 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_on_one_database_agree_about_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let paid = Arc::default();
    let engines = [engine(&path, &paid), engine(&path, &paid), engine(&path, &paid)];
    let calls: Vec<_> = (0..30)
        .map(|n| {
            let engine = engines[n % engines.len()].clone();
            let request = call("pay").idempotency_key("order-17");
            tokio::spawn(async move { engine.call(request).await.to_text(Lang::En) })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), "receipt 1");
    }
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    drop(engines);
    // A restart changes nothing.
    let engine = engine(&path, &paid);
    let again = engine.call(call("pay").idempotency_key("order-17")).await;
    assert_eq!(again.to_text(Lang::En), "receipt 1");
    assert!(again.same_as.is_some());
    let other = CallRequest::new("look", json!({})).idempotency_key("order-17");
    assert_eq!(engine.call(other).await.error().unwrap().kind(), ErrorKind::IdempotencyConflict);
}

/// Asks about every call, and keeps what waits.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Vec<SuspendedCall>>>);

impl Approvals for Desk {
    fn decide(&self, _: &Call) -> Decision {
        Decision::Ask("always".to_owned())
    }

    fn suspend(&self, call: SuspendedCall) -> BoxFuture<'_, Result<(), Error>> {
        self.0.lock().push(call);
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_two_engines_resume_takes_effect_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.db");
    let (paid, desk) = (Arc::default(), Desk::default());
    let engines = [0, 1].map(|_| builder(&path, &paid).approvals(desk.clone()).build().unwrap());
    let [one, two] = engines;
    for key in [None, Some("order-18")] {
        let asked = key.into_iter().fold(call("pay"), CallRequest::idempotency_key);
        let asked = one.call(asked).await.id;
        let suspended = desk.0.lock().remove(0);
        let (running, resumed) = (one.clone(), suspended.clone());
        let first = tokio::spawn(async move {
            running.resume(resumed, Verdict::approve("grace")).await.to_text(Lang::En)
        });
        tokio::time::sleep(Duration::from_millis(80)).await;
        let before = paid.load(Ordering::SeqCst);
        // It may not even take its own time out on the other's record.
        let mut hurried = suspended.clone();
        hurried.timeout = Some(Duration::from_millis(20));
        let late = two.resume(hurried, Verdict::approve("grace")).await;
        assert_eq!(late.error().unwrap().kind(), ErrorKind::Timeout);
        let second = two.resume(suspended, Verdict::approve("grace")).await;
        let receipt = format!("receipt {}", before + 1);
        assert_eq!((second.id, second.to_text(Lang::En)), (asked, receipt.clone()));
        assert_eq!(first.await.unwrap(), receipt);
        assert_eq!(paid.load(Ordering::SeqCst), before + 1);
        let record = one.records().get(&TenantId::default(), asked).await.unwrap().unwrap();
        assert_eq!(record.status, Status::Succeeded);
    }
    let total = two.records().statistics(&TenantId::default()).await.unwrap().total;
    assert_eq!((total.calls, total.successful), (2, 2));
}
