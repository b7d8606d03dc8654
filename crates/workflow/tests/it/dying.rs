//! A run whose process dies at each of its writes, and goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::{Value, json};
use tokio::sync::broadcast;
use windlass::{BoxFuture, CallRequest, Engine, Error, ErrorKind, Kind, TenantId, ToolBuilder};
use windlass_workflow::log::{Entry, Message, RunHead, RunStatus};
use windlass_workflow::store::{MemoryRuns, RunChange, RunKey, RunPage, RunStore, StoredRun};
use windlass_workflow::{Answer, Runs, Workflows};

use crate::setup::Done;

/// A store that fails from some write on, as if the process had ended there.
struct Dying {
    runs: MemoryRuns,
    writes_left: AtomicI64,
}

impl Dying {
    fn write(&self) -> Result<(), Error> {
        match self.writes_left.fetch_sub(1, Ordering::SeqCst) > 0 {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::StorageUnavailable, "the process is dead")),
        }
    }
}

macro_rules! if_alive {
    ($self:ident, $do:expr) => {
        match $self.write() {
            Ok(()) => $do,
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    };
}

impl RunStore for Dying {
    fn owner(&self) -> Arc<str> {
        self.runs.owner()
    }
    fn is_alive<'a>(&'a self, owner: &'a str) -> BoxFuture<'a, Result<bool, Error>> {
        self.runs.is_alive(owner)
    }
    fn create<'a>(&'a self, head: &'a RunHead) -> BoxFuture<'a, Result<u64, Error>> {
        if_alive!(self, self.runs.create(head))
    }
    fn head<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredRun>, Error>> {
        self.runs.head(tenant, run)
    }
    fn update<'a>(
        &'a self,
        head: &'a RunHead,
        version: u64,
    ) -> BoxFuture<'a, Result<Option<u64>, Error>> {
        if_alive!(self, self.runs.update(head, version))
    }
    fn append<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        group: u32,
        entries: &'a [Entry],
    ) -> BoxFuture<'a, Result<(), Error>> {
        if_alive!(self, self.runs.append(tenant, run, group, entries))
    }
    fn entries<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<(Vec<Entry>, u32), Error>> {
        self.runs.entries(tenant, run)
    }
    fn send<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        if_alive!(self, self.runs.send(tenant, run, message))
    }
    fn messages<'a>(
        &'a self,
        tenant: &'a TenantId,
        run: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Message>, Error>> {
        self.runs.messages(tenant, run)
    }
    fn keep_definition<'a>(
        &'a self,
        tenant: &'a TenantId,
        digest: &'a str,
        definition: &'a Value,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.runs.keep_definition(tenant, digest, definition)
    }
    fn definition<'a>(
        &'a self,
        tenant: &'a TenantId,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, Error>> {
        self.runs.definition(tenant, digest)
    }
    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        page: RunPage<'a>,
    ) -> BoxFuture<'a, Result<Vec<RunHead>, Error>> {
        self.runs.list(tenant, page)
    }
    fn open(&self) -> BoxFuture<'_, Result<Vec<RunKey>, Error>> {
        self.runs.open()
    }
    fn changes(&self) -> broadcast::Receiver<RunChange> {
        self.runs.changes()
    }
}

const INNER: &str = "name: inner
kind: workflow
description: Inner.
parameters: [{name: of, type: string, required: true}]
steps:
  a: {call: effect, with: {name: \"${input.of} a\"}}
  pause: {wait: 10ms}
  b: {call: effect, with: {name: \"${input.of} b\"}, after: pause}";

const OUTER: &str = "name: outer
kind: workflow
description: Outer.
steps:
  first: {call: effect, with: {name: first}}
  each:
    map: [x, y]
    do:
      one: {call: effect, with: {name: \"${item}\"}}
      within: {call: inner, with: {of: \"${item}\"}}
  person: {ask: {text: go on?, actions: [yes]}, after: each}
  race: {parallel: {l: {call: effect, with: {name: l}}, r: {call: effect, with: {name: r}}}, after: person}
  last: {call: effect, with: {name: \"last ${person.action}\"}}
output: \"${last.id}\"";

/// Everything that a run of it does, once.
const ALL: [&str; 10] = ["first", "l", "last yes", "r", "x", "x a", "x b", "y", "y a", "y b"];

/// Runs it with a process that dies at this write; then it goes on in one that
/// lives. Returns whether it died at all.
async fn with_death_at(write: i64) -> bool {
    let store = Arc::new(Dying { runs: MemoryRuns::default(), writes_left: AtomicI64::new(write) });
    let (done, workflows) = (Done::default(), Workflows::new(Arc::clone(&store) as _));
    let (kinds, effect) = (workflows.clone(), done.clone());
    let engine = Engine::builder()
        .kind(Kind::Workflow, move |spec| kinds.bind(spec))
        .tool(ToolBuilder::from_fn("effect", move |input: Value| {
            effect.say(input["name"].as_str().unwrap());
            async move { json!({"id": input["name"]}) }
        }))
        .build()
        .unwrap();
    for (file, text) in [("inner.yaml", INNER), ("outer.yaml", OUTER)] {
        let report = engine.load_text(file, text);
        assert!(report.errors.is_empty(), "{:?}", report.errors);
    }
    let runs = Runs::new(&engine, &workflows);
    let own = TenantId::default();
    let result = engine.call(CallRequest::new("outer", json!({}))).await;
    let run = result.id.to_string();
    let answer = || Answer { action: Some("yes".to_owned()), ..Answer::default() };
    let mut died = false;
    for _ in 0..60 {
        if store.writes_left.load(Ordering::SeqCst) <= 0 && !died {
            died = true;
            store.writes_left.store(i64::MAX, Ordering::SeqCst);
        }
        let Some(stored) = store.head(&own, &run).await.unwrap() else {
            // It died before anything was written; then nothing was done.
            assert!(done.all().is_empty(), "{write}: {:?}", done.all());
            return true;
        };
        match stored.head.status {
            RunStatus::Succeeded => break,
            RunStatus::Failed | RunStatus::Cancelled => panic!("{write}: {:#?}", stored.head),
            RunStatus::Waiting | RunStatus::Running => {}
        }
        // As a server does: those that wait are answered and gone on with.
        for (tenant, open) in store.open().await.unwrap() {
            let _ = runs.answer(&tenant, &open, answer()).await;
            let _ = runs.go_on(&tenant, &open).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let view = runs.show(&own, &run).await.unwrap().unwrap();
    assert_eq!(view.head.status, RunStatus::Succeeded, "{write}: {view:#?}");
    let mut all = done.all();
    all.sort();
    assert_eq!(all, ALL, "a process that dies at write {write}");
    died
}

#[tokio::test]
async fn wherever_a_process_dies_every_effect_happens_once() {
    let mut write = 0;
    while with_death_at(write).await {
        write += 1;
        assert!(write < 500);
    }
    assert!(write > 15, "{write}");
}
