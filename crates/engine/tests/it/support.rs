//! Helpers shared by test modules.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windlass::{
    Begun, BoxFuture, CallId, CallRecord, CallRequest, CallResult, Engine, Error, ErrorKind,
    Intent, MemoryStore, OutputPart, PageRequest, RecordFilter, RecordPage, RecordStore,
    Statistics, Summary, TenantId, ToolBuilder,
};

pub(crate) async fn records(engine: &Engine) -> Vec<CallRecord> {
    let all = RecordFilter::default();
    let page = PageRequest::first(1000);
    engine.records().query(&TenantId::default(), &all, page).await.unwrap().records
}

pub(crate) async fn only_record(engine: &Engine) -> CallRecord {
    let mut records = records(engine).await;
    assert_eq!(records.len(), 1, "exactly one record");
    records.remove(0)
}

/// A call without arguments.
pub(crate) fn call(tool: &str) -> CallRequest {
    CallRequest::new(tool, json!({}))
}

/// A tool that takes so many seconds, and counts how often it got to its end.
pub(crate) fn slow(name: &str, seconds: u64, done: &Arc<AtomicUsize>) -> ToolBuilder {
    let done = Arc::clone(done);
    ToolBuilder::from_fn(name, move |_: Value| {
        let done = Arc::clone(&done);
        async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            done.fetch_add(1, Ordering::SeqCst);
            "done"
        }
    })
}

pub(crate) fn kind(result: &CallResult) -> ErrorKind {
    result.error().map(Error::kind).expect("an error")
}

/// What is different about a store: each method answers in place of the store
/// in memory, or comes before its own.
pub(crate) trait Faults: Send + Sync + 'static {
    fn keeps_intents(&self) -> bool {
        false
    }
    fn take_interrupted(&self) -> Vec<CallRecord> {
        Vec::new()
    }
    fn keeps_up(&self) -> bool {
        true
    }
    fn caught_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }
    fn before_begin<'a>(&'a self, _intent: &'a Intent) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(ready(Ok(())))
    }
    fn before_flush(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(ready(Ok(())))
    }
    fn before_output(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(ready(Ok(())))
    }
}

/// A store in memory with faults.
pub(crate) struct Faulty<F> {
    memory: MemoryStore,
    faults: F,
}

impl<F: Faults> Faulty<F> {
    pub(crate) fn new(faults: F) -> Self {
        Self { memory: MemoryStore::new(), faults }
    }
}

impl<F: Faults> RecordStore for Faulty<F> {
    fn append(&self, record: CallRecord) {
        self.memory.append(record);
    }
    fn keeps_intents(&self) -> bool {
        self.faults.keeps_intents()
    }
    fn begin(&self, intent: Intent) -> BoxFuture<'_, Result<Begun, Error>> {
        Box::pin(async move {
            self.faults.before_begin(&intent).await?;
            self.memory.begin(intent).await
        })
    }
    fn take_interrupted(&self) -> Vec<CallRecord> {
        self.faults.take_interrupted()
    }
    fn keeps_up(&self) -> bool {
        self.faults.keeps_up()
    }
    fn caught_up(&self) -> BoxFuture<'_, ()> {
        self.faults.caught_up()
    }
    fn flush(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            self.faults.before_flush().await?;
            self.memory.flush().await
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
        Box::pin(async move {
            self.faults.before_output().await?;
            self.memory.keep_output(tenant, id, output).await
        })
    }
    fn forget_output<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.memory.forget_output(tenant, id)
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
}
