//! What a store that survives the process is told, and when: the intent before
//! the effect, the record before the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::{
    Begun, Behaviour, BoxFuture, CallId, CallRecord, CallRequest, Engine, Error, ErrorKind, Intent,
    Lang, MemoryStore, OutputPart, PageRequest, Preset, RecordFilter, RecordPage, RecordStore,
    Statistics, Status, Summary, TenantId, ToolBuilder,
};

use crate::support::{kind, records};

/// What happened, in order.
type Log = Arc<Mutex<Vec<&'static str>>>;

/// A store whose disk can be full.
struct Disk {
    memory: MemoryStore,
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

impl RecordStore for Disk {
    fn append(&self, record: CallRecord) {
        self.memory.append(record);
    }
    fn keeps_intents(&self) -> bool {
        true
    }
    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<Begun, Error>> {
        Box::pin(async move {
            assert!(!intent.arguments.to_string().contains("hush"), "hidden values are masked");
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.write("intent")?;
            self.memory.begin(intent).await
        })
    }
    fn flush(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.write("flush")
        })
    }
    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<CallRecord>, Error>> {
        self.memory.get(tenant, id)
    }
    fn query<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a RecordFilter,
        page: PageRequest,
    ) -> BoxFuture<'a, Result<RecordPage, Error>> {
        self.memory.query(tenant, filter, page)
    }
    fn summary<'a>(
        &'a self,
        tenant: &'a TenantId,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Summary, Error>> {
        self.memory.summary(tenant, conversation)
    }
    fn statistics<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Statistics, Error>> {
        self.memory.statistics(tenant)
    }
    fn keep_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        output: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.memory.keep_output(tenant, id, output)
    }
    fn read_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Option<OutputPart>, Error>> {
        self.memory.read_output(tenant, id, offset, limit)
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
        .store(Disk { memory: MemoryStore::new(), log, full, told: AtomicBool::new(false) })
        .build()
        .unwrap()
}

fn call(tool: &str) -> CallRequest {
    CallRequest::new(tool, json!({}))
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
        tokio::time::sleep(Duration::from_secs(3)).await;
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
    let disk = Disk {
        memory: MemoryStore::new(),
        log: Log::default(),
        full: Arc::default(),
        told: AtomicBool::new(false),
    };
    let _engine = Engine::builder()
        .store(disk)
        .on_event(move |event| sender.send(serde_json::to_value(event).unwrap()).unwrap())
        .build()
        .unwrap();
    let event = told.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(event["event_type"], "execution_failed");
    assert_eq!(event["status"], "interrupted");
    assert_eq!(event["call_ref"], "toolu_lost");
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err());
}
