//! Durability: a store gets the intent before the side effect, and the record before the
//! response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use windlass::{
    Behaviour, BoxFuture, CallId, CallRecord, CallRequest, Context, Engine, Error, ErrorKind,
    Intent, Lang, Preset, Status, TenantId, ToolBuilder,
};

use crate::support::{Faults, Faulty, call, kind, only_record, records, slow};

/// What happened, in order.
type Log = Arc<Mutex<Vec<&'static str>>>;

/// A disk that can be full.
#[derive(Default)]
struct Disk {
    log: Log,
    full: Arc<AtomicBool>,
    told: AtomicBool,
}

impl Disk {
    fn write(&self, what: &'static str) -> Result<(), Error> {
        if self.full.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::StorageUnavailable, "the disk is full"));
        }
        self.log.lock().push(what);
        Ok(())
    }
}

impl Faults for Disk {
    fn keeps_intents(&self) -> bool {
        true
    }
    fn before_begin<'a>(&'a self, intent: &'a Intent) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            assert!(!intent.arguments.to_string().contains("hush"), "hidden values are masked");
            sleep(Duration::from_millis(10)).await;
            self.write("intent")
        })
    }
    fn before_flush(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            sleep(Duration::from_millis(10)).await;
            self.write("flush")
        })
    }
    fn take_interrupted(&self) -> Vec<CallRecord> {
        if self.told.swap(true, Ordering::SeqCst) {
            return Vec::new();
        }
        vec![
            Intent {
                id: CallId::at(jiff::Timestamp::now()),
                call_ref: Some("toolu_lost".into()),
                tool_name: "pay".into(),
                arguments: Arc::new(json!({})),
                caller: Arc::default(),
                created_at: jiff::Timestamp::now(),
                key: None,
            }
            .interrupted(),
        ]
    }
}

fn engine(log: &Log, full: &Arc<AtomicBool>) -> Engine {
    let effect = |name: &str, what: &'static str| {
        let log = Arc::clone(log);
        ToolBuilder::from_fn(name, move |_: Value| {
            let log = Arc::clone(&log);
            async move { log.lock().push(what) }
        })
    };
    let pay = effect("pay", "effect")
        .with(|spec| spec.input = json!({"type": "object", "properties": {"card": {}}}))
        .preset("card", Preset::value("hush"));
    let (log, full) = (Arc::clone(log), Arc::clone(full));
    Engine::builder()
        .tool(pay)
        .tool(effect("look", "read").behaviour(Behaviour::READ_ONLY))
        .store(Faulty::new(Disk { log, full, told: AtomicBool::new(false) }))
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_intent_is_kept_before_the_effect_and_the_record_before_the_answer() {
    let log = Log::default();
    let engine = engine(&log, &Arc::default());
    let mut events = engine.events();
    assert!(engine.call(call("pay")).await.is_success());
    log.lock().push("answer");
    assert_eq!(*log.lock(), ["intent", "effect", "flush", "answer"]);
    for wanted in ["execution_started", "execution_completed"] {
        assert_eq!(events.next().await.unwrap().body.name(), wanted);
    }
    log.lock().clear();
    assert!(engine.call(call("look")).await.is_success());
    assert_eq!(*log.lock(), ["read"], "a read waits for no disk");
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_effects_and_no_reads_and_recovers() {
    let (log, full) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let engine = engine(&log, &full);
    let refused = engine.call(call("pay")).await;
    assert_eq!((kind(&refused), refused.attempts), (ErrorKind::StorageUnavailable, 0));
    assert!(refused.error().unwrap().message().contains("the disk is full"));
    assert!(engine.call(call("look")).await.is_success());
    assert_eq!(*log.lock(), ["read"]);
    let ends: Vec<Status> = records(&engine).await.iter().map(|record| record.status).collect();
    assert_eq!(ends, [Status::Succeeded, Status::Refused]);
    full.store(false, Ordering::SeqCst);
    assert!(engine.call(call("pay")).await.is_success());
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_fills_up_while_a_call_runs_is_waited_for() {
    let (log, full) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let engine = engine(&log, &full);
    let fill = {
        let full = Arc::clone(&full);
        ToolBuilder::from_fn("fill", move |_: Value| {
            full.store(true, Ordering::SeqCst);
            async { "filled" }
        })
    };
    engine.registry().register(fill).unwrap();
    // Room again before the deadline: the caller hears the result.
    let (result, ()) = tokio::join!(engine.call(call("fill")), async {
        sleep(Duration::from_secs(3)).await;
        full.store(false, Ordering::SeqCst);
    });
    assert_eq!(result.to_text(Lang::En), "filled");
    // No room: the caller hears that it ran, and that it must not be repeated.
    let short = call("fill").timeout(Duration::from_secs(1));
    let result = engine.call(short).await;
    assert_eq!(kind(&result), ErrorKind::StorageUnavailable);
    assert!(result.error().unwrap().message().contains(&result.id.to_string()));
    assert!(result.to_text(Lang::En).contains("Do not repeat it"));
    let record = engine.records().get(&TenantId::default(), result.id).await.unwrap().unwrap();
    assert_eq!(record.status, Status::Succeeded, "what really happened is what is recorded");
}

#[tokio::test]
async fn calls_that_an_earlier_process_left_behind_are_reported_once() {
    let (sender, told) = std::sync::mpsc::channel();
    let _engine = Engine::builder()
        .store(Faulty::new(Disk::default()))
        .on_event(move |event| sender.send(serde_json::to_value(event).unwrap()).unwrap())
        .build()
        .unwrap();
    let event = told.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(event["event_type"], "execution_failed");
    assert_eq!(event["status"], "interrupted");
    assert_eq!(event["call_ref"], "toolu_lost");
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err());
}

/// A store that is slow, or behind until it is told that it has caught up.
#[derive(Clone, Default)]
struct Slow {
    begin: Duration,
    flush: Duration,
    output: Duration,
    behind: Arc<AtomicBool>,
    caught_up: Arc<Notify>,
}

impl Slow {
    fn behind() -> Self {
        Self { behind: Arc::new(AtomicBool::new(true)), ..Self::default() }
    }

    fn catch_up(&self) {
        self.behind.store(false, Ordering::SeqCst);
        self.caught_up.notify_waiters();
    }
}

async fn nap(time: Duration) -> Result<(), Error> {
    if !time.is_zero() {
        sleep(time).await;
    }
    Ok(())
}

impl Faults for Slow {
    fn keeps_intents(&self) -> bool {
        true
    }
    fn keeps_up(&self) -> bool {
        !self.behind.load(Ordering::SeqCst)
    }
    fn caught_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.caught_up.notified())
    }
    fn before_begin<'a>(&'a self, _: &'a Intent) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(nap(self.begin))
    }
    fn before_flush(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(nap(self.flush))
    }
    fn before_output(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(nap(self.output))
    }
}

fn over(store: Slow, tool: ToolBuilder) -> Engine {
    Engine::builder().tool(tool).store(Faulty::new(store)).build().unwrap()
}

/// A tool that counts how often it has begun.
fn begun(name: &str, count: &Arc<AtomicUsize>) -> ToolBuilder {
    let count = Arc::clone(count);
    ToolBuilder::from_fn(name, move |_: Value| {
        count.fetch_add(1, Ordering::SeqCst);
        async { "done" }
    })
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_ends_while_it_begins_does_not_run() {
    let (count, time) = (Arc::default(), Duration::from_millis(100));
    let engine = over(Slow { begin: time, ..Slow::default() }, begun("pay", &count));
    let result = engine.call(call("pay").timeout(time)).await;
    assert_eq!(count.load(Ordering::SeqCst), 0, "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_ends_while_the_store_is_behind_does_not_run() {
    let (count, store) = (Arc::default(), Slow::behind());
    let look = begun("look", &count).behaviour(Behaviour::READ_ONLY);
    let engine = over(store.clone(), look.timeout(Duration::from_secs(1)));
    let start = Instant::now();
    let (result, ()) = tokio::join!(engine.call(call("look")), async {
        sleep(Duration::from_secs(20)).await;
        store.catch_up();
    });
    assert_eq!((count.load(Ordering::SeqCst), start.elapsed().as_secs()), (0, 20), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_the_store_can_be_cancelled() {
    let look = slow("look", 1, &Arc::default()).behaviour(Behaviour::READ_ONLY);
    let engine = over(Slow::behind(), look);
    let start = Instant::now();
    let conversation = Context::for_conversation("agent", "a");
    let (result, cancelled) =
        tokio::join!(engine.call(call("look").context(conversation)), async {
            sleep(Duration::from_secs(1)).await;
            engine.cancel_conversation(&TenantId::default(), "a")
        });
    let took = start.elapsed().as_secs();
    assert_eq!((kind(&result), cancelled, took), (ErrorKind::Cancelled, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_before_the_flush_leaves_a_whole_story() {
    let look = slow("look", 0, &Arc::default()).behaviour(Behaviour::READ_ONLY);
    let engine = over(Slow { flush: Duration::from_secs(1), ..Slow::default() }, look);
    let mut events = engine.events();
    let keyed = engine.call(call("look").idempotency_key("k"));
    assert!(timeout(Duration::from_millis(500), keyed).await.is_err());
    engine.finish().await;
    assert_eq!(records(&engine).await.len(), 1);
    let mut names = Vec::new();
    while let Ok(Some(event)) = timeout(Duration::from_secs(5), events.next()).await {
        names.push(event.body.name());
    }
    assert_eq!(names, ["execution_started", "execution_completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_while_the_output_is_kept_does_not_lose_the_result() {
    let pay = ToolBuilder::from_fn("pay", |_: Value| async { "x".repeat(300_000) });
    let engine = over(Slow { output: Duration::from_secs(2), ..Slow::default() }, pay);
    let result = engine.call(call("pay").timeout(Duration::from_secs(1))).await;
    assert!(result.is_success(), "{:?}", result.error());
}

#[tokio::test]
async fn a_call_that_its_process_left_is_given_up_once() {
    let tool = ToolBuilder::from_fn("look", |_: Value| async { "seen" });
    let engine = Engine::builder().tool(tool).build().unwrap();
    let mut events = engine.events();
    let came: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let id = CallId::at(came);
    let asked = || CallRequest::new("look", json!({"at": "it"})).call_ref("toolu_1").id(id);
    for _ in 0..2 {
        engine.give_up(asked(), came).await.unwrap();
    }
    let record = only_record(&engine).await;
    assert_eq!((record.id, record.status), (id, Status::Interrupted));
    assert_eq!((record.created_at, record.attempts), (came, 0));
    assert_eq!(
        (&*record.arguments, record.call_ref.as_deref()),
        (&json!({"at": "it"}), Some("toolu_1"))
    );
    assert_eq!(events.next().await.unwrap().body.name(), "execution_failed");
    // One that has ended keeps its result.
    let done = engine.call(CallRequest::new("look", json!({}))).await;
    engine.give_up(CallRequest::new("look", json!({})).id(done.id), came).await.unwrap();
    let kept = engine.records().get(&TenantId::default(), done.id).await.unwrap().unwrap();
    assert_eq!(kept.status, Status::Succeeded);
}
